"""Gaussian process regression: hyper-parameters by the evidence."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, validate_data

from forecast_unc._checks import RandomState, check_whole, refusal
from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array
from forecast_unc.regression.estimator import (
    KernelRegressor,
    LeadingMeans,
    Lengthscales,
    check_lengthscales,
    check_noise_std,
    check_rows_in_memory,
    column_scale,
)
from forecast_unc.regression.evidence import GaussianProcessEvidence
from forecast_unc.regression.integrated import design
from forecast_unc.regression.kernel_posterior import KernelPosterior
from forecast_unc.regression.mixture import PosteriorMixture
from forecast_unc.regression.noisy_inputs.evidence import BlurredEvidence, Round
from forecast_unc.regression.noisy_inputs.rows import (
    check_input_cov,
    linearized,
    log_evidence,
    smoothed_inputs,
)
from forecast_unc.regression.noisy_inputs.train import train
from forecast_unc.regression.posterior import Posterior
from forecast_unc.regression.process import GaussianProcess
from forecast_unc.regression.search import (
    Objective,
    Prior,
    SearchEnd,
    SearchSpace,
    bias_std,
    maximize,
    search_space,
    widening,
)

# Rows, evenly spaced and the last one with them, at which an effect of hyper-parameters counts.
_EFFECT_ROWS = 12
# (n, n) arrays held at once: covariance, kernel part and a factor or inverse.
_MATRICES = 3


class Units(NamedTuple):
    """Stds of rows, by which they are standardized."""

    inputs: Array  # (d,)
    output: float

    @classmethod
    def of(cls, X: Array, y: Array) -> Self:
        """Those of the columns of X (n, d), and of y."""
        return cls(column_scale(X), float(column_scale(y[:, None])[0]))


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

    # Where inputs and targets are measured from, and the prior of the linear part.
    _input_offset: Array
    _output_offset: float
    _mean_weights: Array
    _bias_scale: float
    # Whether inputs have noise, and the curve by whose slopes rows are linearized, if they are: no
    # more than its mean, which stays as it was at the fit, so that a row always means the same.
    _noisy: bool
    _curve: KernelPosterior | None

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
        n, d = X.shape
        check_process(vars(self), d)
        _check_parameters(vars(self), d)
        S = self._known_noise(input_cov, X.shape)
        check_rows_in_memory(n, _MATRICES)
        evidence, units = self._standardized(X, y)
        self.nodes_, self.node_weights_, self._curve, self.rounds_ = (), np.zeros(0), None, []
        self._noisy = S is not None or self.noisy_inputs is not None
        self.input_cov_ = np.zeros((d, d)) if S is None else S.copy()
        space = self._search_space(evidence, *units)
        objective = Objective(evidence, space)
        if S is not None and self.noisy_inputs is None:
            blurred = BlurredEvidence(evidence, np.diagonal(S) / units.inputs**2)
            objective = Objective(blurred, space)
        with blas_threads(n):
            starts = space.starts(0 if space.warm else self.n_restarts, self.random_state)
            best = maximize(objective, starts, self.tol)
            if not np.isfinite(best.log_evidence):
                raise refusal(
                    "noise_std and lengthscales",
                    "give a positive definite covariance",
                    f"a factorization that fails with noise_std={self.noise_std!r}, "
                    f"lengthscales={self.lengthscales!r}",
                    "Give a larger noise_std, or learn both.",
                )
            self._end = SearchEnd(space.free, best.theta)
            self.converged_, self.n_iter_ = best.converged, best.n_iter
            self.log_evidence_ = best.log_evidence - n * float(np.log(units.output))
            self._set_hyperparameters(best.theta, evidence, units)
            if self.noisy_inputs is not None:
                self._learn_noisy(X, y, S, evidence, space, best.theta, units)
            elif self.hyperparameters == "integrated":
                self._integrate(objective, evidence, best.x, units, X, y)
            self._set_posterior(X, y)
            if self._curve is not None:
                self.log_evidence_ = log_evidence(self._kernel_posterior, self.amplitude_)
        self._start = None  # of this fit alone
        return self

    def _known_noise(self, input_cov: ArrayLike | None, shape: tuple[int, ...]) -> Array | None:
        """Known noise of the inputs, (d, d) or (n, d, d), or None; refused where it has no use."""
        S = check_input_cov(input_cov, shape, self.noisy_inputs is None)
        if S is None:
            return None
        if not learns_or_not(self.linear) and np.any(self.linear):
            must = "be None with weights of a linear prior mean"
            raise refusal("input_cov", must, "one", "Use linear=True.")
        if self.hyperparameters == "integrated":
            must = "be None with hyperparameters='integrated'"
            raise refusal("input_cov", must, "one", "Use 'mode' for inputs with noise.")
        return S

    def _standardized(self, X: Array, y: Array) -> tuple[GaussianProcessEvidence, Units]:
        """Rows in units of their own; sets where they are measured from, and the bias's prior."""
        d, learned = X.shape[1], self._learns_linear
        center = self.bias == "free" or not learned
        self._input_offset, self._output_offset = X.mean(axis=0), float(y.mean()) if center else 0.0
        given = np.zeros(d) if learns_or_not(self.linear) else self.linear
        self._mean_weights = np.array(given, dtype=np.float64)
        inputs: Array = X - self._input_offset
        rest = y - self._output_offset - inputs @ self._mean_weights
        units = Units.of(X, rest)
        standardized = rest / units.output
        bias_scale = bias_std(self.bias, standardized)
        self._bias_scale = bias_scale * units.output * learned
        Z = inputs / units.inputs
        return GaussianProcessEvidence(Z, standardized, learned, self.groups, bias_scale), units

    def _integrate(
        self,
        objective: Objective,
        evidence: GaussianProcessEvidence,
        mode: Array,
        units: Units,
        X: Array,
        y: Array,
    ) -> None:
        """Set the nodes of the posterior of the hyper-parameters, by their effect at some rows."""
        n, space = len(y), objective.space
        some = X[np.linspace(0, n - 1, min(n, _EFFECT_ROWS)).astype(np.intp)]

        def at(x: Array) -> GPRegressor:
            node, theta = copy.copy(self), objective.theta(x)
            node.hyperparameters = "mode"
            node._set_hyperparameters(theta, evidence, units)
            node._set_posterior(X, y)
            return node

        found = design(
            lambda x: evidence.value(*objective.scales(x)) - objective.log_prior(x),
            lambda x: objective(x)[1],
            lambda x: at(x).posterior_.predict(some),
            mode,
            space.log_std[space.free],
            space.bounds[space.free],
        )
        self.nodes_, self.node_weights_ = tuple(map(at, found.nodes)), found.p

    def _learn_noisy(
        self,
        X: Array,
        y: Array,
        S: Array | None,
        evidence: GaussianProcessEvidence,
        space: SearchSpace,
        start: Array,
        units: Units,
    ) -> None:
        """Set hyper-parameters and the curve through the rows by the trainer for noisy inputs."""
        assert self.noisy_inputs is not None
        S = None if S is None else S / np.outer(units.inputs, units.inputs)
        found = train(self.noisy_inputs, evidence, space, start, S, self.random_state, self.tol)
        self._set_hyperparameters(found.theta, evidence, units)
        self.rounds_ = [
            Round(r.noise_std * units.output, r.input_std * units.inputs, r.score)
            for r in found.rounds
        ]
        self.converged_, self.n_iter_ = found.converged, self.n_iter_ + found.n_iter
        self.input_cov_ = found.input_cov * np.outer(units.inputs, units.inputs)
        at = found.inputs * units.inputs + self._input_offset
        slopes = found.slopes * units.output / units.inputs
        curve = linearized(self._process(len(y)), X, y, at, slopes, self.input_cov_)
        self._curve = replace(curve, factors=())

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
        X, y = np.asarray(X), np.asarray(y, dtype=np.float64)
        S = None
        if self._noisy:
            S = check_input_cov(input_cov, X.shape, self.noisy_inputs is None)
        elif input_cov is not None:
            raise refusal(
                "input_cov",
                "be None after a fit without input noise",
                "one",
                "Pass fit(X, y, input_cov=...), or noisy_inputs='nigp'.",
            )
        conditioned = copy.copy(self)
        held = vars(self).get("posterior_")  # None of what was read from a file
        conditioned._set_posterior(X, y, S, held)
        return conditioned

    def leading_means(self, X: Array, y: Array, counts: Sequence[int]) -> LeadingMeans:
        """Means given the first `counts` of the rows X, y alone, with the hyper-parameters of all.

        By blocks of one factor, O(n^2) a count and O(n d) a mean; with noisy inputs O(n^3) a count.
        """
        if self._noisy:
            return super().leading_means(X, y, counts)
        if self.nodes_:
            each = [node.leading_means(X, y, counts) for node in self.nodes_]
            return lambda inputs: np.asarray(self.node_weights_ @ [one(inputs) for one in each])
        process, chol = self._process(len(y)), self._kernel_posterior.factors[0].chol
        return process.means(X, process.leading_weights(X, y, chol, counts))

    @property
    def _learns_linear(self) -> bool:
        """Whether there are linear weights to learn."""
        return learns_or_not(self.linear) and bool(self.linear)

    @property
    def _kernel_posterior(self) -> KernelPosterior:
        """The posterior of one set of hyper-parameters."""
        return cast(KernelPosterior, self.posterior_)

    def _set_hyperparameters(
        self, theta: Array, evidence: GaussianProcessEvidence, units: Units
    ) -> None:
        """Take exp(theta), of standardized data, in the units of the data."""
        d, scales = len(units.inputs), np.exp(theta)
        self.lengthscales_ = scales[:d] * units.inputs
        self.amplitude_ = float(scales[d]) * units.output
        self.noise_std_ = float(scales[-1]) * units.output
        linear_std = evidence.linear_std(scales[d + 1 : -1])[:-1]
        self.linear_scale_ = linear_std * units.output / units.inputs

    def _set_posterior(
        self, X: Array, y: Array, S: Array | None = None, held: Posterior | None = None
    ) -> None:
        """Make the posterior of rows from what was learned: in `fit`, `condition` and from files.

        `S` is the noise of these inputs if it is not that of the fit; `held` a posterior of the
        same hyper-parameters, whose rows these may continue.
        """
        process = self._process(len(y))
        if self._noisy:
            self.posterior_ = self._noisy_posterior(process, X, y, S)
        elif self.nodes_:
            self.nodes_ = tuple(map(copy.copy, self.nodes_))
            each = (
                held.posteriors if isinstance(held, PosteriorMixture) else [None] * len(self.nodes_)
            )
            for node, own in zip(self.nodes_, each, strict=True):
                node._set_posterior(X, y, held=own)
            posteriors = tuple(node.posterior_ for node in self.nodes_)
            self.posterior_ = PosteriorMixture(posteriors, self.node_weights_)
        else:
            held = held if isinstance(held, KernelPosterior) else None
            chol = None if held is None else process.moved_factor(held, X)
            self.posterior_ = process.posterior(X, y, chol=chol)

    def _noisy_posterior(
        self, process: GaussianProcess, X: Array, y: Array, given: Array | None
    ) -> KernelPosterior:
        """Of rows with noisy inputs: by the kernel's expectation, or linearized on the curve."""
        S = self.input_cov_ if given is None else given
        if self._curve is None:
            return process.posterior(X, y, blur=np.diagonal(S))
        if S.ndim == 3 and len(S) != len(X):
            raise refusal(
                "input_cov",
                f"be given for these {len(X)} rows, of shape ({len(X)}, d, d)",
                f"none, and each of the {len(S)} rows of the fit had its own",
                "Pass condition(X, y, input_cov=...).",
            )
        at = X
        if self.noisy_inputs != "nigp":
            at = smoothed_inputs(self._curve, X, y, S, self.noise_std_**2)
        return linearized(process, X, y, at, self._curve.gradient(at), S)

    def _search_space(
        self, evidence: GaussianProcessEvidence, input_scale: Array, output_scale: float
    ) -> SearchSpace:
        """Priors and bounds of the log hyper-parameters, and which of them are free."""
        given = self.prior, self.lengthscales, self.noise_std
        return search_space(evidence, *given, input_scale, output_scale).starting_at(self._start)

    def _process(self, n: int) -> GaussianProcess:
        """The process of these hyper-parameters, for n rows."""
        return GaussianProcess(
            self.lengthscales_,
            self.amplitude_,
            np.append(self.linear_scale_, self._bias_scale),
            self.noise_std_,
            self._input_offset,
            self._output_offset,
            widening(self.prior, self.noise_std, n),
            self._mean_weights,
        )


def learns_or_not(linear: Any) -> bool:
    """Whether `linear` is True or False, and not the weights of a linear prior mean."""
    return isinstance(linear, (bool, np.bool_))


def _are_groups(groups: Any, d: int) -> bool:
    """Whether each of d inputs has the number of a group."""
    numbers = np.asarray(groups)
    if numbers.shape != (d,) or not np.issubdtype(numbers.dtype, np.integer):
        return False
    return bool(numbers.min() >= -1 and numbers.max() <= d + 1)


def _are_weights(linear: Any, d: int) -> bool:
    """Whether d finite weights of a linear prior mean were given."""
    weights = np.asarray(linear)
    numbers = weights.shape == (d,) and np.issubdtype(weights.dtype, np.number)
    return numbers and bool(np.isfinite(weights).all())


_CHOICES: dict[str, tuple[tuple[str | None, ...], str]] = {
    "prior": (("weak", "shrunk", None), "Use None to switch it off."),
    "bias": (("free", "shrunk", None), "Use None for none."),
    "noisy_inputs": (
        ("nigp", "annealed", "stochastic_em", None),
        "Use None for inputs without noise, or with noise that is known.",
    ),
    "hyperparameters": (("mode", "integrated"), "'mode' takes the most probable ones."),
}


def check_process(given: Mapping[str, Any], d: int) -> None:
    """Raise unless what a process with d inputs is given is one of its choices, by name."""
    for name, (allowed, remedy) in _CHOICES.items():
        if name in given and given[name] not in allowed:
            *first, last = map(repr, allowed)
            raise refusal(name, f"be {', '.join(first)} or {last}", f"{given[name]!r}", remedy)
    linear, tol = given["linear"], given["tol"]
    if not learns_or_not(linear) and not _are_weights(linear, d):
        must = f"be True, False or {d} finite weights of a linear prior mean"
        raise refusal("linear", must, f"{linear!r}", "True learns them.")
    if not isinstance(tol, (int, float, np.number)) or not 0.0 < tol < 1.0:
        raise refusal("tol", "lie strictly between 0 and 1 nat", f"{tol!r}", "Leave it out.")
    check_lengthscales(given["lengthscales"], d, "learn them")
    check_noise_std(given["noise_std"])


def _check_parameters(given: Mapping[str, Any], d: int) -> None:
    """Raise unless what a `GPRegressor` alone is given goes together, and with d inputs."""
    groups, weights = given["groups"], not learns_or_not(given["linear"])
    noisy = given["noisy_inputs"] is not None
    if groups is not None and not _are_groups(groups, d):
        must = f"number the group of each of the {d} inputs, from 0, or -1 for no linear weight"
        raise refusal("groups", must, f"{groups!r}", "Use None for one group.")
    if weights and noisy:
        remedy = "Their slopes would be noise of the output: take the linear part off y beforehand."
        raise refusal("linear", "be True or False with noisy_inputs", "weights", remedy)
    if given["hyperparameters"] == "integrated":
        if given["prior"] is None:
            must = "be 'weak' or 'shrunk' for hyperparameters='integrated'"
            remedy = "Without one their posterior may have no mean: use 'weak'."
            raise refusal("prior", must, "None", remedy)
        if noisy:
            must = "be None with hyperparameters='integrated'"
            got = f"{given['noisy_inputs']!r}"
            raise refusal("noisy_inputs", must, got, "Use 'mode' for inputs with noise.")
        if weights:
            must = "be True or False with hyperparameters='integrated'"
            raise refusal("linear", must, "weights", "Use 'mode' for a linear prior mean.")
    check_whole("n_restarts", given["n_restarts"], 0, "0 is one search from the standard start.")
