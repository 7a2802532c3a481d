r"""A Gaussian process whose inputs and targets share errors: lagged values seen with noise.

Rows :math:`\tilde y = f(\tilde x) + w + B e`, to first order in the errors e of inputs and targets,
have the covariance :math:`K + s_w^2 I + B (s_e^2 I + V) B'`: theory/two_noises.md.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dpotrf
from scipy.sparse import csr_array, find, tril

from forecast_unc._checks import refusal
from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array
from forecast_unc.regression.estimator import LeadingMeans, means_of
from forecast_unc.regression.evidence import CorrelatedErrors, GaussianProcessEvidence
from forecast_unc.regression.gp import GPRegressor, Units
from forecast_unc.regression.kernel_posterior import KernelPosterior
from forecast_unc.regression.search import LEAST_NOISE_RATIO, Objective, SearchSpace, maximize

ErrorKind = Literal["observation", "both"]

# "observation" keeps s_w at this share of s_e: some noise is left for what f cannot follow. At .1
# the NLPD of 100 steps of Mackey-Glass is .05 to .1 higher.
_SHARE = 0.03
# Times that "observation" renews the expansion at smoothed inputs: on Mackey-Glass, 500 rows and
# errors of variance .05 the squared error of f at the true inputs falls from .048 of that to .016
# with one, .013 with two and .009 with four; NLPD by .27, .30 and .32.
_SMOOTHINGS = 2
# Where the search starts: one noise is that of the plain fit, the other this part of it.
_SMALL = 0.05
# Slopes are renewed until the shares of the two variances move by less than this, as long as no
# more evidence is lost. Of an autoregression the evidence hardly depends on the slopes, while the
# shares do: after one round s_w is a fifth to a half too small. Where it falls the slopes are too
# uncertain for the expansion (Mackey-Glass: by 3 to 17 nats, and NLPD goes up by .2 to .5).
_STILL = 0.01
_MOST_LOSS = 1.0
_MOST_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class SharedErrors:
    """Errors of n rows as linear maps of N independent ones."""

    targets: NDArray[np.intp]  # (n, k), which of the errors each target has
    target_weights: Array  # (k,), their weights there
    inputs: NDArray[np.intp]  # (n, m), which of them the inputs of each row have
    input_weights: Array  # (q, m), in the first q <= d inputs; the others are known
    known_var: Array  # (N,), besides the one that is learned, in squares of the target's unit

    def in_rows(self, slopes: Array) -> csr_array:
        """The matrix B of shape (n, N), with the slopes (n, d) of the function at the rows."""
        through = -slopes[:, : len(self.input_weights)] @ self.input_weights
        own = np.broadcast_to(self.target_weights, self.targets.shape)
        values, columns = np.hstack([own, through]), np.hstack([self.targets, self.inputs])
        n, k = columns.shape
        shape = (n, len(self.known_var))
        return csr_array((values.ravel(), columns.ravel(), np.arange(0, n * k + 1, k)), shape)

    def in_inputs(self, errors: Array) -> Array:
        """Errors (n, q) of the inputs that have some, from the errors (N,)."""
        return np.asarray(errors[self.inputs] @ self.input_weights.T)

    def first(self, m: int) -> Self:
        """Those of the first m rows alone."""
        return replace(self, targets=self.targets[:m], inputs=self.inputs[:m])

    def covariance(self, slopes: Array, unit: float = 1.0) -> CorrelatedErrors:
        """Their covariance in the rows, with the variances in squares of a unit."""
        B = self.in_rows(slopes)
        i, j, shape = find(tril(B @ B.T))
        known = ((B * (self.known_var / unit**2)) @ B.T).tocsr()
        entries: Array = np.asarray(known[i, j]).ravel()
        return CorrelatedErrors(i.astype(np.intp), j.astype(np.intp), shape, entries)


class _Expansion(NamedTuple):
    """Rows to first order in their errors: targets = f(inputs) + w + B e, B with these slopes."""

    inputs: Array  # (n, d)
    targets: Array  # (n,)
    slopes: Array  # (n, d)


class ErrorsInVariablesGP(GPRegressor):
    """A Gaussian process that has learned from rows with shared errors; see `learn`.

    Its inputs in predictions are values without error, its posterior has two kinds of noise.
    """

    observation_std_: float  # s_e, of the errors; noise_std_ is s_w, part of the series
    n_smoothings_: int  # times that the expansion is renewed at smoothed inputs

    _slopes_of: KernelPosterior  # no more than its mean
    _error_means: Array

    @classmethod
    def learn(
        cls, plain: GPRegressor, X: Array, y: Array, errors: SharedErrors, kind: ErrorKind
    ) -> Self:
        """Hyper-parameters and both noises by the evidence, with the slopes of round after round.

        Those of `plain`, fitted as if inputs had no errors, begin. "observation" keeps the noise of
        the series at a share of the errors', and smooths; "both" learns both.
        """
        with blas_threads(len(y)):
            kept = cls._round(plain, X, y, errors, kind)
            most = kept.log_evidence_
            for _ in range(_MOST_ROUNDS - 1):
                before, now = kept, cls._round(kept, X, y, errors, kind)
                if now.log_evidence_ < most - _MOST_LOSS:
                    break
                most, kept = max(most, now.log_evidence_), now
                if abs(now._process_share() - before._process_share()) < _STILL:
                    break
            return kept._smoothed(X, y, errors) if kind == "observation" else kept

    def condition_errors(self, X: Array, y: Array, errors: SharedErrors) -> Self:
        """A new one with the same hyper-parameters and slopes and other rows; at O(n^3)."""
        conditioned = copy.copy(self)
        with blas_threads(len(y)):
            conditioned.set_posterior(X, y, errors)
        return conditioned

    def condition(self, X: ArrayLike, y: ArrayLike, input_cov: ArrayLike | None = None) -> NoReturn:
        """Raise: rows alone do not say what errors they share."""
        raise TypeError("condition must be given the errors of the rows. Call condition_errors.")

    def set_posterior(self, X: Array, y: Array, errors: SharedErrors) -> None:
        """Make the posterior of rows from what was learned, with the slopes as they were then."""
        at = _Expansion(X, y, self._slopes_of.gradient(X))
        self._expand(at, errors)
        for _ in range(self.n_smoothings_):
            self._expand(self._at_smoothed(X, y, errors), errors)

    def leading(
        self, X: Array, y: Array, errors: SharedErrors, counts: Sequence[int]
    ) -> tuple[LeadingMeans, Array]:
        """Means as of `leading_means`, and E[e | the first rows] (k, N), 0 where none has them.

        Smoothed inputs know what comes after: with them at O(n^3) a count.
        """
        if not self.n_smoothings_:
            process, chol = self._process(len(y)), self._kernel_posterior.factors[0].chol
            weights = process.leading_weights(X, y, chol, counts)
            slopes = self._slopes_of.gradient(X)
            return process.means(X, weights), self._errors_given(slopes, errors, weights).T
        each = [self.condition_errors(X[:m], y[:m], errors.first(m)) for m in counts]
        means = means_of([one.posterior_ for one in each])
        return means, np.array([one._error_means for one in each])

    def _process_share(self) -> float:
        """Share of the noise of the series in the two variances."""
        return self.noise_std_**2 / (self.noise_std_**2 + self.observation_std_**2)

    @classmethod
    def _round(
        cls, before: GPRegressor, X: Array, y: Array, errors: SharedErrors, kind: ErrorKind
    ) -> Self:
        """Maximize the evidence with the slopes of an earlier fit."""
        self = cls(**before.get_params(deep=False))
        self.__dict__.update(before.__dict__)
        self._slopes_of, self.n_smoothings_ = replace(before._kernel_posterior, factors=()), 0
        self._search_errors(_Expansion(X, y, self._slopes_of.gradient(X)), errors, kind)
        self.set_posterior(X, y, errors)
        return self

    def _smoothed(self, X: Array, y: Array, errors: SharedErrors) -> Self:
        """With length-scales learned at smoothed inputs, all else held, and the posterior there."""
        new = copy.copy(self)
        at = self._at_smoothed(X, y, errors)
        new._search_errors(at, errors, "observation", lengthscales_alone=True)
        new.log_evidence_, new.n_smoothings_ = self.log_evidence_, _SMOOTHINGS
        new.set_posterior(X, y, errors)
        return new

    def _search_errors(
        self,
        at: _Expansion,
        errors: SharedErrors,
        kind: ErrorKind,
        lengthscales_alone: bool = False,
    ) -> None:
        """Set the hyper-parameters by the evidence of an expansion."""
        units = Units.of(at.inputs, at.targets)
        evidence = GaussianProcessEvidence(
            (at.inputs - self._input_offset) / units.inputs,
            (at.targets - self._output_offset) / units.output,
            self._learns_linear,
            self.groups,
            self._bias_scale / units.output,
            errors.covariance(at.slopes, units.output),
        )
        space, starts = self._error_space(evidence, units, kind)
        d = len(units.inputs)
        if lengthscales_alone:
            space.free[d:] = False
        if not space.free.any():
            return
        objective = Objective(evidence, space)
        best = maximize(objective, [start[space.free] for start in starts], self.tol)
        if not np.isfinite(best.value):
            got = f"a covariance that is not positive definite with {kind!r}"
            raise refusal("noise", "be 'process' for these rows", got, "Leave noise out.")
        self._set_hyperparameters(best.theta[:-1], evidence, units)
        self.observation_std_ = float(np.exp(best.theta[-1])) * units.output
        self.log_evidence_ = best.log_evidence - len(at.targets) * float(np.log(units.output))
        self.converged_, self.n_iter_ = best.converged, best.n_iter

    def _error_space(
        self, evidence: GaussianProcessEvidence, units: Units, kind: ErrorKind
    ) -> tuple[SearchSpace, list[Array]]:
        """The plain search with the errors' std beside that of the noise, and its starts."""
        space, d = self._search_space(evidence, *units), len(units.inputs)
        again = np.append(np.arange(len(space.start)), len(space.start) - 1)  # s_e as s_w
        found = space.start.copy()
        found[:d] = np.log(self.lengthscales_ / units.inputs)
        found[d] = np.log(self.amplitude_ / units.output)
        scales = self.linear_scale_ * units.inputs / units.output
        for group, column in zip(*np.unique(evidence.groups, return_index=True), strict=True):
            if group >= 0 and scales[column] > 0.0:
                found[d + 1 + group] = np.log(scales[column])
        found[-1] = np.log(self.noise_std_ / units.output)
        starts = []
        if "observation_std_" in vars(self):
            starts.append(np.append(found, np.log(self.observation_std_ / units.output)))
        else:
            for small in (-2, -1) if kind == "both" else (-2,):
                starts.append(found[again])
                starts[-1][small] += np.log(_SMALL)
        for start in starts:
            start[:-1][~space.free] = space.start[~space.free]
            start[:] = np.clip(start, *space.bounds[again].T)
        tied = kind == "observation"
        free = np.append(space.free, True)
        free[-2] &= not tied
        wider = space._replace(
            start=starts[0],
            free=free,
            median=space.median[again],
            log_std=space.log_std[again],
            bounds=space.bounds[again],
            least_ratio=LEAST_NOISE_RATIO,
            errors=True,
            share_of_errors=_SHARE if tied else None,
        )
        return wider, starts

    def _at_smoothed(self, X: Array, y: Array, errors: SharedErrors) -> _Expansion:
        """The expansion at inputs less the means of their errors, with the posterior's slopes."""
        known, in_inputs = X.copy(), errors.in_inputs(self._error_means)
        q = in_inputs.shape[1]
        known[:, :q] -= in_inputs
        slopes = self.posterior_.gradient(known)
        return _Expansion(known, y - np.einsum("nq,nq->n", slopes[:, :q], in_inputs), slopes)

    def _errors_given(self, slopes: Array, errors: SharedErrors, weights: Array) -> Array:
        """E[e] = D B' K_tot^-1 y, (N, ...), with the weights K_tot^-1 y of shape (n, ...)."""
        var = self.observation_std_**2 + errors.known_var
        return np.asarray((errors.in_rows(slopes).T @ weights).T * var).T

    def _expand(self, at: _Expansion, errors: SharedErrors) -> None:
        """Set the posterior and the means of the errors of an expansion."""
        n = len(at.targets)
        process = self._process(n)
        K = process.covariance(at.inputs)
        errors.covariance(at.slopes).add_to(K, self.observation_std_)
        chol, info = dpotrf(K, lower=1, clean=1, overwrite_a=1)
        if info:
            got = f"a covariance that is not positive definite at row {info}"
            raise refusal("noise", "be 'process' for these rows", got, "Leave noise out.")
        # The errors of its data are not independent: functions are not drawn as a whole.
        posterior = process.posterior(at.inputs, at.targets, chol=chol, independent=False)
        observation_var = process.widening * self.observation_std_**2
        self.posterior_ = replace(posterior, observation_var=observation_var)
        weights = posterior.weights[:n] / self.amplitude_**2  # K_tot^-1 y
        self._error_means = self._errors_given(at.slopes, errors, weights)
