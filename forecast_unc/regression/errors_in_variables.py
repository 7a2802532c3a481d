r"""A Gaussian process whose inputs and targets share errors: lagged values seen with noise.

Rows :math:`\tilde y_t = f(x_t) + w_t + (T e)_t` with inputs seen as
:math:`\tilde x_{tj} = x_{tj} + (U_j e)_t` have, to first order in the errors e,

.. math::
    \tilde y = f(\tilde x) + w + B e, \quad B = T - \textstyle\sum_j \mathrm{diag}(g_j) U_j, \qquad
    K_{tot} = K + s_w^2 I + B (s_e^2 I + V) B',

with g the slopes of the posterior mean, and V what is known of the errors' variances. Given the
slopes this is a Gaussian process with correlated noise, whose evidence tells s_w from s_e.

The noises are learned with the expansion at the inputs as they were observed. They are what came
before the target, so that the innovations of the rows in the order of time do not depend on them,
and the weights of a linear f are estimated without bias as soon as B is right. But what is left is
of second order in all of e, and with many rows it biases f by more than its std.

Where next to no noise is part of the series ("observation") the expansion is renewed at the
smoothed inputs, with :math:`\hat e = E[e \mid y]` of the round before,

.. math::
    \tilde y_t - \textstyle\sum_j g_j (U_j \hat e)_t
    = f(\tilde x_t - (U \hat e)_t) + w_t + (B e)_t,

so that what is left is of second order in the errors of :math:`\hat e`. Smoothed inputs know the
target. Noises and linear weights' scale learned there would explain their own smoothing: they are
kept, and only the length-scales are learned anew, once. With noise of the series the smoothed
inputs bias even the weights ("both", AR(1) .9 with errors, n = 500: slope .95 for .85): not there.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array
from forecast_unc.regression.descent import descend
from forecast_unc.regression.evidence import GaussianProcessEvidence
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.kernel_posterior import KernelPosterior
from forecast_unc.regression.regressor import LeadingMeans
from forecast_unc.regression.shared_errors import SharedErrors
from forecast_unc.regression.standardize import column_scale

ErrorKind = Literal["observation", "both"]

# "observation" keeps s_w at this share of s_e: some noise is left for what f cannot follow. At .1
# the NLPD of 100 steps of Mackey-Glass is .05 to .1 higher.
_SHARE = 0.03
# Times that "observation" renews the expansion at smoothed inputs: on Mackey-Glass, 500 rows and
# errors of variance .05 the squared error of f at the true inputs falls from .048 of that to .016
# with one, .013 with two and .009 with four; NLPD by .27, .30 and .32.
_SMOOTHINGS = 2
# Least s_w in amplitudes, as in GPRegressor.
_LEAST_RATIO = 1e-4
# Where the search starts: one noise is that of the plain fit, the other this part of it.
_SMALL = 0.05
# Slopes are renewed until the shares of the two variances move by less than this, as long as no
# more evidence is lost. Of an autoregression the evidence hardly depends on the slopes, while the
# shares do: after one round s_w is a fifth to a half too small. Where it falls the slopes are too
# uncertain for the expansion (Mackey-Glass: by 3 to 17 nats, and NLPD goes up by .2 to .5).
_STILL = 0.01
_MOST_LOSS = 1.0
_MOST_ROUNDS = 20


class _Search(NamedTuple):
    """Of log [l, a, tau, s_w, s_e] on standardized data, each (d + 3 + g,)."""

    free: NDArray[np.bool_]
    median: Array
    log_std: Array
    bounds: Array  # (d + 3 + g, 2)
    starts: list[Array]


class _Expansion(NamedTuple):
    """Rows to first order in their errors: targets = f(inputs) + w + B e, B with these slopes."""

    inputs: Array  # (n, d)
    targets: Array  # (n,)
    slopes: Array  # (n, d)


class ErrorsInVariablesGP(GPRegressor):
    """A Gaussian process that has learned from rows with shared errors; see `learn`.

    Its inputs in predictions are values without error, its posterior has two kinds of noise.

    Attributes
    ----------
    noise_std_ : float
        Std s_w of the noise that is part of the series.
    observation_std_ : float
        Std s_e of the errors.
    log_evidence_ : float
        Of the rows with the covariance K_tot at the observed inputs, where the noises were learned.
    n_rounds_ : int
        Times that the slopes were renewed there.
    n_smoothings_ : int
        Times that the expansion was then renewed at smoothed inputs.
    """

    observation_std_: float
    n_rounds_: int
    n_smoothings_: int

    _slopes_of: KernelPosterior
    _error_means: Array

    @classmethod
    def learn(
        cls,
        plain: GPRegressor,
        X: Array,
        y: Array,
        errors: SharedErrors,
        kind: ErrorKind,
    ) -> Self:
        """Hyper-parameters and both noises by the evidence, with the slopes of round after round.

        Parameters
        ----------
        plain : GPRegressor
            Fitted on the same rows as if inputs had no errors: the slopes and the start of the
            first round.
        X : ndarray of shape (n, d)
            Inputs as observed, in the order of time.
        y : ndarray of shape (n,)
            Targets as observed.
        errors : SharedErrors
            What they have in common.
        kind : {"observation", "both"}
            Keep the noise of the series at a share of the errors', and smooth; or learn both.

        Returns
        -------
        ErrorsInVariablesGP
        """
        with blas_threads(len(y)):
            kept = cls._round(plain, X, y, errors, kind)
            most, kept.n_rounds_ = kept.log_evidence_, 1
            for rounds in range(2, _MOST_ROUNDS + 1):
                now, before = cls._round(kept, X, y, errors, kind), kept
                if now.log_evidence_ < most - _MOST_LOSS:
                    break
                most, now.n_rounds_ = max(most, now.log_evidence_), rounds
                kept = now
                if abs(now._process_share() - before._process_share()) < _STILL:
                    break
            return kept._smoothed(X, y, errors) if kind == "observation" else kept

    def condition_errors(self, X: Array, y: Array, errors: SharedErrors) -> Self:
        """The same hyper-parameters and slopes with other rows; at O(n^3).

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs.
        y : ndarray of shape (n,)
            Targets.
        errors : SharedErrors
            Of these rows.

        Returns
        -------
        ErrorsInVariablesGP
            A new one.
        """
        conditioned = self._copy()
        with blas_threads(len(y)):
            conditioned._set_posterior(X, y, errors)
        return conditioned

    def leading(
        self, X: Array, y: Array, errors: SharedErrors, counts: Sequence[int]
    ) -> tuple[LeadingMeans, Array]:
        """Predictive means and means of the errors, given the first rows alone.

        At the observed inputs by the first blocks of the factor of all, as `leading_means`.
        Smoothed inputs know what comes after: with them at O(n^3) a count.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            The rows that this was fitted or conditioned on.
        y : ndarray of shape (n,)
            Their targets.
        errors : SharedErrors
            What they have in common, N errors.
        counts : sequence of int
            How many of the first rows each mean rests on.

        Returns
        -------
        means : callable
            As of `leading_means`.
        errors : ndarray of shape (k, N)
            E[e | the first rows], 0 for errors that none of them has.
        """
        if not self.n_smoothings_:
            chol, weights = self._kernel_posterior.factors[0].chol, np.zeros((len(y), len(counts)))
            for column, m in zip(weights.T, counts, strict=True):
                block = np.asfortranarray(chol[:m, :m])
                column[:m], _ = dpotrs(block, y[:m] - self._output_offset, lower=1)
            at = _Expansion(X, y, self._slopes_of.gradient(X))
            return self.leading_means(X, y, counts), self._errors_given(at, errors, weights).T
        each = [self.condition_errors(X[:m], y[:m], errors.first(m)) for m in counts]

        def means(inputs: Array) -> Array:
            pairs = zip(each, inputs, strict=True)
            return np.array([one.posterior_.mean(x[None])[0] for one, x in pairs])

        return means, np.array([one._error_means for one in each])

    def condition(self, X: ArrayLike, y: ArrayLike, input_cov: ArrayLike | None = None) -> NoReturn:
        """Raise: rows alone do not say what errors they share."""
        raise TypeError("condition must be given the errors of the rows. Call condition_errors.")

    def _process_share(self) -> float:
        """Share of the noise of the series in the two variances."""
        return self.noise_std_**2 / (self.noise_std_**2 + self.observation_std_**2)

    def _copy(self) -> Self:
        new = type(self)(**self.get_params(deep=False))
        new.__dict__.update(self.__dict__)
        return new

    @classmethod
    def _round(
        cls, before: GPRegressor, X: Array, y: Array, errors: SharedErrors, kind: ErrorKind
    ) -> Self:
        """Maximize the evidence with the slopes of an earlier fit."""
        self = cls(**before.get_params(deep=False))
        self.__dict__.update(before.__dict__)
        self._slopes_of = replace(before._kernel_posterior, factors=())  # no more than its mean
        self.n_smoothings_ = 0
        self._search_errors(_Expansion(X, y, self._slopes_of.gradient(X)), errors, kind)
        self._set_posterior(X, y, errors)
        return self

    def _smoothed(self, X: Array, y: Array, errors: SharedErrors) -> Self:
        """With length-scales learned at smoothed inputs, all else held, and the posterior there."""
        new = self._copy()
        at = self._at_smoothed(X, y, errors)
        new._search_errors(at, errors, "observation", lengthscales_alone=True)
        new.log_evidence_, new.n_smoothings_ = self.log_evidence_, _SMOOTHINGS
        new._set_posterior(X, y, errors)
        return new

    def _search_errors(
        self,
        at: _Expansion,
        errors: SharedErrors,
        kind: ErrorKind,
        lengthscales_alone: bool = False,
    ) -> None:
        """Set the hyper-parameters by the evidence of an expansion."""
        input_scale = column_scale(at.inputs)
        output_scale = float(column_scale(at.targets[:, None])[0])
        d = len(input_scale)
        groups = np.zeros(d, dtype=np.intp) if self.groups is None else self.groups
        evidence = GaussianProcessEvidence(
            (at.inputs - self._input_offset) / input_scale,
            (at.targets - self._output_offset) / output_scale,
            self._learns_linear,
            np.asarray(groups),
            self._bias_scale / output_scale if self._learns_linear else 1.0,
            errors.covariance(at.slopes, output_scale),
        )
        search = self._error_search(evidence, input_scale, output_scale, kind)
        if lengthscales_alone:
            search.free[d:] = False
        if search.free.any():
            self._maximize_errors(evidence, search, kind, input_scale, output_scale)

    def _error_search(
        self,
        evidence: GaussianProcessEvidence,
        input_scale: Array,
        output_scale: float,
        kind: ErrorKind,
    ) -> _Search:
        """The search of the plain regressor with the errors' std beside that of the noise."""
        space, d = self._search_space(evidence, input_scale, output_scale), len(input_scale)
        again = np.append(np.arange(len(space.start)), len(space.start) - 1)  # s_e as s_w
        free = np.append(space.free, True)
        if kind == "observation":
            free[-2] = False
        found = space.start.copy()
        found[:d] = np.log(self.lengthscales_ / input_scale)
        found[d] = np.log(self.amplitude_ / output_scale)
        scales = self.linear_scale_ * input_scale / output_scale
        for group, column in zip(*np.unique(evidence.groups, return_index=True), strict=True):
            if group >= 0 and scales[column] > 0.0:
                found[d + 1 + group] = np.log(scales[column])
        found[-1] = np.log(self.noise_std_ / output_scale)
        starts = []
        if hasattr(self, "observation_std_"):
            starts.append(np.append(found, np.log(self.observation_std_ / output_scale)))
        else:
            for small in (-2, -1) if kind == "both" else (-2,):
                start = found[again]
                start[small] += np.log(_SMALL)
                starts.append(start)
        given = ~space.free
        for start in starts:
            start[:-1][given] = space.start[given]
        bounds = space.bounds[again]
        return _Search(
            free,
            space.median[again],
            space.log_std[again],
            bounds,
            [np.clip(start, *bounds.T) for start in starts],
        )

    def _maximize_errors(
        self,
        evidence: GaussianProcessEvidence,
        search: _Search,
        kind: ErrorKind,
        input_scale: Array,
        output_scale: float,
    ) -> None:
        """Set the hyper-parameters of the best search."""
        d, free = len(input_scale), search.free
        median, precision = search.median[free], search.log_std[free] ** -2.0
        tied = kind == "observation"

        def noise(theta: Array) -> tuple[float, float]:
            """s_w, no less than its least ratio to the amplitude, and its own share of it."""
            own = _SHARE**2 * np.exp(2.0 * theta[-1]) if tied else np.exp(2.0 * theta[-2])
            least = (_LEAST_RATIO * np.exp(theta[d])) ** 2
            return float(np.sqrt(own + least)), float(own / (own + least))

        def objective(x: Array, theta: Array) -> tuple[float, Array]:
            theta[free] = x
            scales, (noise_std, share) = np.exp(theta), noise(theta)
            value, gradient = evidence(
                scales[:d], scales[d], scales[d + 1 : -2], noise_std, scales[-1]
            )
            gradient[d] += (1.0 - share) * gradient[-2]
            gradient[-2] *= share
            gradient[-1] += gradient[-2] if tied else 0.0
            away = x - median
            return value + float(0.5 * precision @ away**2), gradient[free] + precision * away

        found = []
        for start in search.starts:
            theta = start.copy()
            end = descend(
                partial(objective, theta=theta),
                start[free],
                search.bounds[free],
                self.tol,
            )
            theta[free] = end.x
            found.append((end, theta))
        end, theta = min(found, key=lambda one: one[0].value)
        if not np.isfinite(end.value):
            raise ValueError(
                "noise must be 'process' for these rows; got a covariance that is not positive "
                f"definite with {kind!r}. Leave noise out."
            )
        theta[-2] = np.log(noise(theta)[0])
        self._set_hyperparameters(theta[:-1], evidence.groups, input_scale, output_scale)
        self.observation_std_ = float(np.exp(theta[-1])) * output_scale
        log_prior = -0.5 * float(precision @ (end.x - median) ** 2)
        self.log_evidence_ = -end.value - log_prior - len(evidence.y) * float(np.log(output_scale))
        self.converged_, self.n_iter_ = end.converged, end.n_iter

    def _set_posterior(self, X: Array, y: Array, errors: SharedErrors) -> None:
        """The posterior of rows, from the slopes as they were when the noises were learned."""
        at = _Expansion(X, y, self._slopes_of.gradient(X))
        self._set_posterior_at(at, errors)
        for _ in range(self.n_smoothings_):
            at = self._at_smoothed(X, y, errors)
            self._set_posterior_at(at, errors)

    def _at_smoothed(self, X: Array, y: Array, errors: SharedErrors) -> _Expansion:
        """The expansion at inputs less the means of their errors, with the posterior's slopes."""
        known, in_inputs = X.copy(), errors.in_inputs(self._error_means)
        q = in_inputs.shape[1]
        known[:, :q] -= in_inputs
        slopes = self.posterior_.gradient(known)
        return _Expansion(known, y - np.einsum("nq,nq->n", slopes[:, :q], in_inputs), slopes)

    def _errors_given(self, at: _Expansion, errors: SharedErrors, weights: Array) -> Array:
        """E[e] = D B' K_tot^-1 y, (N, ...), with the weights K_tot^-1 y of shape (n, ...)."""
        var = self.observation_std_**2 + errors.known_var
        return np.asarray((errors.in_rows(at.slopes).T @ weights).T * var).T

    def _set_posterior_at(self, at: _Expansion, errors: SharedErrors) -> None:
        """The posterior and the means of the errors of an expansion."""
        inputs, n = at.inputs - self._input_offset, len(at.targets)
        process = self._process(n)
        K = np.asfortranarray(process.covariance(inputs, inputs))
        K.flat[:: n + 1] += self.noise_std_**2
        errors.covariance(at.slopes).add_to(K, self.observation_std_)
        chol, info = dpotrf(K, lower=1, clean=1, overwrite_a=1)
        if info:
            raise ValueError(
                "noise must be 'process' for these rows; got a covariance that is not positive "
                f"definite at row {info}. Leave noise out."
            )
        posterior = process.posterior(inputs, at.targets, chol)
        # The errors of its data are not independent: functions are not drawn as a whole.
        factors = tuple(replace(factor, error_var=None) for factor in posterior.factors)
        observation_var = process.hyper.widening * self.observation_std_**2
        self.posterior_ = replace(posterior, factors=factors, observation_var=observation_var)
        weights = posterior.weights[:n] / self.amplitude_**2  # K_tot^-1 y
        self._error_means = self._errors_given(at, errors, weights)
