"""Gaussian process regression: hyper-parameters by the evidence."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from forecast_unc._checks import RandomState, check_choice, check_whole, refusal
from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array, Positions
from forecast_unc.regression.estimator import (
    LeadingMeans,
    Lengthscales,
    check_relative_noise,
    check_rows_in_memory,
)
from forecast_unc.regression.gp_base import GaussianProcess, ProcessRegressor, Units
from forecast_unc.regression.gp_evidence import GaussianProcessEvidence
from forecast_unc.regression.kernel_posterior import KernelPosterior
from forecast_unc.regression.noisy_inputs import noisy_inputs_evidence as noisy_rows
from forecast_unc.regression.noisy_inputs.noisy_inputs_evidence import Round
from forecast_unc.regression.noisy_inputs.noisy_inputs_training import Learned, Problem, train
from forecast_unc.regression.search import Objective, Prior, maximize, widening

# Rows of a first search, evenly spaced among at least three times as many: from its end the
# search on all 800 rows of two series of hours takes 17 and 19 steps for 50 and 30.
_FIRST_ROWS = 200

_CHOICES: dict[str, tuple[str | None, ...]] = {
    "bias": ("free", "shrunk", None),
    "noisy_inputs": (None, "nigp", "annealed", "stochastic_em"),
}


@dataclass(kw_only=True, eq=False, repr=False)
class GPRegressor(ProcessRegressor):
    r"""Gaussian process with an ARD squared-exponential kernel, a linear term and noise.

    .. math::
        y = f(x) + \varepsilon, \quad
        \mathrm{Cov}[f(x), f(x')] = a^2 \exp\bigl[-\tfrac12\textstyle\sum_j (x_j-x_j')^2/l_j^2\bigr]
        + \sum_j \tau_j^2 x_j x_j' + \tau_0^2, \quad \mathrm{Var}[\varepsilon] = s^2 .

    Inputs are centered by their means. The hyper-parameters maximize the log evidence plus the log
    prior by L-BFGS-B, in the logarithms and on standardized data, so that a change of units changes
    nothing. The noise is kept above 1e-4 amplitudes, for the digits of the variances.

    Parameters
    ----------
    linear : bool or array-like of shape (d,), default=True
        Include the linear term and a bias: far from the data the forecast then follows a linear
        autoregression, else it returns to the mean. Numbers are the weights of a linear prior mean,
        in units of y per unit of the inputs, and are kept.
    prior : {"weak", "shrunk", None}, default="weak"
        Normal priors on the logarithms of the hyper-parameters (standardized: median 0.5 for a and
        tau, 0.1 for s, 2 sqrt(d) for l; std 1.5; smaller a and s where least squares leaves less).
        "shrunk" is for few rows: both parts are expected to be small beside the noise (median 0.1
        for a and the tau of group 0, std 0.7; 0.7 for s, std 1), and variances are those of
        Student's t with n - 1 degrees of freedom (not with a `noise_std`). None has no prior.
    groups : array-like of int of shape (d,), optional
        Group of each input, from 0: those of one share the prior std tau of their linear weights,
        and "shrunk" shrinks group 0 alone; -1 has no linear weight. By default all are in group 0.
    bias : {"free", "shrunk", None}, default="free"
        Bias of the linear term. "free" centers the targets and gives tau_0 their std. "shrunk"
        takes tau_0^2 = max(0, mean(y)^2 - 2 var(y) / n): a drift as large as the data support, none
        if it is not worth its parameter. None has none.
    lengthscales : float or array-like of shape (d,), optional
        Length-scales in units of the inputs, kept fixed. By default they are learned. In a
        `Forecaster` inputs and targets are standardized differences of the transformed series.
    noise_std : float, optional
        Noise std in units of y as given to `fit`, kept fixed. Give it when it is known. The
        amplitude is then at most 1e4 times as large, for the digits of the variance: of data
        without noise give 1e-4 of the std of y, not less. In a `Forecaster` y is standardized: give
        stds of the measurement error as its `y_std`.
    noisy_inputs : {"nigp", "annealed", "stochastic_em"}, optional
        How to learn where the inputs of the rows were observed with noise. "nigp" refers it to the
        output by the squared slope of the function, at some 4 times the cost; take it first.
        "annealed" maximizes over the true inputs, "stochastic_em" samples them (Monte Carlo EM), at
        some 60 and 200 times the cost: for functions that bend within the noise. The std of each
        input's noise is learned unless `fit` gets an `input_cov`; predictions are at inputs that
        are known.
    n_restarts : int, default=0
        Further random starting points, of which the best optimum is kept; each costs a fit.
    search_rows : int, optional
        Rows, evenly spread, from which hyper-parameters are learned; the posterior rests on all.
        None takes all. Not with `noisy_inputs`.
    tol : float, default=0.01
        The search ends when its last ten steps together gained less, in nats. With 1e-12 nine
        forecasts in ten move by a thousandth of their std or less.
    random_state : int, numpy.random.Generator or None
        Seed of the restarts, of "stochastic_em" and of "monte_carlo" predictions.

    Attributes
    ----------
    posterior_ : KernelPosterior
        Predictive distribution.
    lengthscales_ : ndarray of shape (d,)
        In units of the inputs; a large one means an input without nonlinear influence.
    amplitude_, noise_std_ : float
        Prior std a of the nonlinear part and std s of the observation noise, in units of y.
    linear_scale_ : ndarray of shape (d,)
        Prior std of each linear coefficient, in units of y per unit of the input.
    log_evidence_ : float
        log N(y | mean(y), K) in nats, or log N(y | 0, K) unless the `bias` is "free"; without the
        prior. Of the `search_rows`, if given; with `noisy_inputs` of the rows as linearized.
    input_cov_ : ndarray of shape (d, d) or (n, d, d)
        Covariance of the input noise, learned or given; zeros where there is none.
    rounds_ : list of Round
        Noise stds and score of each round of the trainer for `noisy_inputs`; else empty.
    converged_, n_iter_ : bool, int
        Whether the kept search ended at a stationary point or at a bound, and its iterations.
    n_features_in_ : int
        Number d of inputs.

    References
    ----------
    Rasmussen & Williams, Gaussian Processes for Machine Learning (2006), ch. 2 and 5;
    Quinonero-Candela, PhD thesis, DTU (2004); McHutchon & Rasmussen, NIPS 24 (2011).

    Examples
    --------
    >>> X = np.linspace(-3, 3, 40)[:, None]
    >>> gp = GPRegressor().fit(X, np.sin(2 * X[:, 0]))
    >>> mean, std = gp.predict([[0.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.0)) < 3 * std[0])
    True
    >>> bool(gp.predict_uncertain([0.5], [[0.04]]).var > std[0] ** 2)
    True
    """

    # A fit of 1000 rows took 2.9 s and one of 2000 rows 16 s on one thread (6 inputs, 80
    # iterations); by n^3 one of 3000 takes 55 s. Memory is 3 (n, n) arrays: 220 MB at 3000 rows.
    most_rows: ClassVar[int | None] = 3000

    linear: bool | ArrayLike = True
    prior: Prior = "weak"
    groups: ArrayLike | None = None
    bias: Literal["free", "shrunk"] | None = "free"
    lengthscales: Lengthscales = None
    noise_std: float | None = None
    noisy_inputs: Literal["nigp", "annealed", "stochastic_em"] | None = None
    n_restarts: int = 0
    search_rows: int | None = None
    tol: float = 0.01
    random_state: RandomState = None

    posterior_: KernelPosterior = field(init=False)
    input_cov_: Array = field(init=False)
    rounds_: list[Round] = field(init=False)

    _noisy: bool = field(init=False)  # whether inputs have noise
    # By whose slopes rows are linearized, if they are: a mean alone, as it was at the fit.
    _curve: KernelPosterior | None = field(init=False)

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        input_cov: ArrayLike | None = None,
        relative_noise: ArrayLike | None = None,
    ) -> Self:
        """Maximize the evidence and compute the posterior.

        Parameters
        ----------
        X, y : array-like of shape (n, d) and (n,)
            Inputs and targets.
        input_cov : array-like of shape (d,), (d, d) or (n, d, d), optional
            Known noise of the inputs, in their squared units: variances, a covariance, or one for
            each row; with `noisy_inputs=None` the same variances for all rows, by default none.
        relative_noise : array-like of shape (n,), optional
            Standard deviation of the noise of each row in units of `noise_std_`, where they are
            known to differ; None: all 1. Predictions are of rows with 1. Not with noise of inputs.

        Raises
        ------
        ValueError
            If a parameter is none of its choices or does not go with another, `input_cov` is no
            covariance, or that of the rows is not positive definite with what is fixed.
        """
        X, y = self._checked_rows(X, y)
        n, d = X.shape
        S = noisy_rows.check_input_cov(input_cov, X.shape, self.noisy_inputs is None)
        noise = check_relative_noise(relative_noise, n)
        self._check_parameters(X, y, S)
        self._check_noise(relative_noise, S is not None or self.noisy_inputs is not None)
        check_rows_in_memory(n, 3)  # (n, n) each: covariance, kernel part, a factor or inverse
        Z, targets, units, bias = self._standardized(X, y)
        searched = self._searched(n)
        Z, targets, of_noise = Z[searched], targets[searched], noise[searched]
        common = self._learns_linear, self.groups, bias
        evidence = GaussianProcessEvidence(Z, targets, *common, of_noise)
        self._curve, self.rounds_ = None, []
        self._noisy = S is not None or self.noisy_inputs is not None
        self.input_cov_ = np.zeros((d, d)) if S is None else S.copy()
        self.__dict__.pop("posterior_", None)  # of other hyper-parameters
        space = self._search_space(evidence, units)
        objective = Objective(evidence, space)
        if S is not None and self.noisy_inputs is None:
            blurred = noisy_rows.blurred_evidence(evidence, np.diagonal(S) / units.inputs**2)
            objective = Objective(blurred, space)
        with blas_threads(n):
            starts = space.starts(0 if space.warm else self.n_restarts, self.random_state)
            # without a prior some rows alone may end at another optimum
            m = len(Z)
            if m >= 3 * _FIRST_ROWS and not space.warm and self.prior is not None:
                some = slice(None, None, m // _FIRST_ROWS)
                few = GaussianProcessEvidence(Z[some], targets[some], *common, of_noise[some])
                first = Objective(few, space)
                starts = [maximize(first, [start], self.tol).x for start in starts]
            best = maximize(objective, starts, self.tol)
            if not np.isfinite(best.log_evidence):
                given = f"noise_std={self.noise_std!r}, lengthscales={self.lengthscales!r}"
                must, got = "give a positive definite covariance", "a factorization that fails"
                remedy = "Give a larger noise_std, or learn both."
                raise refusal("noise_std and lengthscales", must, f"{got} with {given}", remedy)
            self._end = space.free, best.theta
            self._set_optimum(best, units, m)
            if self.noisy_inputs is not None:
                known = None if S is None else S / np.outer(units.inputs, units.inputs)
                problem = Problem(evidence, space, best.theta, known, self.tol)
                found = train(self.noisy_inputs, problem, self.random_state)
                self._set_noisy(found, units, X, y)
            self._set_posterior(X, y, noise=noise)
            if self._curve is not None:
                self.log_evidence_ = noisy_rows.log_evidence(self.posterior_, self.amplitude_)
        self._start = None  # of this fit alone
        return self

    def _searched(self, n: int) -> Positions | slice:
        """Which of n rows hyper-parameters are learned from."""
        if self.search_rows is None or n <= self.search_rows:
            return slice(None)
        return np.linspace(0, n - 1, self.search_rows).round().astype(np.intp)

    def _check_parameters(self, X: Array, y: Array, S: Array | None) -> None:
        """Raise unless the parameters go together, with the rows and with their noise S."""
        d = X.shape[1]
        for name, allowed in _CHOICES.items():
            check_choice(name, getattr(self, name), allowed)
        self._check_process(X, y)
        groups = np.asarray(self.groups)
        whole = groups.shape == (d,) and np.issubdtype(groups.dtype, np.integer)
        if self.groups is not None and not (whole and -1 <= groups.min() <= groups.max() <= d + 1):
            must = f"number the group of each of the {d} inputs, from 0, or -1 for no linear weight"
            raise refusal("groups", must, f"{self.groups!r}", "Use None for one group.")
        check_whole("n_restarts", self.n_restarts, 0, "0 is one search from the standard start.")
        weights, noisy = self._prior_mean, self.noisy_inputs is not None
        if self.search_rows is not None:
            check_whole("search_rows", self.search_rows, 2, "None takes all rows.")
            if noisy:
                must, remedy = "be None with noisy_inputs", "Their noise is learned from all rows."
                raise refusal("search_rows", must, f"{self.search_rows}", remedy)
        if weights and noisy:
            must = "be True or False with noisy_inputs"
            remedy = "Take the linear part off y first: its slopes would be noise of the output."
            raise refusal("linear", must, "weights", remedy)
        if weights and S is not None and np.any(self.linear):
            must = "be None with weights of a linear prior mean"
            raise refusal("input_cov", must, "one", "Use linear=True.")

    def _set_noisy(self, found: Learned, units: Units, X: Array, y: Array) -> None:
        """Take hyper-parameters and the curve through the rows from a trainer for noisy inputs."""
        scale, unit = units
        self._set_hyperparameters(found.theta, units)
        self.rounds_ = [
            Round(one.noise_std * unit, one.input_std * scale, one.score) for one in found.rounds
        ]
        self.converged_, self.n_iter_ = found.converged, self.n_iter_ + found.n_iter
        self.input_cov_ = found.input_cov * np.outer(scale, scale)
        at = found.inputs * scale + self._process.input_offset
        slopes = found.slopes * unit / scale
        process = self._process_of(len(y))
        curve = noisy_rows.linearized(process, X, y, at, slopes, self.input_cov_)
        self._curve = replace(curve, factors=())

    def condition(
        self,
        X: ArrayLike,
        y: ArrayLike,
        input_cov: ArrayLike | None = None,
        relative_noise: ArrayLike | None = None,
    ) -> Self:
        """A new regressor with the hyper-parameters and `log_evidence_` of this one and other data.

        Inputs that continue those it holds cost O(n^2) for each new row; others, and all whose
        inputs are noisy, O(n^3).

        Parameters
        ----------
        X, y : array-like of shape (n, d) and (n,)
            Inputs and targets.
        input_cov : array-like of shape (d,), (d, d) or (n, d, d), optional
            Noise of these inputs; by default that of `fit`, learned or given for all rows.
        relative_noise : array-like of shape (n,), optional
            As in `fit`, of these rows.
        """
        check_is_fitted(self)
        X, y = self._checked_rows(X, y, reset=False)
        if input_cov is not None and not self._noisy:
            must = "be None after a fit without input noise"
            remedy = "Pass fit(X, y, input_cov=...), or noisy_inputs='nigp'."
            raise refusal("input_cov", must, "one", remedy)
        S = noisy_rows.check_input_cov(input_cov, X.shape, self.noisy_inputs is None)
        self._check_noise(relative_noise, self._noisy)
        conditioned = copy.copy(self)
        conditioned._set_posterior(X, y, S, check_relative_noise(relative_noise, len(y)))
        return conditioned

    @property
    def takes_noise(self) -> bool:
        """Where inputs have none."""
        return self.noisy_inputs is None

    def _check_noise(self, relative_noise: ArrayLike | None, noisy_inputs: bool) -> None:
        """Raise if the noise of rows is given beside that of inputs."""
        if relative_noise is not None and noisy_inputs:
            must = "be None where inputs have noise"
            raise refusal("relative_noise", must, "some", "Leave the noise of the inputs out.")

    def leading_means(
        self, X: Array, y: Array, counts: Sequence[int], relative_noise: Array | None = None
    ) -> LeadingMeans:
        """Means given the first `counts` of the rows alone, O(n^2) a count and O(n d) a mean.

        `relative_noise`: as of `fit`.
        """
        if self._noisy:
            return super().leading_means(X, y, counts)
        process, chol = self._process_of(len(y)), self.posterior_.factors[0].chol
        return process.means(X, process.leading_weights(X, y, chol, counts))

    def _process_of(self, n: int) -> GaussianProcess:
        """The process that was learned, for n rows."""
        return replace(self._process, widening=widening(self.prior, self.noise_std, n))

    def _set_posterior(
        self, X: Array, y: Array, S: Array | None = None, noise: Array | None = None
    ) -> None:
        """Make the posterior of rows, with noise S of their inputs, from what was learned."""
        if self._noisy:
            self.posterior_ = self._noisy_posterior(X, y, self.input_cov_ if S is None else S)
        else:
            process, held = self._process_of(len(y)), vars(self).get("posterior_")
            row_var = process.noise_std**2 * check_relative_noise(noise, len(y)) ** 2
            chol = None if held is None else process.extended_factor(held, X, row_var)
            self.posterior_ = process.posterior(X, y, row_var=row_var, chol=chol)

    def _noisy_posterior(self, X: Array, y: Array, S: Array) -> KernelPosterior:
        """Posterior of noisy inputs, by the kernel's expectation or linearized on the curve."""
        process = self._process_of(len(y))
        if self._curve is None:
            return process.posterior(X, y, blur=np.diagonal(S))
        if S.ndim == 3 and len(S) != len(X):
            must = f"be given for these {len(X)} rows, of shape ({len(X)}, d, d)"
            got = f"none, and each of the {len(S)} rows of the fit had its own"
            raise refusal("input_cov", must, got, "Pass condition(X, y, input_cov=...).")
        at = X
        if self.noisy_inputs != "nigp":
            at = noisy_rows.smoothed_inputs(self._curve, X, y, S, self.noise_std_**2)
        return noisy_rows.linearized(process, X, y, at, self._curve.gradient(at), S)
