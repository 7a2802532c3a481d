"""A Gaussian process whose inputs and targets share errors: theory/state.md."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.lapack import dpotrf
from scipy.sparse import csr_array, find, tril

from forecast_unc._checks import refusal
from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array, Positions
from forecast_unc.regression.estimator import LeadingMeans, means_of
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.gp_base import Units
from forecast_unc.regression.gp_evidence import CorrelatedErrors, GaussianProcessEvidence
from forecast_unc.regression.kernel_posterior import KernelPosterior
from forecast_unc.regression.search import LEAST_NOISE_RATIO, Objective, SearchSpace, maximize

ErrorKind = Literal["observation", "both"]


@dataclass(frozen=True, eq=False)
class SharedErrors:
    """Errors of n rows as linear maps of N independent ones."""

    targets: Positions  # (n, k), which of the errors each target has
    target_weights: Array  # (k,), their weights there
    inputs: Positions  # (n, m), which of them the inputs of each row have
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

    def first(self, m: int) -> Self:
        """Errors of the first m rows alone."""
        return replace(self, targets=self.targets[:m], inputs=self.inputs[:m])

    def covariance(self, slopes: Array, unit: float = 1.0) -> CorrelatedErrors:
        """Covariance of the errors in the rows, with the variances in squares of a unit."""
        B = self.in_rows(slopes)
        i, j, shape = find(tril(B @ B.T))
        known: Array = np.asarray(((B * (self.known_var / unit**2)) @ B.T).tocsr()[i, j]).ravel()
        return CorrelatedErrors(i.astype(np.intp), j.astype(np.intp), shape, known)


class _Expansion(NamedTuple):
    """Rows to first order in their errors: targets = f(inputs) + w + B e, B with these slopes."""

    inputs: Array  # (n, d)
    targets: Array  # (n,)
    slopes: Array  # (n, d)


class ErrorsInVariablesGP(GPRegressor):
    """A Gaussian process learned from rows with shared errors; x in predictions has none."""

    observation_std_: float  # s_e, of the errors; noise_std_ is s_w, part of the series
    n_smoothings_: Literal[0, 2]  # times that the expansion is renewed at smoothed inputs

    _slopes_of: KernelPosterior  # no more than its mean
    _error_means: Array

    @classmethod
    def learn(
        cls, plain: GPRegressor, X: Array, y: Array, errors: SharedErrors, kind: ErrorKind
    ) -> Self:
        """Hyper-parameters and both noises by the evidence, from those and slopes of `plain`."""
        with blas_threads(len(y)):
            kept = cls._round(plain, X, y, errors, kind)
            most, share = kept.log_evidence_, -1.0
            # Slopes are renewed until the share of s_w^2 in both variances is still. The evidence
            # falls where they are too uncertain for the expansion (Mackey-Glass: by 3 to 17 nats).
            for _ in range(19):
                before = kept.noise_std_**2 / (kept.noise_std_**2 + kept.observation_std_**2)
                if abs(before - share) < 0.01:
                    break
                share, now = before, cls._round(kept, X, y, errors, kind)
                if now.log_evidence_ < most - 1.0:
                    break
                most, kept = max(most, now.log_evidence_), now
            return kept._smoothed(X, y, errors) if kind == "observation" else kept

    def condition_errors(self, X: Array, y: Array, errors: SharedErrors) -> Self:
        """A new one with the same hyper-parameters and slopes and other rows; at O(n^3)."""
        conditioned = copy.copy(self)
        with blas_threads(len(y)):
            conditioned.set_posterior(X, y, errors)
        return conditioned

    def condition(self, X: ArrayLike, y: ArrayLike, *more: ArrayLike | None) -> NoReturn:
        """Raise: rows alone do not say what errors they share."""
        must, remedy = "be given the errors of the rows", "Call condition_errors."
        raise refusal("condition", must, "none", remedy, TypeError)

    def set_posterior(self, X: Array, y: Array, errors: SharedErrors) -> None:
        """Make the posterior of rows from what was learned, with the slopes as they were then."""
        at = _Expansion(X, y, self._slopes_of.gradient(X))
        self._expand(at, errors)
        for _ in range(self.n_smoothings_):
            self._expand(self._at_smoothed(X, y, errors), errors)

    def leading(
        self, X: Array, y: Array, errors: SharedErrors, counts: Sequence[int]
    ) -> tuple[LeadingMeans, Array]:
        """Means as of `leading_means`, and E[e | the first rows] (k, N), 0 where none has them."""
        if not self.n_smoothings_:
            process, chol = self._process_of(len(y)), self.posterior_.factors[0].chol
            weights = process.leading_weights(X, y, chol, counts)
            slopes = self._slopes_of.gradient(X)
            return process.means(X, weights), self._errors_given(slopes, errors, weights).T
        # smoothed inputs know what comes after: at O(n^3) a count
        each = [self.condition_errors(X[:m], y[:m], errors.first(m)) for m in counts]
        means = means_of([one.posterior_ for one in each])
        return means, np.array([one._error_means for one in each])

    @classmethod
    def _round(
        cls, before: GPRegressor, X: Array, y: Array, errors: SharedErrors, kind: ErrorKind
    ) -> Self:
        """Maximize the evidence with the slopes of an earlier fit."""
        self = cls(**before.get_params(deep=False))
        self.__dict__.update(before.__dict__)
        self._slopes_of, self.n_smoothings_ = replace(before.posterior_, factors=()), 0
        self._search_errors(_Expansion(X, y, self._slopes_of.gradient(X)), errors, kind)
        self.set_posterior(X, y, errors)
        return self

    def _smoothed(self, X: Array, y: Array, errors: SharedErrors) -> Self:
        """Fit with length-scales learned at smoothed inputs and all else held; its posterior."""
        new = copy.copy(self)
        at = self._at_smoothed(X, y, errors)
        new._search_errors(at, errors, "observation", lengthscales_alone=True)
        # Twice: on Mackey-Glass, 500 rows and errors of variance .05, the squared error of f at the
        # true inputs falls from .048 of that to .016 with one, .013 with two and .009 with four.
        new.log_evidence_, new.n_smoothings_ = self.log_evidence_, 2
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
        units = Units.of(at.inputs, at.targets, at.targets)
        evidence = GaussianProcessEvidence(
            (at.inputs - self._process.input_offset) / units.inputs,
            (at.targets - self._process.output_offset) / units.output,
            self._learns_linear,
            self.groups,
            self._process.linear_std[-1] / units.output,
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
        self._set_optimum(best._replace(theta=best.theta[:-1]), units, len(at.targets))
        self.observation_std_ = float(np.exp(best.theta[-1])) * units.output

    def _error_space(
        self, evidence: GaussianProcessEvidence, units: Units, kind: ErrorKind
    ) -> tuple[SearchSpace, list[Array]]:
        """The plain search with the errors' std beside that of the noise, and its starts."""
        space, d = self._search_space(evidence, units), len(units.inputs)
        again = np.append(np.arange(len(space.start)), -1)  # s_e as s_w
        found = space.start[again]
        found[:d] = np.log(self.lengthscales_ / units.inputs)
        found[d] = np.log(self.amplitude_ / units.output)
        scales = self.linear_scale_ * units.inputs / units.output
        linear = np.flatnonzero((evidence.groups >= 0) & (scales > 0.0))[::-1]
        found[d + 1 + evidence.groups[linear]] = np.log(scales[linear])
        found[-2:] = np.log(self.noise_std_ / units.output)
        if "observation_std_" in vars(self):
            found[-1] = np.log(self.observation_std_ / units.output)
            starts = [found]
        else:  # one noise is that of the plain fit, the other a part of it
            starts = [found.copy() for _ in range(2 if kind == "both" else 1)]
            for small, start in zip((-2, -1), starts, strict=False):
                start[small] += np.log(0.05)
        free, given = np.append(space.free, True), space.start[again]
        starts = [np.clip(np.where(free, start, given), *space.bounds[again].T) for start in starts]
        tied = kind == "observation"
        free[-2] &= not tied
        # "observation" keeps s_w at a share of s_e: some noise is left for what f cannot follow. At
        # .1 the NLPD of 100 steps of Mackey-Glass is .05 to .1 higher.
        wider = space._replace(
            start=starts[0],
            free=free,
            median=space.median[again],
            log_std=space.log_std[again],
            bounds=space.bounds[again],
            least_ratio=LEAST_NOISE_RATIO,
            errors=True,
            share_of_errors=0.03 if tied else None,
            margin=0.0,
        )
        return wider, starts

    def _at_smoothed(self, X: Array, y: Array, errors: SharedErrors) -> _Expansion:
        """The expansion at inputs less the means of their errors, with the posterior's slopes."""
        in_inputs = self._error_means[errors.inputs] @ errors.input_weights.T  # (n, q)
        known, q = X.copy(), in_inputs.shape[1]
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
        process = self._process_of(n)
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
