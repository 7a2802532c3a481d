"""Gaussian process regression: hyper-parameters by the evidence."""

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError
from scipy.linalg.blas import dgemm, dgemv, dtrsv
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.optimize import minimize
from sklearn.utils.validation import check_is_fitted, validate_data

from forecast_unc._checks import check_whole
from forecast_unc._random import RandomState, generator
from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array
from forecast_unc.regression.cholesky import move
from forecast_unc.regression.evidence import GaussianProcessEvidence, covariance_matrix
from forecast_unc.regression.hyperposterior import Design, Effect, design
from forecast_unc.regression.kernel_posterior import Factor, KernelPosterior
from forecast_unc.regression.kernels import squared_exponential
from forecast_unc.regression.noisy_inputs.evidence import BlurredEvidence
from forecast_unc.regression.noisy_inputs.learn import (
    NoisyRows,
    check_input_cov,
    in_units,
    noisy_rows,
    train,
)
from forecast_unc.regression.noisy_inputs.posterior import (
    BlurredRows,
    Hyperparameters,
)
from forecast_unc.regression.noisy_inputs.search import Learned, Round
from forecast_unc.regression.posterior_mixture import PosteriorMixture
from forecast_unc.regression.regressor import (
    KernelRegressor,
    LeadingMeans,
    check_rows_in_memory,
)
from forecast_unc.regression.standardize import (
    Lengthscales,
    check_lengthscales,
    check_noise_std,
    column_scale,
)

# Log-normal priors for standardized data: median and log-std of the amplitude, the linear
# scale and the noise. Length-scales have a median of 2 sqrt(d): distances between
# standardized inputs grow like sqrt(2 d), so that the function starts smooth in any d.
_LOG_STD = 1.5
_PRIORS: dict[str | None, tuple[tuple[float, float], ...]] = {
    "weak": ((0.5, _LOG_STD), (0.5, _LOG_STD), (0.1, _LOG_STD)),
    "shrunk": ((0.1, 0.7), (0.1, 0.7), (0.7, 1.0)),
    None: ((0.5, np.inf), (0.5, np.inf), (0.1, np.inf)),
}
# Where least squares on the linear part leaves less std than the weak median of the noise, the
# weak medians of noise and amplitude are as much smaller, and the prior of the amplitude narrows to
# the shrunk one's: a large amplitude is then undone by the linear weights where the data are, and
# nowhere else. Of noise-free Mackey-Glass, of which 8 lags leave .001, the root of the linear
# recursion came out above 1.05 in 56 sections of 64, with 3 to 10 nats less than is to be had.
_LEFT_BY_LINEAR = _PRIORS["weak"][2][0]
_LEAST_SHARE = 1e-3  # the median of the noise is at its bound
# A bias counts if it brings more than its cost of one parameter in Akaike's criterion.
_AKAIKE = 2.0
# Where the search may go, on standardized data. Below a noise of 1e-4 the covariance of a
# few hundred rows is no longer positive definite in double precision.
_LENGTHSCALE_BOUNDS = (1e-2, 1e4)
_SCALE_BOUNDS = ((1e-3, 1e2), (1e-4, 1e1), (1e-4, 1e1))
# Least noise std in amplitudes. Predictions keep the digits of eps n (a / s)^2: at a ratio of
# 1e-6 (noise-free logistic map, amplitude 60) variances were 2 % wrong, at 1e-4 they keep five
# digits or more.
_LEAST_NOISE_RATIO = 1e-4
# Rows, evenly spaced and the last one with them, at which an effect of hyper-parameters counts.
_EFFECT_ROWS = 12
# One row in so many is the most to drop by an update: 64 of 800 took 10 ms where the complete
# factorization took 8, 64 of 2000 took 60 of 93 ms.
_DROPS = 16


# (n, n) arrays held at once: covariance, kernel part and a factor or inverse.
_MATRICES = 3


class _Optimum(NamedTuple):
    log_hyperparameters: Array  # (q,), the free ones of log [l, a, tau, s], standardized
    log_evidence: float  # of the standardized targets
    converged: bool
    n_iter: int


class _SearchSpace(NamedTuple):
    """Of log [l, a, tau, s] on standardized data, each (d + 2 + g,)."""

    start: Array  # given values, and plain medians where they are learned
    free: NDArray[np.bool_]
    median: Array
    log_std: Array  # of the prior; infinite without
    bounds: Array  # (d + 2 + g, 2)


class _Objective:
    """-log(evidence prior) of the free log hyper-parameters x, and its gradient.

    Parameters
    ----------
    evidence : GaussianProcessEvidence
        Of standardized data.
    space : _SearchSpace
        What is free, and its prior.
    least_ratio : float
        The noise is no less than so many amplitudes.
    """

    def __init__(
        self, evidence: GaussianProcessEvidence, space: _SearchSpace, least_ratio: float
    ) -> None:
        self._evidence, self._space, self._least_ratio = evidence, space, least_ratio
        self._d, free = len(evidence.X), space.free
        self._median, self._precision = space.median[free], space.log_std[free] ** -2

    def __call__(self, x: Array) -> tuple[float, Array]:
        theta, d = self._with_given(x), self._d
        scales = np.exp(theta)
        noise_std, share = self._noise(theta)
        value, gradient = self._evidence(scales[:d], scales[d], scales[d + 1 : -1], noise_std)
        gradient[d] += (1.0 - share) * gradient[-1]
        gradient[-1] *= share
        away = self._precision * (x - self._median)
        return value - self.log_prior(x), gradient[self._space.free] + away

    def value(self, x: Array) -> float:
        """The objective alone."""
        theta, d = self._with_given(x), self._d
        scales = np.exp(theta)
        noise_std, _ = self._noise(theta)
        value = self._evidence.value(scales[:d], scales[d], scales[d + 1 : -1], noise_std)
        return value - self.log_prior(x)

    def log_prior(self, x: Array) -> float:
        """Log prior, up to a constant."""
        return float(-0.5 * self._precision @ (x - self._median) ** 2)

    def theta(self, x: Array) -> Array:
        """All log [l, a, tau, s], (d + 2 + g,), the noise as it is used."""
        theta = self._with_given(x)
        theta[-1] = np.log(self._noise(theta)[0])
        return theta

    def _with_given(self, x: Array) -> Array:
        theta = self._space.start.copy()
        theta[self._space.free] = x
        return theta

    def _noise(self, theta: Array) -> tuple[float, float]:
        """Noise std, no less than its least ratio to the amplitude, and s's share of it."""
        own = np.exp(2.0 * theta[-1])
        least = (self._least_ratio * np.exp(theta[self._d])) ** 2
        return float(np.sqrt(own + least)), float(own / (own + least))


class GPRegressor(KernelRegressor):
    r"""Gaussian process with an ARD squared-exponential kernel, a linear term and noise.

    .. math::
        y = f(x) + \varepsilon, \quad
        \mathrm{Cov}[f(x), f(x')] = a^2 \exp\bigl[-\tfrac12\textstyle\sum_j (x_j-x_j')^2/l_j^2\bigr]
        + \sum_j \tau_j^2 x_j x_j' + \tau_0^2, \quad \mathrm{Var}[\varepsilon] = s^2 .

    Inputs are centered by their means. The hyper-parameters maximize the log evidence plus
    the log prior by L-BFGS-B with analytic gradients, in the logarithms and on standardized
    data, so that a change of units changes nothing. The noise is kept above 1e-4 amplitudes,
    for the digits of the variances.

    Parameters
    ----------
    linear : bool or array-like of shape (d,), default=True
        Include the linear term and a bias. With them the forecast far from the data follows
        a linear autoregression; without, it returns to the mean. Numbers are the weights of
        a linear prior mean, in units of y per unit of the inputs: they are kept, nothing is
        learned of them, and far from the data the forecast returns to that mean.
    prior : {"weak", "shrunk", None}, default="weak"
        Normal priors on the logarithms of the hyper-parameters (on standardized data: median
        0.5 for a and tau, 0.1 for s, 2 sqrt(d) for the length-scales; std 1.5), which keep the
        search away from degenerate optima. Where least squares on the linear part leaves a std r
        below 0.1, the medians of a and s are 5 r and r, and the std of log a goes to 0.7 with r.
        "shrunk" is for few rows: both parts are expected to be small beside the noise (median
        0.1 for a and the tau of the first group, std 0.7; 0.7 for s, std 1), and variances are
        those of Student's t with n - 1 degrees of freedom, since their scale too is learned from
        n numbers (not with a given `noise_std`). None maximizes the evidence alone.
    groups : array-like of int of shape (d,), optional
        Group of each input, from 0: those of one group share the prior std tau of their
        linear weights, and prior "shrunk" shrinks that of group 0 alone. Those of group -1 have
        no linear weight. By default all are in group 0.
    bias : {"free", "shrunk", None}, default="free"
        Of the linear term. "free" centers the targets and gives tau_0 their std. "shrunk" leaves
        them where they are and takes tau_0^2 = max(0, mean(y)^2 - 2 var(y) / n): a drift as
        large as the data support, and none if it is not worth its parameter. None has none.
    lengthscales : float or array-like of shape (d,), optional
        Length-scales in units of the inputs, kept fixed. By default they are learned. In a
        `Forecaster` inputs and targets are standardized differences of the transformed series.
    noise_std : float, optional
        Noise standard deviation in units of y as given to `fit`, kept fixed. Give it when it is
        known, for instance for simulated data. In a `Forecaster` y is standardized: give stds of
        the measurement error in units of the series as its `y_std`.
    hyperparameters : {"mode", "integrated"}, default="mode"
        "mode" takes the most probable hyper-parameters for the true ones. "integrated" averages
        over their posterior, by up to 10 nodes that stand for some 700 points in their effect on
        predictions: for few rows, where they are not well known. It needs a prior. `fit` takes
        1400 factorizations longer, and as each node has one of its own, `condition` and forecasts
        take 10 to 20 times as long. Attributes named after a hyper-parameter are those of the mode.
        Not with weights as `linear`, with `noisy_inputs` or an `input_cov`, nor with a `noise` of a
        `Forecaster` other than "process".
    noisy_inputs : {"nigp", "annealed", "stochastic_em"}, optional
        How to learn where the inputs of the rows were observed with noise. "nigp" refers it to the
        output by the squared slope of the function, at some 4 times the cost of a fit; take it
        first. "annealed" maximizes over the true inputs, too, and "stochastic_em" samples them, at
        some 60 and 200 times the cost: for functions that bend within the noise. The std of each
        input's noise is learned unless `fit` gets an `input_cov`. By default inputs are exact, or
        have the noise that `fit` is told of. Predictions are at inputs that are known: for noisy
        ones, `predict_uncertain(x, input_cov_)`.
    n_restarts : int, default=0
        Further starting points, drawn at random. The best optimum is kept; each restart
        costs as much as the first fit.
    tol : float, default=1e-10
        The search ends when a step gains less than this share of the objective; 1e-6 is enough
        for forecasts and takes about half the time.
    random_state : int, numpy.random.Generator or None
        Seed of the restarts, of "stochastic_em" and of "monte_carlo" predictions.

    Attributes
    ----------
    posterior_ : KernelPosterior or PosteriorMixture
        The posterior, from which all predictions are made: a mixture if integrated.
    nodes_ : tuple of GPRegressor
        Regressors, one a node, if integrated; else empty.
    node_weights_ : ndarray of shape (k,)
        Their weights, which add up to 1.
    lengthscales_ : ndarray of shape (d,)
        In units of the inputs; a large one means an input without nonlinear influence.
    amplitude_ : float
        Prior std a of the nonlinear part, in units of y.
    linear_scale_ : ndarray of shape (d,)
        Prior std of each linear coefficient, in units of y per unit of the input.
    noise_std_ : float
        Std of the observation noise, in units of y; without what noise of the inputs adds to it.
    log_evidence_ : float
        log N(y | mean(y), K), in nats, of uncentered targets (`bias`) log N(y | 0, K); without the
        prior. With `noisy_inputs` that of the rows as linearized.
    input_cov_ : ndarray of shape (d, d) or (n, d, d)
        Covariance of the input noise, learned or given; zeros where there is none.
    rounds_ : list of Round
        Of the trainer for `noisy_inputs`: noise stds and score of each round. The score is the log
        evidence of the standardized rows; of "annealed", the held-out log density of a target at
        each level.
    converged_ : bool
        Whether the kept search ended at a stationary point or at a bound.
    n_iter_ : int
        Iterations of the kept search.
    n_features_in_ : int
        Number d of inputs.

    References
    ----------
    Rasmussen & Williams, Gaussian Processes for Machine Learning (2006), ch. 2 and 5.
    Quinonero-Candela, PhD thesis, DTU (2004).
    McHutchon & Rasmussen, NIPS 24 (2011).

    Examples
    --------
    >>> X = np.linspace(-3, 3, 40)[:, None]
    >>> gp = GPRegressor().fit(X, np.sin(2 * X[:, 0]))
    >>> mean, std = gp.predict([[0.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.0)) < 3 * std[0])
    True
    >>> m = gp.predict_uncertain([0.5], [[0.04]])
    >>> bool(m.var > std[0] ** 2)
    True
    """

    # A fit of 1000 rows took 2.9 s and one of 2000 rows 16 s on one thread (6 inputs, 80
    # iterations); by n^3 one of 3000 takes 55 s. Memory is 3 (n, n) arrays: 220 MB at 3000 rows.
    most_rows: ClassVar[int | None] = 3000

    posterior_: KernelPosterior | PosteriorMixture
    nodes_: tuple["GPRegressor", ...]
    node_weights_: Array

    def __init__(
        self,
        *,
        linear: bool | ArrayLike = True,
        prior: Literal["weak", "shrunk"] | None = "weak",
        groups: ArrayLike | None = None,
        bias: Literal["free", "shrunk"] | None = "free",
        lengthscales: Lengthscales = None,
        noise_std: float | None = None,
        hyperparameters: Literal["mode", "integrated"] = "mode",
        noisy_inputs: Literal["nigp", "annealed", "stochastic_em"] | None = None,
        n_restarts: int = 0,
        tol: float = 1e-10,
        random_state: RandomState = None,
    ) -> None:
        self.linear = linear
        self.prior = prior
        self.groups = groups
        self.bias = bias
        self.lengthscales = lengthscales
        self.noise_std = noise_std
        self.hyperparameters = hyperparameters
        self.noisy_inputs = noisy_inputs
        self.n_restarts = n_restarts
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, input_cov: ArrayLike | None = None) -> Self:
        """Maximize the evidence and compute the posterior.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        y : array-like of shape (n,)
            Targets.
        input_cov : array-like of shape (d,), (d, d) or (n, d, d), optional
            Known noise of the inputs, in their squared units: variances, a covariance, or one for
            each row. It is learned without, or taken as none with `noisy_inputs=None`, which takes
            variances alone.

        Returns
        -------
        GPRegressor

        Raises
        ------
        ValueError
            If a fixed hyper-parameter is not positive or has the wrong shape, the covariance with
            the fixed values is not positive definite, or `input_cov` is no covariance.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        X, y = np.asarray(X), np.asarray(y, dtype=np.float64)
        self._check_parameters(X.shape[1])
        self.nodes_, self.node_weights_ = (), np.zeros(0)
        check_rows_in_memory(len(X), _MATRICES)
        n, d = X.shape
        groups = np.zeros(d, dtype=np.intp) if self.groups is None else np.asarray(self.groups)
        learned = self._learns_linear
        center = self.bias == "free" or not learned
        self._input_offset, self._output_offset = X.mean(axis=0), float(y.mean()) if center else 0.0
        given = np.zeros(d) if isinstance(self.linear, (bool, np.bool_)) else self.linear
        self._mean_weights = np.array(given, dtype=np.float64)
        inputs: Array = X - self._input_offset
        rest = y - self._output_offset - inputs @ self._mean_weights
        input_scale = column_scale(X)
        output_scale = float(column_scale(rest[:, None])[0])
        standardized = rest / output_scale
        bias_scale = self._prior_bias_std(standardized)
        evidence = GaussianProcessEvidence(
            inputs / input_scale, standardized, learned, groups, bias_scale
        )
        S = self._noise_of_inputs(input_cov, input_scale, (n, d))
        if S is not None and self.noisy_inputs is None:
            evidence = BlurredEvidence(evidence, np.diagonal(S))
        space = self._search_space(evidence, input_scale, output_scale)
        least_ratio = _LEAST_NOISE_RATIO if self.noise_std is None else 0.0
        objective = _Objective(evidence, space, least_ratio)
        self._bias_scale = bias_scale * output_scale * learned
        self._rows: NoisyRows | None = None
        self.input_cov_, self.rounds_ = np.zeros((d, d)), list[Round]()
        found = None

        def at(x: Array) -> GPRegressor:
            node = copy.copy(self)
            node.hyperparameters = "mode"
            node._set_hyperparameters(objective.theta(x), groups, input_scale, output_scale)
            node.posterior_ = node._posterior(inputs, y, node._factor(inputs))
            return node

        with blas_threads(n):
            best = self._maximize(objective, space)
            theta = objective.theta(best.log_hyperparameters)
            if self.noisy_inputs is not None:
                seed, tol = self.random_state, self.tol
                found = train(self.noisy_inputs, evidence, space, theta, S, seed, tol)
                theta, n_iter = found.log_hyper, best.n_iter + found.n_iter
                best = _Optimum(theta, np.nan, found.converged, n_iter)
            self._set_hyperparameters(theta, groups, input_scale, output_scale)
            self.log_evidence_ = best.log_evidence - n * float(np.log(output_scale))
            self.converged_, self.n_iter_ = best.converged, best.n_iter
            if self.hyperparameters == "integrated":
                rows = X[np.linspace(0, n - 1, min(n, _EFFECT_ROWS)).astype(np.intp)]
                nodes = self._design(objective, space, best.log_hyperparameters, at, rows)
                self.nodes_, self.node_weights_ = tuple(map(at, nodes.nodes)), nodes.p
                self._mix()
            elif S is None and found is None:
                self.posterior_ = self._posterior(inputs, y, self._factor(inputs))
            else:
                self._fit_noisy(X, y, S, found, np.append(input_scale, output_scale))
        return self

    def _noise_of_inputs(
        self, input_cov: ArrayLike | None, input_scale: Array, shape: tuple[int, int]
    ) -> Array | None:
        """Known noise of the inputs, checked and of standardized inputs, or None."""
        S = check_input_cov(input_cov, shape, self.noisy_inputs is None)
        if S is None:
            return None
        if self._mean_weights.any():
            raise ValueError(
                "input_cov must be None with weights of a linear prior mean; got one. Use "
                "linear=True."
            )
        if self.hyperparameters == "integrated":
            raise ValueError(
                "input_cov must be None with hyperparameters='integrated'; got one. Use 'mode' "
                "for inputs with noise."
            )
        return np.asarray(S / np.outer(input_scale, input_scale))

    def _fit_noisy(
        self, X: Array, y: Array, S: Array | None, found: Learned | None, scale: Array
    ) -> None:
        """Set what only rows with noisy inputs have, and their posterior; S in units of `scale`."""
        scales = self.lengthscales_, self.amplitude_, self._linear_std, self.noise_std_
        offsets = self._input_offset, self._output_offset
        hyper = Hyperparameters(*scales, *offsets, self._widening(len(y)))
        if found is not None:
            self.rounds_ = in_units(found.rounds, scale)
            rows = noisy_rows(found, hyper, X, y, scale, self.noisy_inputs != "nigp")
            self._rows, self.posterior_ = rows, rows.posterior(X, y)
            self.log_evidence_ = rows.log_evidence(X, y, self.posterior_)
            self.input_cov_ = rows.input_cov
        elif S is not None:
            blurred = BlurredRows(hyper, np.diagonal(S) * scale[:-1] ** 2)
            self._rows, self.posterior_ = blurred, blurred.posterior(X, y)
            self.input_cov_ = blurred.input_cov

    def condition(self, X: ArrayLike, y: ArrayLike, input_cov: ArrayLike | None = None) -> Self:
        """A new regressor with the same hyper-parameters and other data; this one is unchanged.

        Inputs that continue those it holds, all of them or all but a few at the front, cost
        O(n^2) for each row that came or went: the Cholesky factor is updated, and equals
        a fresh one to roundoff. Others cost O(n^3), and so do all whose inputs are noisy.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        y : array-like of shape (n,)
            Targets.
        input_cov : array-like of shape (d,), (d, d) or (n, d, d), optional
            Noise of these inputs; by default that of `fit`, learned or given for all rows.

        Returns
        -------
        GPRegressor
            A new one, with the posterior of the new data; `log_evidence_` is that of `fit`.
        """
        check_is_fitted(self)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=False)
        conditioned = copy.copy(self)
        if self._rows is not None:
            X, y = np.asarray(X), np.asarray(y, dtype=np.float64)
            S = check_input_cov(input_cov, X.shape, self.noisy_inputs is None)
            conditioned.posterior_ = self._rows.posterior(X, y, S)
            return conditioned
        if input_cov is not None:
            raise ValueError(
                "input_cov must be None after a fit without input noise; got one. Pass "
                "fit(X, y, input_cov=...), or noisy_inputs='nigp'."
            )
        if self.nodes_:
            conditioned.nodes_ = tuple(node.condition(X, y) for node in self.nodes_)
            conditioned._mix()
            return conditioned
        inputs: Array = np.asarray(X) - self._input_offset
        chol = self._moved_factor(inputs)
        chol = self._factor(inputs) if chol is None else chol
        conditioned.posterior_ = self._posterior(inputs, np.asarray(y, dtype=np.float64), chol)
        return conditioned

    def leading_means(self, X: Array, y: Array, counts: Sequence[int]) -> LeadingMeans:
        """Means given the first rows alone, with the hyper-parameters of all.

        The factor of the first rows is the first block of that of all: with K = L L' and
        r = L^-1 y, the weights of the first m rows are those of L_m' b = r_m. O(n^2) a count, and
        O(n d) a mean; with noisy inputs O(n^3) a count.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            The rows that this was fitted or conditioned on.
        y : ndarray of shape (n,)
            Their targets.
        counts : sequence of int
            How many of the first rows each mean rests on.

        Returns
        -------
        callable
            From one input for each of the counts, (k, d), to the k means, (k,).
        """
        if self._rows is not None:
            return super().leading_means(X, y, counts)
        if self.nodes_:
            each = [node.leading_means(X, y, counts) for node in self.nodes_]
            return lambda inputs: np.asarray(self.node_weights_ @ [one(inputs) for one in each])
        posterior = self._kernel_posterior
        chol = posterior.factors[0].chol
        rest = y - self._output_offset - posterior.centers @ self._mean_weights
        residual = dtrsv(chol, rest, lower=1)
        weights = np.zeros((len(y), len(counts)), order="F")
        for column, m in zip(weights.T, counts, strict=True):
            column[:m] = dtrsv(np.asfortranarray(chol[:m, :m]), residual[:m], lower=1, trans=1)
        basis = np.column_stack([posterior.centers, np.ones(len(y))])
        slopes = dgemm(1.0, np.asfortranarray(basis * self._linear_std**2), weights, trans_a=1)
        slopes[:-1] += self._mean_weights[:, None]

        def means(inputs: Array) -> Array:
            centered = inputs - self._input_offset
            kernel = squared_exponential(posterior.centers, centered, self.lengthscales_)
            kernel *= weights
            smooth = self.amplitude_**2 * kernel.sum(axis=0)
            linear = np.einsum("kd,dk->k", centered, slopes[:-1]) + slopes[-1]
            return np.asarray(self._output_offset + smooth + linear)

        return means

    @property
    def _learns_linear(self) -> bool:
        """Whether there are linear weights to learn."""
        return isinstance(self.linear, (bool, np.bool_)) and bool(self.linear)

    def _check_parameters(self, d: int) -> None:
        for name, value, allowed, remedy in (
            ("prior", self.prior, ("weak", "shrunk", None), "Use None to switch it off."),
            ("bias", self.bias, ("free", "shrunk", None), "Use None for none."),
            (
                "noisy_inputs",
                self.noisy_inputs,
                ("nigp", "annealed", "stochastic_em", None),
                "Use None for inputs without noise, or with noise that is known.",
            ),
        ):
            if value not in allowed:
                raise ValueError(
                    f"{name} must be {', '.join(map(repr, allowed[:-1]))} or None; got {value!r}. "
                    f"{remedy}"
                )
        if self.groups is not None:
            groups = np.asarray(self.groups)
            if (
                groups.shape != (d,)
                or not np.issubdtype(groups.dtype, np.integer)
                or groups.min() < -1
                or groups.max() > d + 1
            ):
                raise ValueError(
                    f"groups must number the group of each of the {d} inputs, from 0, or -1 "
                    f"for no linear weight; got {self.groups!r}. Use None for one group."
                )
        if not isinstance(self.linear, (bool, np.bool_)):
            weights = np.asarray(self.linear)
            if (
                weights.shape != (d,)
                or not np.issubdtype(weights.dtype, np.number)
                or not np.isfinite(weights).all()
            ):
                raise ValueError(
                    f"linear must be True, False or {d} finite weights of a linear prior mean; got "
                    f"{self.linear!r}. True learns them."
                )
            if self.noisy_inputs is not None:
                raise ValueError(
                    "linear must be True or False with noisy_inputs; got weights. Their slopes "
                    "would be noise of the output: take the linear part off y beforehand."
                )
        if not isinstance(self.tol, (int, float, np.number)) or not 0.0 < self.tol < 1.0:
            raise ValueError(
                f"tol must lie strictly between 0 and 1; got {self.tol!r}. 1e-6 is a loose one."
            )
        if self.hyperparameters not in ("mode", "integrated"):
            raise ValueError(
                "hyperparameters must be 'mode' or 'integrated'; got "
                f"{self.hyperparameters!r}. 'mode' takes the most probable ones."
            )
        if self.hyperparameters == "integrated":
            self._check_integrated()
        check_lengthscales(self.lengthscales, d, "learn them")
        check_noise_std(self.noise_std)
        check_whole("n_restarts", self.n_restarts, 0, "0 is one search from the standard start.")

    def _check_integrated(self) -> None:
        """Raise if what is integrated over has no mean, or no nodes."""
        if self.prior is None:
            raise ValueError(
                "prior must be 'weak' or 'shrunk' for hyperparameters='integrated'; got None. "
                "Without one their posterior may have no mean: use 'weak'."
            )
        if self.noisy_inputs is not None:
            raise ValueError(
                "noisy_inputs must be None with hyperparameters='integrated'; got "
                f"{self.noisy_inputs!r}. Use 'mode' for inputs with noise."
            )
        if not isinstance(self.linear, (bool, np.bool_)):
            raise ValueError(
                "linear must be True or False with hyperparameters='integrated'; got weights. Use "
                "'mode' for a linear prior mean."
            )

    def _prior_bias_std(self, y: Array) -> float:
        """Prior std tau_0 of the bias of standardized targets."""
        if self.bias == "free":
            return 1.0
        if self.bias is None:
            return 0.0
        return float(np.sqrt(max(0.0, y.mean() ** 2 - _AKAIKE * y.var() / len(y))))

    def _maximize(self, objective: _Objective, space: _SearchSpace) -> _Optimum:
        """Best of the searches over log [l, a, tau, s], on standardized data."""
        median, bounds = space.median[space.free], space.bounds[space.free]
        rng = generator(self.random_state)
        starts = [space.start[space.free]]
        for _ in range(self.n_restarts):
            draw = median + _LOG_STD * rng.standard_normal(len(median))
            starts.append(np.clip(draw, *bounds.T))
        options: Any = {"maxiter": 500, "ftol": self.tol, "gtol": 1e-4}
        search: Any = partial(
            minimize, objective, jac=True, method="L-BFGS-B", bounds=bounds, options=options
        )
        best = min(map(search, starts), key=lambda result: float(result.fun))
        if not np.isfinite(best.fun):
            raise ValueError(
                "noise_std and lengthscales must give a positive definite covariance; got a "
                f"factorization that fails with noise_std={self.noise_std!r}, "
                f"lengthscales={self.lengthscales!r}. Give a larger noise_std, or learn both."
            )
        log_evidence = -float(best.fun) - objective.log_prior(best.x)
        return _Optimum(best.x, log_evidence, bool(best.success), int(best.nit))

    def _set_hyperparameters(
        self, theta: Array, groups: NDArray[np.intp], input_scale: Array, output_scale: float
    ) -> None:
        """Take exp(theta), of standardized data, in the units of the data."""
        d, scales = len(input_scale), np.exp(theta)
        self.lengthscales_ = scales[:d] * input_scale
        self.amplitude_ = float(scales[d]) * output_scale
        self.noise_std_ = float(scales[-1]) * output_scale
        self.linear_scale_ = (
            np.where(groups < 0, 0.0, np.append(scales[d + 1 : -1], 0.0)[groups])
            * output_scale
            * self._learns_linear
            / input_scale
        )
        self._linear_std = np.append(self.linear_scale_, self._bias_scale)

    def _design(
        self,
        objective: _Objective,
        space: _SearchSpace,
        mode: Array,
        at: Callable[[Array], "GPRegressor"],
        rows: Array,
    ) -> Design:
        """Log hyper-parameters that stand for their posterior, by their effect at some rows."""
        center, var = at(mode).posterior_.predict(rows)

        def effect(x: Array) -> Effect:
            mean, other = at(x).posterior_.predict(rows)
            return (mean - center) / np.sqrt(var), other / var

        def gradient(x: Array) -> Array:
            return objective(x)[1]

        log_std, bounds = space.log_std[space.free], space.bounds[space.free]
        return design(objective.value, gradient, effect, mode, log_std, bounds)

    @property
    def _kernel_posterior(self) -> KernelPosterior:
        """The posterior of one set of hyper-parameters."""
        return cast(KernelPosterior, self.posterior_)

    def _mix(self) -> None:
        """Make the posterior that of the nodes."""
        self.posterior_ = PosteriorMixture(
            tuple(node.posterior_ for node in self.nodes_), self.node_weights_
        )

    def _search_space(
        self, evidence: GaussianProcessEvidence, input_scale: Array, output_scale: float
    ) -> _SearchSpace:
        """Priors and bounds of the log hyper-parameters, and which of them are free."""
        d, n_groups = len(input_scale), max(1, int(evidence.groups.max()) + 1)
        amplitude, linear_scale, noise_std = _PRIORS[self.prior]
        others = [_PRIORS["weak" if self.prior else None][1]] * (n_groups - 1)
        length = (2.0 * np.sqrt(d), _LOG_STD if self.prior else np.inf)
        prior = np.array([length] * d + [amplitude, linear_scale, *others, noise_std])
        median = np.log(prior[:, 0])
        scales = [_SCALE_BOUNDS[0], *[_SCALE_BOUNDS[1]] * n_groups, _SCALE_BOUNDS[2]]
        bounds = np.log([_LENGTHSCALE_BOUNDS] * d + scales)
        free = np.ones(len(median), dtype=bool)
        start = median.copy()
        log_std = prior[:, 1]
        if self.prior == "weak":
            share = _share_left(evidence)
            median[[d, -1]] += np.log(share)
            log_std[d] = share * _LOG_STD + (1.0 - share) * _PRIORS["shrunk"][0][1]
        if self.lengthscales is not None:
            start[:d], free[:d] = np.log(np.asarray(self.lengthscales) / input_scale), False
        if self.noise_std is not None:
            start[-1], free[-1] = np.log(self.noise_std / output_scale), False
            # the amplitude gives way to the noise here; where both are learned, the noise does
            least = np.log(_LEAST_NOISE_RATIO)
            bounds[d, 1] = np.clip(start[-1] - least, bounds[d, 0] + 1.0, bounds[d, 1])
        free[d + 1 : -1] &= evidence.linear
        return _SearchSpace(start, free, median, log_std, bounds)

    def _factor(self, X: Array) -> Array:
        """Cholesky factor of the covariance of the rows; X is measured from `_input_offset`."""
        chol = np.empty((len(X), len(X)), order="F")
        basis = np.column_stack([X, np.ones(len(X))]) * self._linear_std
        covariance_matrix(
            (X / self.lengthscales_).T,
            self.amplitude_,
            self.noise_std_,
            np.asfortranarray(basis.T if self._learns_linear else basis.T[:0]),
            chol,
        )
        chol, info = dpotrf(chol, lower=1, clean=1, overwrite_a=1)
        if info:
            raise ValueError(
                "noise_std must keep the covariance positive definite; got a factorization that "
                f"fails at row {info} with {self.noise_std_:.3g}. Give a larger noise_std."
            )
        return np.asarray(chol)

    def _moved_factor(self, X: Array) -> Array | None:
        """Cholesky factor of the rows X from the present one, if they continue its rows."""
        held = self._kernel_posterior.centers
        for dropped in np.flatnonzero((held[: len(held) // _DROPS + 1] == X[0]).all(axis=1)):
            kept = len(held) - int(dropped)
            if np.array_equal(held[dropped:], X[:kept]):
                new = X[kept:]
                cross, block = self._covariance(X[:kept], new), self._covariance(new, new)
                block += self.noise_std_**2 * np.eye(len(new))
                try:
                    return move(self._kernel_posterior.factors[0].chol, int(dropped), cross, block)
                except LinAlgError:  # which a fresh factorization puts in terms of the noise
                    return None
        return None

    def _covariance(self, A: Array, B: Array) -> Array:
        """Prior covariance of the function between rows measured from `_input_offset`."""
        var = self._linear_std**2
        kernel = squared_exponential(A, B, self.lengthscales_)
        return np.asarray(self.amplitude_**2 * kernel + (A * var[:-1]) @ B.T + var[-1])

    def _posterior(self, X: Array, y: Array, chol: Array) -> KernelPosterior:
        """w = P' K^-1 y and G = diag(0, A) - P' K^-1 P, with k(X, x) = P phi(x), K = L L'.

        The weights of a linear prior mean are taken from y and added to w.
        """
        b, _ = dpotrs(chol, y - self._output_offset - X @ self._mean_weights, lower=1)
        basis = np.column_stack([X, np.ones(len(y))])
        projection = np.asfortranarray(basis * self._linear_std**2)  # Xt A
        slopes = dgemv(1.0, projection, b, trans=1)
        slopes[:-1] += self._mean_weights
        widening = self._widening(len(y))
        unit = np.sqrt(widening)
        return KernelPosterior(
            centers=X,
            lengthscales=self.lengthscales_,
            weights=np.concatenate([self.amplitude_**2 * b, slopes]),
            factors=(
                Factor(-1, chol, unit * self.amplitude_**2, unit * projection, self.noise_std_**2),
            ),
            linear_var=widening * self._linear_std**2,
            kernel_var=widening * self.amplitude_**2,
            noise_var=widening * self.noise_std_**2,
            input_offset=self._input_offset,
            output_offset=self._output_offset,
        )

    def _widening(self, n: int) -> float:
        """Variance of Student's t with n - 1 degrees of freedom, for the shrunk prior.

        A common scale of all variances, integrated out under 1 / scale, makes the prediction
        a t process; it is replaced by the Gaussian of its mean and variance.
        """
        widened = self.prior == "shrunk" and self.noise_std is None and n > 3
        return (n - 1.0) / (n - 3.0) if widened else 1.0


def _share_left(evidence: GaussianProcessEvidence) -> float:
    """Std that least squares on the linear part leaves, in `_LEFT_BY_LINEAR`; 1 at most."""
    if not evidence.linear:
        return 1.0
    basis = evidence.basis[np.append(evidence.groups >= 0, evidence.bias_scale > 0.0)].T
    n, k = basis.shape
    if not 0 < k < n:
        return 1.0
    weights, _, rank, _ = np.linalg.lstsq(basis, evidence.y)
    left = float(np.linalg.norm(evidence.y - basis @ weights)) / np.sqrt(n - rank)
    return float(np.clip(left / _LEFT_BY_LINEAR, _LEAST_SHARE, 1.0))
