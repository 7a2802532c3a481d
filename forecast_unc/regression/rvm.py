"""Relevance vector machine: a sparse kernel regressor that returns a KernelPosterior."""

from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from forecast_unc._checks import RandomState, check_choice, check_whole, generator
from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array
from forecast_unc.regression.augmented import AugmentedPosterior, KernelAtInput
from forecast_unc.regression.estimator import (
    KernelRegressor,
    Lengthscales,
    check_lengthscales,
    check_noise_std,
    check_rows_in_memory,
    column_scale,
    standard_lengthscales,
)
from forecast_unc.regression.kernel_posterior import Factor, KernelPosterior
from forecast_unc.regression.search import LOG_STD, NOISE_BOUNDS, PRIORS
from forecast_unc.regression.sparse_bayes import batch
from forecast_unc.regression.sparse_bayes.lengthscales import Bases, adapt, design
from forecast_unc.regression.sparse_bayes.model import (
    Evidence,
    NoisePrior,
    SparseModel,
    left_out_log_density,
    weight_posterior,
)
from forecast_unc.regression.sparse_bayes.sequential import SequentialTrainer

# In standard deviations of y: prior and floor are those of GPRegressor.
_NOISE_PRIOR = NoisePrior(*PRIORS["weak"][-1], *NOISE_BOUNDS)
_CHOICES = {
    "algorithm": ("sequential", "em", "mackay", "gradient", "subspace_em"),
    "prior": ("individual", "shared"),
    "variance": ("standard", "augmented"),
}
# Choices: rounds of length-scale adaptation at most, and nats that one has to gain.
_MOST_ROUNDS, _LEAST_GAIN = 50, 0.05


class RVMRegressor(KernelRegressor):
    r"""Relevance vector machine: Gaussian bases at training inputs, sparse by the evidence.

    .. math::
        y = \sum_i w_i \exp\bigl[-\tfrac12\textstyle\sum_j (x_j - x_{ij})^2 / l_j^2\bigr]
        + w_0 + \varepsilon, \quad w_i \sim \mathcal N(0, 1/\alpha_i), \quad
        \varepsilon \sim \mathcal N(0, s^2) .

    One precision a basis; where the evidence is highest at an infinite one, the basis is gone. What
    remains are the relevance vectors. Inputs and targets are centered by their means and scaled by
    their standard deviations inside, so that a change of units changes nothing.

    A plain RVM is *more* certain far from its data, where all bases vanish and only the bias and
    the noise are left. ``variance="augmented"`` mends that.

    Parameters
    ----------
    lengthscales : float or array-like of shape (d,), optional
        Length-scales of the bases, in units of the inputs. By default half the median distance
        between the rows of the standardized inputs, times the standard deviation of each input:
        wide enough for sums of bases to be smooth, in one input as in many.
    algorithm : {"sequential", "em", "mackay", "gradient", "subspace_em"}, default="sequential"
        How the precisions are found. "sequential" adds, exchanges and deletes bases, and is the
        fastest by far; "em", "mackay" and "gradient" (L-BFGS) start from all bases at O(n^3) an
        iteration; "subspace_em" never has more than `budget` in the model. The optima are local, so
        each may end elsewhere.
    prior : {"individual", "shared"}, default="individual"
        "shared" is one precision for all weights (the Bayesian extended linear model, whose mean is
        ridge regression): nothing is sparse, and `algorithm` has no part in it, as the evidence has
        only two parameters left, which are maximized directly.
    adapt_lengthscales : bool, default=False
        Learn one length-scale an input by the gradient of the evidence, in turns with the choice of
        the bases, from `lengthscales` and from halves of them as long as those lead higher. A
        log-normal prior (log-std 1.5) keeps the length-scale of an input that hardly matters
        from infinity. The evidence of few rows with many inputs is highest where each has a
        narrow basis of its own, which tells nothing of a new input; so nothing is accepted
        that predicts the training rows worse than `lengthscales` does, each row left out
        together with the basis at it.
    variance : {"standard", "augmented"}, default="standard"
        "augmented" (RVM*) adds a basis at each test input, with the prior variance var(y) - s^2, so
        that the uncertainty grows away from the data. There is then no closed form for uncertain
        inputs, and a prediction costs O(n).
    bias : bool, default=True
        Include a constant, with its own precision.
    linear : bool, default=False
        Include the inputs themselves, each with its own precision: far from the data the
        forecast then follows a linear autoregression.
    noise_std : float, optional
        Noise standard deviation in units of y, kept fixed. By default learned, with a weak
        log-normal prior (median 0.1 std of y, log-std 1.5) and a floor of 1e-4 std of y: the
        evidence has degenerate optima without noise.
    budget : int, default=100
        Largest number of bases in the model with "subspace_em"; an iteration costs O(budget^3).
    n_restarts : int, default=0
        Further random starts. The one of highest evidence is kept. With `adapt_lengthscales` a
        start has random length-scales, too, within a factor of about two of the first.
    max_iter : int, default=2000
        Most iterations a start. "em" needs hundreds.
    random_state : int, numpy.random.Generator or None
        Seed of the search and of "monte_carlo" predictions. None takes the same seed every time
        for the search, so that a fit can be repeated.

    Attributes
    ----------
    posterior_ : KernelPosterior or AugmentedPosterior
        The posterior, from which all predictions are made.
    relevance_ : ndarray of shape (m,)
        Rows of the training inputs that are kept as centers.
    n_relevance_ : int
        Their number.
    alpha_ : ndarray of shape (r,)
        Precisions of the weights kept, for standardized inputs and targets.
    active_ : ndarray of shape (r,)
        The bases they belong to: rows first, then inputs if `linear`, then the bias.
    lengthscales_ : ndarray of shape (d,)
        In units of the inputs.
    noise_std_ : float
        In units of y.
    log_evidence_ : float
        log N(y | mean(y), C) in nats, from its definition; without the priors on noise and
        length-scales.
    converged_ : bool
        Whether the kept search ended before `max_iter`.
    n_iter_ : int
        Iterations of the kept search; joint re-estimations for "sequential".
    n_features_in_ : int
        Number d of inputs.

    References
    ----------
    Tipping, JMLR 1 (2001); Tipping & Faul, AISTATS 2003; Quinonero-Candela & Hansen, ICASSP 2002;
    Quinonero-Candela & Winther, NIPS 15 (2003); Rasmussen & Quinonero-Candela, ICML 2005.

    Examples
    --------
    >>> X = np.linspace(-10, 10, 100)[:, None]
    >>> y = np.sinc(X[:, 0] / np.pi) + 0.1 * np.random.default_rng(0).standard_normal(100)
    >>> rvm = RVMRegressor().fit(X, y)
    >>> rvm.n_relevance_ < 12
    True
    >>> mean, std = rvm.predict([[0.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(0.5) / 0.5) < 2 * std[0])
    True
    """

    # A fit of 3000 rows took 0.4 s by "sequential" and 110 MB, on one thread; the other algorithms
    # cost O(n^3) an iteration.
    most_rows: ClassVar[int | None] = 3000

    posterior_: KernelPosterior | AugmentedPosterior
    relevance_: NDArray[np.intp]
    n_relevance_: int
    alpha_: Array
    active_: NDArray[np.intp]
    lengthscales_: Array
    noise_std_: float
    log_evidence_: float
    converged_: bool
    n_iter_: int
    n_features_in_: int

    # The bases, and where inputs and targets are measured from, in which units.
    _input_offset: Array
    _output_offset: float
    _input_scale: Array
    _output_scale: float
    _centers: Array
    _columns: NDArray[np.intp]

    def __init__(
        self,
        *,
        lengthscales: Lengthscales = None,
        algorithm: Literal["sequential", "em", "mackay", "gradient", "subspace_em"] = "sequential",
        prior: Literal["individual", "shared"] = "individual",
        adapt_lengthscales: bool = False,
        variance: Literal["standard", "augmented"] = "standard",
        bias: bool = True,
        linear: bool = False,
        noise_std: float | None = None,
        budget: int = 100,
        n_restarts: int = 0,
        max_iter: int = 2000,
        random_state: RandomState = None,
    ) -> None:
        self.lengthscales = lengthscales
        self.algorithm = algorithm
        self.prior = prior
        self.adapt_lengthscales = adapt_lengthscales
        self.variance = variance
        self.bias = bias
        self.linear = linear
        self.noise_std = noise_std
        self.budget = budget
        self.n_restarts = n_restarts
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Choose the bases by the evidence and compute the posterior of their weights.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        y : array-like of shape (n,)
            Targets.

        Returns
        -------
        RVMRegressor

        Raises
        ------
        ValueError
            If a parameter is not one of its choices, or a fixed hyper-parameter is not positive
            or has the wrong shape.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        X, y = np.asarray(X), np.asarray(y, dtype=np.float64)
        for name, allowed in _CHOICES.items():
            check_choice(name, getattr(self, name), allowed)
        check_lengthscales(self.lengthscales, X.shape[1], "take them from the data")
        check_noise_std(self.noise_std)
        for name, least in (("budget", 2), ("n_restarts", 0), ("max_iter", 1)):
            check_whole(name, getattr(self, name), least, "Leave it out for the default.")
        # arrays (n, n) of "sequential": the design and its norms, 1.4 to 2.0 measured
        check_rows_in_memory(len(X), 2)
        self._input_offset, self._output_offset = X.mean(axis=0), float(y.mean())
        self._input_scale = column_scale(X)
        self._output_scale = float(column_scale(y[:, None])[0])
        Z = (X - self._input_offset) / self._input_scale
        t = (y - self._output_offset) / self._output_scale
        noise = _NOISE_PRIOR
        if self.noise_std is not None:
            fixed = self.noise_std / self._output_scale
            noise = noise._replace(floor=fixed, ceiling=fixed)
        center = standard_lengthscales(self.lengthscales, Z, self._input_scale)
        rng = generator(0 if self.random_state is None else self.random_state)
        with blas_threads(len(y)):
            model, lengthscales = _Training(self, Z, t, center, noise, rng).best()
            bases = Bases.of(Z, model.active, self.linear, self.bias)
            self._centers, self._columns = bases.centers, bases.columns
            self.alpha_, self.active_ = model.alpha, model.active
            self.relevance_ = model.active[model.active < len(y)]
            self.n_relevance_ = len(self.relevance_)
            self.lengthscales_ = lengthscales * self._input_scale
            self.noise_std_ = float(np.sqrt(model.noise_var)) * self._output_scale
            self.converged_, self.n_iter_ = model.converged, model.n_iter
            self.posterior_, self.log_evidence_ = self._posterior(X, y)
        return self

    def _set_posterior(self, X: Array, y: Array) -> None:
        """Make the posterior of rows at O(n m (m + d)) for m bases, as fast as an update of one."""
        self.posterior_, _ = self._posterior(X, y)

    def _posterior(self, X: Array, y: Array) -> tuple[KernelPosterior | AugmentedPosterior, float]:
        """Posterior and log evidence of rows."""
        (n, d), scale, m = X.shape, self._output_scale, len(self._centers)
        t = (y - self._output_offset) / scale
        bases = Bases(self._centers, self._columns, self.linear, self.bias)
        Z = (X - self._input_offset) / self._input_scale
        Phi = bases.at(Z, self.lengthscales_ / self._input_scale)
        noise_var = (self.noise_std_ / scale) ** 2
        weights = weight_posterior(Phi, t, self.alpha_, noise_var)
        # the columns beyond the kernels, in terms of [x; 1]
        units = np.append(1.0 / self._input_scale, 1.0)
        linear = np.zeros((len(self._columns), d + 1), order="F")
        at = self._columns[m:] - m + (0 if self.linear else d)
        linear[np.arange(m, len(self._columns)), at] = units[at]
        factor = Factor(1, np.asfortranarray(weights.chol / scale), 1.0, linear)
        plain = KernelPosterior(
            centers=self._centers * self._input_scale,
            lengthscales=self.lengthscales_,
            weights=np.concatenate([weights.mean[:m], weights.mean @ linear]) * scale,
            factors=(factor,) if len(self._columns) else (),
            linear_var=np.zeros(d + 1),
            kernel_var=0.0,
            noise_var=self.noise_std_**2,
            input_offset=self._input_offset,
            output_offset=self._output_offset,
        )
        log_evidence = weights.log_evidence - float(n * np.log(scale))
        if self.variance == "standard":
            return plain, log_evidence
        signal_var = max(float(t @ t) / n - noise_var, noise_var) * scale**2
        added = KernelAtInput.of(plain, X, y, signal_var)
        return AugmentedPosterior(plain=plain, added=added), log_evidence


class _Fit(NamedTuple):
    """A model on one design, and what it is worth."""

    model: SparseModel
    lengthscales: Array  # (d,), of the standardized inputs
    objective: float  # log evidence plus the log priors
    left_out: float  # log density of the rows, each without itself and the basis at it


class _Training(NamedTuple):
    """Starts, and turns of bases and length-scales, on standardized rows."""

    rvm: RVMRegressor
    Z: Array  # (n, d)
    t: Array  # (n,)
    center: Array  # (d,), length-scales that the search starts from, and medians of their prior
    noise: NoisePrior
    rng: np.random.Generator

    def best(self) -> tuple[SparseModel, Array]:
        """Model and length-scales of the highest evidence over the starts."""
        rvm, center = self.rvm, self.center
        Phi = self._design(center)
        # kicks are for the end: length-scales that are still moving undo what they find
        n_kicks = 0 if rvm.adapt_lengthscales else None
        fits = []
        for restart in range(rvm.n_restarts + 1):
            model = self.optimize(Phi, restart, None, n_kicks)
            fits.append(self._measured(center, Phi, model))
        best = max(fits, key=lambda fit: fit.objective)
        if not rvm.adapt_lengthscales:
            return best.model, center
        least, factor = best.left_out, 1.0
        # with the bases as they are the gradient does not see what narrower ones would bring
        while True:
            found = self._adapted(best, least, factor * center, None, 0)
            if found.objective < best.objective + _LEAST_GAIN:
                break
            best, factor = found, 0.5 * factor
        # where they start decides where they end; within a factor of about two, a choice
        for _ in range(rvm.n_restarts):
            start = center * np.exp(0.7 * self.rng.standard_normal())
            best = self._adapted(best, least, start, None, 0)
        best = self._adapted(best, least, best.lengthscales, best.model, None)
        return best.model, best.lengthscales

    def _design(self, lengthscales: Array) -> Array:
        return design(self.Z, self.Z, lengthscales, self.rvm.linear, self.rvm.bias)

    def _adapted(
        self,
        best: _Fit,
        least: float,
        lengthscales: Array,
        model: SparseModel | None,
        n_kicks: int | None,
    ) -> _Fit:
        """The best so far and on the way of bases and length-scales in turns, rows left out too."""
        value, n = -np.inf, len(self.t)
        for _ in range(_MOST_ROUNDS):
            Phi = self._design(lengthscales)
            model = self.optimize(Phi, 0, model, n_kicks)
            fit = self._measured(lengthscales, Phi, model)
            if fit.left_out >= least and fit.objective > best.objective:
                best = fit
            # a nat a row: that way lies one basis a row
            lost = fit.left_out < least - n or not (model.active < n).any()
            if lost or fit.objective < value + _LEAST_GAIN:
                break
            value, n_kicks = fit.objective, 0
            bases = Bases.of(self.Z, model.active, self.rvm.linear, self.rvm.bias)
            model, lengthscales = adapt(
                self.Z, self.t, model, bases, lengthscales, self.center, self.noise
            )
        return best

    def _measured(self, lengthscales: Array, Phi: Array, model: SparseModel) -> _Fit:
        """What starts and rounds are compared by."""
        columns = Phi[:, model.active]
        posterior = weight_posterior(columns, self.t, model.alpha, model.noise_var)
        z = np.log(lengthscales / self.center) / LOG_STD
        log_prior = self.noise.terms(float(np.log(model.noise_var)))[0] - 0.5 * float(z @ z)
        left_out = 0.0
        if self.rvm.adapt_lengthscales:
            left_out = left_out_log_density(columns, self.t, model)
        return _Fit(model, lengthscales, posterior.log_evidence + log_prior, left_out)

    def optimize(
        self, Phi: Array, restart: int, model: SparseModel | None, n_kicks: int | None
    ) -> SparseModel:
        """One start of the chosen algorithm on one design."""
        rvm, data = self.rvm, (Phi, self.t, self.noise)
        if rvm.prior == "shared":
            return batch.shared(*data)
        start = batch.random_start(Phi, self.t, 2.0 * (restart > 0), self.rng)
        match rvm.algorithm:
            case "sequential":
                if model is None and restart:
                    some = np.sort(self.rng.permutation(Phi.shape[1])[:50])
                    model = SparseModel(some, start[0][some], float(np.exp(start[1])), False, 0)
                return SequentialTrainer(*data, self.rng, n_kicks, rvm.max_iter).fit(model)
            case "gradient":
                return batch.direct(*data, start, rvm.max_iter)
            case "subspace_em":
                order = self.rng.permutation(Phi.shape[1])
                return batch.subspace_em(*data, start, rvm.budget, order, rvm.max_iter)
        step = batch.em_step if rvm.algorithm == "em" else batch.mackay_step
        evidence = Evidence.of(Phi, self.t)
        return batch.fixed_point(evidence, self.noise, start, step, rvm.max_iter)
