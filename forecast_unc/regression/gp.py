"""Gaussian process regression: hyper-parameters by the evidence."""

import copy
from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from forecast_unc._random import RandomState
from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array
from forecast_unc.regression.evidence import GaussianProcessEvidence
from forecast_unc.regression.gp_parameters import check_parameters, known_noise, learns_or_not
from forecast_unc.regression.hyperparameter_search import (
    LEAST_NOISE_RATIO,
    Objective,
    Optimum,
    Prior,
    SearchEnd,
    SearchSpace,
    bias_std,
    maximize,
    search_space,
    widening,
)
from forecast_unc.regression.hyperposterior import Effect, curvature, design
from forecast_unc.regression.kernel_posterior import KernelPosterior
from forecast_unc.regression.learned_prior import LearnedPrior
from forecast_unc.regression.noisy_inputs.evidence import BlurredEvidence
from forecast_unc.regression.noisy_inputs.learn import (
    NoisyRows,
    check_input_cov,
    in_units,
    noisy_rows,
    train,
)
from forecast_unc.regression.noisy_inputs.posterior import BlurredRows, Hyperparameters
from forecast_unc.regression.noisy_inputs.search import Learned, Round
from forecast_unc.regression.posterior_mixture import PosteriorMixture
from forecast_unc.regression.process import GaussianProcess
from forecast_unc.regression.regressor import (
    KernelRegressor,
    LeadingMeans,
    check_rows_in_memory,
)
from forecast_unc.regression.standardize import Lengthscales, column_scale

# Rows, evenly spaced and the last one with them, at which an effect of hyper-parameters counts.
_EFFECT_ROWS = 12
# (n, n) arrays held at once: covariance, kernel part and a factor or inverse.
_MATRICES = 3


class _Rows(NamedTuple):
    """Rows to learn from, and their units."""

    inputs: Array  # (n, d), measured from their means
    evidence: GaussianProcessEvidence  # of the standardized rows
    groups: NDArray[np.intp]  # (d,), of the linear weights
    input_scale: Array  # (d,)
    output_scale: float


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
    tol : float, default=0.01
        The search ends when its last ten steps together gained less, in nats of log evidence
        and log prior. With 1e-12 nine forecasts in ten move by a thousandth of their std or less,
        and a fit may leave a saddle at which it stays without.
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
    lengthscales_: Array
    amplitude_: float
    linear_scale_: Array
    noise_std_: float
    log_evidence_: float
    input_cov_: Array
    rounds_: list[Round]
    converged_: bool
    n_iter_: int
    n_features_in_: int

    # As they are measured inside: where from, the prior of the linear part, and the search's end.
    _input_offset: Array
    _output_offset: float
    _mean_weights: Array
    _bias_scale: float
    _linear_std: Array
    _mode: Array
    _rows: NoisyRows | None

    def __init__(
        self,
        *,
        linear: bool | ArrayLike = True,
        prior: Prior = "weak",
        groups: ArrayLike | None = None,
        bias: Literal["free", "shrunk"] | None = "free",
        lengthscales: Lengthscales = None,
        noise_std: float | None = None,
        hyperparameters: Literal["mode", "integrated"] = "mode",
        noisy_inputs: Literal["nigp", "annealed", "stochastic_em"] | None = None,
        n_restarts: int = 0,
        tol: float = 0.01,
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
        check_parameters(vars(self), X.shape[1])
        S = known_noise(vars(self), input_cov, X.shape)
        self.nodes_, self.node_weights_ = (), np.zeros(0)
        check_rows_in_memory(len(X), _MATRICES)
        n, d = X.shape
        rows = self._standardized(X, y)
        evidence, scale = rows.evidence, rows.output_scale
        S = None if S is None else S / np.outer(rows.input_scale, rows.input_scale)
        if S is not None and self.noisy_inputs is None:
            evidence = BlurredEvidence(evidence, np.diagonal(S))
        objective = self._objective(evidence, rows.input_scale, scale)
        space = objective.space
        self._rows = None
        self.input_cov_, self.rounds_ = np.zeros((d, d)), []
        found = None
        with blas_threads(n):
            restarts = 0 if space.warm else self.n_restarts
            best = maximize(objective, restarts, self.tol, self.random_state)
            if not np.isfinite(best.log_evidence):
                raise ValueError(
                    "noise_std and lengthscales must give a positive definite covariance; got a "
                    f"factorization that fails with noise_std={self.noise_std!r}, "
                    f"lengthscales={self.lengthscales!r}. Give a larger noise_std, or learn both."
                )
            self._mode = best.log_hyperparameters
            theta = objective.theta(self._mode)
            self._end = SearchEnd(space.free, theta)
            if self.noisy_inputs is not None:
                seed, tol = self.random_state, self.tol
                found = train(self.noisy_inputs, evidence, space, theta, S, seed, tol)
                theta, n_iter = found.log_hyper, best.n_iter + found.n_iter
                best = Optimum(theta, np.nan, found.converged, n_iter)
            self._set_hyperparameters(theta, rows.groups, rows.input_scale, scale)
            self.log_evidence_ = best.log_evidence - n * float(np.log(scale))
            self.converged_, self.n_iter_ = best.converged, best.n_iter
            if self.hyperparameters == "integrated":
                self._integrate(objective, self._mode, rows, X, y)
            elif S is None and found is None:
                process = self._process(n)
                self.posterior_ = process.posterior(rows.inputs, y, process.factor(rows.inputs))
            else:
                self._fit_noisy(X, y, S, found, np.append(rows.input_scale, scale))
        self._start = None  # of this fit alone
        return self

    def log_hyperparameters(self, X: Array, y: Array) -> tuple[Array, Array]:
        """Mode and variance of the log hyper-parameters, from the curvature of the log posterior.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            The rows that this was fitted on.
        y : ndarray of shape (n,)
            Their targets.

        Returns
        -------
        mode : ndarray of shape (d + 2 + g,)
            Of log [l, a, tau, s] on standardized data; NaN where given.
        var : ndarray of shape (d + 2 + g,)
            Where the evidence is convex, as if it said nothing.
        """
        rows = copy.copy(self)._standardized(X, y)
        objective = self._objective(rows.evidence, rows.input_scale, rows.output_scale)
        space = objective.space
        mode, var = np.full((2, len(space.free)), np.nan)
        mode[space.free] = self._mode
        log_std = space.log_std[space.free]
        with blas_threads(len(y)):
            hessian = curvature(lambda x: objective(x)[1], self._mode, space.bounds[space.free])
        values, vectors = np.linalg.eigh(log_std[:, None] * hessian * log_std)
        axes = log_std[:, None] * vectors
        var[space.free] = (axes**2 / np.maximum(values, 1.0)).sum(axis=1)
        return mode, var

    def _standardized(self, X: Array, y: Array) -> _Rows:
        """Rows in units of their own; sets where they are measured from, and the bias's prior."""
        d, learned = X.shape[1], self._learns_linear
        center = self.bias == "free" or not learned
        self._input_offset, self._output_offset = X.mean(axis=0), float(y.mean()) if center else 0.0
        given = np.zeros(d) if learns_or_not(self.linear) else self.linear
        pooled = self.prior if isinstance(self.prior, LearnedPrior) and learned else None
        if pooled is not None:
            given = pooled.weights
        self._mean_weights = np.array(given, dtype=np.float64)
        if pooled is not None and self.bias is None:  # the prior mean is 0 where inputs are
            self._output_offset = float(self._input_offset @ self._mean_weights)
        inputs: Array = X - self._input_offset
        rest = y - self._output_offset - inputs @ self._mean_weights
        input_scale, output_scale = column_scale(X), float(column_scale(rest[:, None])[0])
        if pooled is not None and self.bias == "shrunk" and pooled.bias is not None:
            shift = pooled.bias[0] * output_scale
            self._output_offset, rest = self._output_offset + shift, rest - shift
        standardized = rest / output_scale
        bias_scale = bias_std(self.bias, self.prior, standardized)
        self._bias_scale = bias_scale * output_scale * learned
        groups = np.zeros(d, dtype=np.intp) if self.groups is None else np.asarray(self.groups)
        evidence = GaussianProcessEvidence(
            inputs / input_scale, standardized, learned, groups, bias_scale
        )
        return _Rows(inputs, evidence, groups, input_scale, output_scale)

    def _integrate(
        self, objective: Objective, mode: Array, rows: _Rows, X: Array, y: Array
    ) -> None:
        """Set the nodes of the posterior of the hyper-parameters, by their effect at some rows."""
        n = len(y)
        some = X[np.linspace(0, n - 1, min(n, _EFFECT_ROWS)).astype(np.intp)]

        def at(x: Array) -> GPRegressor:
            node = copy.copy(self)
            node.hyperparameters = "mode"
            node._set_hyperparameters(
                objective.theta(x), rows.groups, rows.input_scale, rows.output_scale
            )
            process = node._process(n)
            node.posterior_ = process.posterior(rows.inputs, y, process.factor(rows.inputs))
            return node

        center, var = at(mode).posterior_.predict(some)

        def effect(x: Array) -> Effect:
            mean, other = at(x).posterior_.predict(some)
            return (mean - center) / np.sqrt(var), other / var

        def gradient(x: Array) -> Array:
            return objective(x)[1]

        space = objective.space
        log_std, bounds = space.log_std[space.free], space.bounds[space.free]
        found = design(objective.value, gradient, effect, mode, log_std, bounds)
        self.nodes_, self.node_weights_ = tuple(map(at, found.nodes)), found.p
        self._mix()

    def _fit_noisy(
        self, X: Array, y: Array, S: Array | None, found: Learned | None, scale: Array
    ) -> None:
        """Set what only rows with noisy inputs have, and their posterior; S in units of `scale`."""
        hyper = self._process(len(y)).hyper
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
        process = self._process(len(inputs))
        chol = process.moved_factor(self._kernel_posterior, inputs)
        chol = process.factor(inputs) if chol is None else chol
        conditioned.posterior_ = process.posterior(inputs, np.asarray(y, dtype=np.float64), chol)
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
        return self._process(len(y)).leading_means(self._kernel_posterior, y, counts)

    @property
    def _learns_linear(self) -> bool:
        """Whether there are linear weights to learn."""
        return learns_or_not(self.linear) and bool(self.linear)

    def _set_hyperparameters(
        self, theta: Array, groups: NDArray[np.intp], input_scale: Array, output_scale: float
    ) -> None:
        """Take exp(theta), of standardized data, in the units of the data."""
        d, scales = len(input_scale), np.exp(theta)
        self.lengthscales_ = scales[:d] * input_scale
        self.amplitude_ = float(scales[d]) * output_scale
        self.noise_std_ = float(scales[-1]) * output_scale
        stds = np.where(groups < 0, 0.0, np.append(scales[d + 1 : -1], 0.0)[groups])
        self.linear_scale_ = stds * output_scale * self._learns_linear / input_scale
        self._linear_std = np.append(self.linear_scale_, self._bias_scale)

    @property
    def _kernel_posterior(self) -> KernelPosterior:
        """The posterior of one set of hyper-parameters."""
        return cast(KernelPosterior, self.posterior_)

    def _mix(self) -> None:
        """Make the posterior that of the nodes."""
        self.posterior_ = PosteriorMixture(
            tuple(node.posterior_ for node in self.nodes_), self.node_weights_
        )

    def _objective(
        self, evidence: GaussianProcessEvidence, input_scale: Array, output_scale: float
    ) -> Objective:
        """What is minimized."""
        space = self._search_space(evidence, input_scale, output_scale)
        return Objective(evidence, space, LEAST_NOISE_RATIO if self.noise_std is None else 0.0)

    def _search_space(
        self, evidence: GaussianProcessEvidence, input_scale: Array, output_scale: float
    ) -> SearchSpace:
        """Priors and bounds of the log hyper-parameters, and which of them are free."""
        given, noise_std = self.lengthscales, self.noise_std
        lengthscales = None if given is None else np.asarray(given) / input_scale
        noise_std = None if noise_std is None else noise_std / output_scale
        space = search_space(evidence, self.prior, lengthscales, noise_std)
        return space.starting_at(self._start)

    def _process(self, n: int) -> GaussianProcess:
        """The process of these hyper-parameters, for n rows."""
        scales = self.lengthscales_, self.amplitude_, self._linear_std, self.noise_std_
        offsets = self._input_offset, self._output_offset
        hyper = Hyperparameters(*scales, *offsets, widening(self.prior, self.noise_std, n))
        return GaussianProcess(hyper, self._mean_weights)
