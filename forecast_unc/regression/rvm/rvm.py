"""Relevance vector machine: a sparse kernel regressor that returns a KernelPosterior."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from forecast_unc._checks import RandomState, check_choice, check_truth, check_whole, generator
from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array, Positions
from forecast_unc.regression import estimator
from forecast_unc.regression.augmented import AugmentedPosterior, KernelAtInput
from forecast_unc.regression.estimator import KernelRegressor, Lengthscales
from forecast_unc.regression.kernel_posterior import Factor, KernelPosterior
from forecast_unc.regression.rvm import batch
from forecast_unc.regression.rvm.sequential import SequentialTrainer
from forecast_unc.regression.rvm.sparse_evidence import (
    ROWS_AN_INPUT,
    Bases,
    Evidence,
    NoisePrior,
    SparseModel,
    chosen_prior,
    design,
    left_out_log_density,
    weight_posterior,
)
from forecast_unc.regression.search import LOG_STD, NOISE_BOUNDS, PRIORS

# In standard deviations of y: prior and floor are those of GPRegressor.
_NOISE_PRIOR = NoisePrior(*PRIORS["weak"][-1], *NOISE_BOUNDS)
_CHOICES = {
    "algorithm": ("sequential", "em", "mackay", "gradient", "subspace_em"),
    "prior": ("auto", "individual", "smooth", "shared"),
    "variance": ("standard", "augmented"),
}
_TRUTHS = {
    "adapt_lengthscales": "True learns length-scales.",
    "bias": "False leaves the constant out.",
    "linear": "True adds the inputs to the bases.",
}
# With the smooth prior, which makes their evidence comparable, in multiples of the typical ones.
_MULTIPLES = (1.0, 2.0, 4.0)
# Nats that a round of length-scale adaptation has to gain, a choice.
_LEAST_GAIN = 0.05


@dataclass(kw_only=True, eq=False, repr=False)
class RVMRegressor(KernelRegressor):
    r"""Relevance vector machine: Gaussian bases at training inputs, sparse by the evidence.

    .. math::
        y = \sum_i w_i \exp\bigl[-\tfrac12\textstyle\sum_j (x_j - x_{ij})^2 / l_j^2\bigr]
        + w_0 + \varepsilon, \quad w_i \sim \mathcal N(0, 1/\alpha_i), \quad
        \varepsilon \sim \mathcal N(0, s^2) .

    One precision a basis, by type-II maximum likelihood; where the evidence is highest at an
    infinite one, the basis is gone. What remains are the relevance vectors. Inputs and targets are
    standardized inside. Far from the data, where all bases but the bias vanish, the variance is
    that of noise and bias: a plain RVM is overconfident there, and ``variance="augmented"`` mends
    that.

    Parameters
    ----------
    lengthscales : float or array-like of shape (d,), optional
        Length-scales of the bases, in units of the inputs. By default half the median distance
        between the rows of the standardized inputs, times the std of each input; with the smooth
        prior that, or 2 or 4 times that, by the evidence and the priors.
    algorithm : {"sequential", "em", "mackay", "gradient", "subspace_em"}, default="sequential"
        "sequential" adds, exchanges and deletes bases, and is the fastest by far; "em", "mackay"
        and "gradient" (L-BFGS) start from all at O(n^3) an iteration; "subspace_em" never has more
        than `budget` in the model. All end where no basis in, out or exchanged for another raises
        the evidence. The optima are local, so each may end elsewhere.
    prior : {"auto", "individual", "smooth", "shared"}, default="auto"
        Of the precisions. "individual", flat in log alpha, is that of Tipping (2001): with many
        inputs it takes noise for a function, and bands are far too narrow. "smooth" (Schmolck &
        Everson 2007) charges log(n) / 2 nats for each degree of freedom, as Schwarz's criterion
        does. "auto" is "smooth" with two inputs or more and fewer than 60 rows an input, else
        "individual". "shared" is one precision for all weights (the Bayesian extended linear model,
        whose mean is ridge regression): nothing is sparse, and `algorithm` has no part in it.
    adapt_lengthscales : bool, default=False
        Learn one length-scale an input by the gradient of the evidence, in turns with the bases,
        from `lengthscales` and again from half as large ones, while that raises the evidence, with
        a log-normal prior (log-std 1.5). Nothing is accepted that predicts the training rows worse
        than `lengthscales` does, each row left out together with the basis at it: with many inputs
        the evidence of few rows is highest where each has a narrow basis of its own.
    variance : {"standard", "augmented"}, default="standard"
        "augmented" (RVM*) adds a basis at each test input, with the prior variance
        max(var(y) - s^2, s^2), so that the uncertainty grows away from the data. There is then no
        closed form for uncertain inputs, and a prediction costs O(n).
    bias : bool, default=True
        Include a constant, with its own precision.
    linear : bool, default=False
        Include the inputs themselves, each with its own precision: far from the data the forecast
        then follows a linear autoregression.
    noise_std : float, optional
        Noise std in units of y, kept fixed; at least 1e-5 std of y, which is what the digits carry.
        By default learned, with a weak log-normal prior (median 0.1 std of y, log-std 1.5) and a
        floor of 1e-4 std of y; of y that are all the same, 1e-4 of their size.
    budget : int, default=100
        Largest number of bases in the model with "subspace_em"; an iteration costs O(budget^3).
    n_restarts : int, default=0
        Further random starts (with `adapt_lengthscales` of the length-scales, too, within a factor
        of about two). The one of highest evidence is kept.
    max_iter : int, default=2000
        Most iterations a start, but for those that end one. "em" needs hundreds.
    random_state : int, numpy.random.Generator or None
        Seed of the search and of "monte_carlo" predictions. None takes the same seed every time
        for the search, so that a fit can be repeated.

    Attributes
    ----------
    posterior_ : KernelPosterior or AugmentedPosterior
        The posterior that all predictions are made from.
    prior_ : str
        The prior that was taken.
    relevance_, n_relevance_ : ndarray of shape (m,), int
        Rows of the training inputs that are kept as centers, and their number.
    alpha_, active_ : ndarray of shape (r,)
        Precisions of the weights kept, for standardized inputs and targets, and the bases they
        belong to: rows first, then inputs if `linear`, then the bias.
    lengthscales_, noise_std_ : ndarray of shape (d,), float
        In units of the inputs, and of y.
    log_evidence_ : float
        log N(y | mean(y), C) in nats; without the priors on noise, precisions and length-scales.
    converged_, n_iter_ : bool, int
        Whether the kept search ended before `max_iter`, and its iterations (joint re-estimations
        for "sequential").

    References
    ----------
    Tipping, JMLR 1 (2001); Tipping & Faul, AISTATS 2003; Quinonero-Candela & Hansen, ICASSP 2002;
    Quinonero-Candela & Winther, NIPS 15 (2003); Rasmussen & Quinonero-Candela, ICML 2005; Schmolck
    & Everson, Machine Learning 68 (2007), 107-135.

    Examples
    --------
    >>> X = np.linspace(-10, 10, 100)[:, None]
    >>> y = np.sinc(X[:, 0] / np.pi) + 0.1 * np.random.default_rng(0).standard_normal(100)
    >>> rvm = RVMRegressor().fit(X, y)
    >>> rvm.n_relevance_ < 12
    True
    """

    # A fit of 3000 rows took 0.4 s by "sequential" and 110 MB, on one thread; the other algorithms
    # cost O(n^3) an iteration.
    most_rows: ClassVar[int | None] = 3000

    lengthscales: Lengthscales = None
    algorithm: Literal["sequential", "em", "mackay", "gradient", "subspace_em"] = "sequential"
    prior: Literal["auto", "individual", "smooth", "shared"] = "auto"
    adapt_lengthscales: bool = False
    variance: Literal["standard", "augmented"] = "standard"
    bias: bool = True
    linear: bool = False
    noise_std: float | None = None
    budget: int = 100
    n_restarts: int = 0
    max_iter: int = 2000
    random_state: RandomState = None

    posterior_: KernelPosterior | AugmentedPosterior = field(init=False)
    prior_: str = field(init=False)
    relevance_: Positions = field(init=False)
    n_relevance_: int = field(init=False)
    alpha_: Array = field(init=False)
    active_: Positions = field(init=False)
    lengthscales_: Array = field(init=False)
    noise_std_: float = field(init=False)
    log_evidence_: float = field(init=False)
    converged_: bool = field(init=False)
    n_iter_: int = field(init=False)

    # The bases, and where inputs and targets are measured from, in which units.
    _input_offset: Array = field(init=False)
    _output_offset: float = field(init=False)
    _input_scale: Array = field(init=False)
    _output_scale: float = field(init=False)
    _centers: Array = field(init=False)
    _columns: Positions = field(init=False)

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn bases and the posterior of their weights from inputs X (n, d) and targets y (n,).

        Raises
        ------
        ValueError
            If a parameter is not one of its choices, not positive or has the wrong shape.
        """
        X, y = self._checked_rows(X, y)
        for name, allowed in _CHOICES.items():
            check_choice(name, getattr(self, name), allowed)
        for name, remedy in _TRUTHS.items():
            check_truth(name, getattr(self, name), remedy)
        estimator.check_lengthscales(self.lengthscales, X, "take them from the data")
        # below, roundoff decides: at 1e-6 means with the shared prior were off by three stds
        estimator.check_noise_std(self.noise_std, y, least=1e-5)
        for name, least in (("budget", 2), ("n_restarts", 0), ("max_iter", 1)):
            check_whole(name, getattr(self, name), least, "Leave it out for the default.")
        # arrays (n, n) of "sequential": the design and its norms, 1.4 to 2.0 measured
        estimator.check_rows_in_memory(len(X), 2)
        self._input_offset, self._output_offset = X.mean(axis=0), float(y.mean())
        self._input_scale = estimator.column_scale(X)
        self._output_scale = estimator.target_scale(y)
        Z = (X - self._input_offset) / self._input_scale
        t = (y - self._output_offset) / self._output_scale
        self.prior_ = chosen_prior(self.prior, len(X), X.shape[1], ROWS_AN_INPUT)
        noise = _NOISE_PRIOR
        if self.prior_ == "smooth":
            noise = noise._replace(charge=0.5 * float(np.log(len(y))))
        if self.noise_std is not None:
            fixed = self.noise_std / self._output_scale
            noise = noise._replace(floor=fixed, ceiling=fixed)
        center = estimator.standard_lengthscales(self.lengthscales, Z, self._input_scale)
        rng = generator(0 if self.random_state is None else self.random_state)
        with blas_threads(len(y)):
            model, lengthscales, log_evidence, *_ = _Training(self, Z, t, center, noise, rng).best()
            bases = Bases.of(Z, model.active, self.linear, self.bias)
            self._centers, self._columns = bases.centers, bases.columns
            self.alpha_, self.active_ = model.alpha, model.active
            self.relevance_ = model.active[model.active < len(y)]
            self.n_relevance_ = len(self.relevance_)
            self.lengthscales_ = lengthscales * self._input_scale
            self.noise_std_ = float(np.sqrt(model.noise_var)) * self._output_scale
            self.log_evidence_ = log_evidence - float(len(y) * np.log(self._output_scale))
            self.converged_, self.n_iter_ = model.converged, model.n_iter
            self._set_posterior(X, y)
        return self

    def _set_posterior(self, X: Array, y: Array) -> None:
        """Make the posterior of rows at O(n m (m + d)) for m bases, as fast as an update of one."""
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
        self.posterior_ = plain = KernelPosterior(
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
        if self.variance == "augmented":
            signal_var = max(float(t @ t) / n - noise_var, noise_var) * scale**2
            self.posterior_ = KernelAtInput.of(plain, X, y, signal_var)


class _Fit(NamedTuple):
    """A model on one design, and what it is worth."""

    model: SparseModel
    lengthscales: Array  # (d,), of the standardized inputs
    log_evidence: float
    objective: float  # with the log priors
    left_out: float  # log density of the rows, each without itself and the basis at it


class _Training(NamedTuple):
    """Starts, and turns of bases and length-scales, on standardized rows."""

    rvm: RVMRegressor
    Z: Array  # (n, d)
    t: Array  # (n,)
    center: Array  # (d,), length-scales that the search starts from, and medians of their prior
    noise: NoisePrior
    rng: np.random.Generator

    def best(self) -> _Fit:
        """The fit of the highest evidence over the starts."""
        rvm, center = self.rvm, self.center
        multiples = _MULTIPLES if rvm.lengthscales is None and rvm.prior_ == "smooth" else (1.0,)
        # no kicks before the end: length-scales that are still moving undo what they find
        n_kicks = 0 if rvm.adapt_lengthscales or len(multiples) > 1 else None
        fits = [
            self._fit(multiple * center, restart, None, n_kicks)
            for restart in range(int(rvm.n_restarts) + 1)
            for multiple in multiples
        ]
        best = max(fits, key=lambda fit: fit.objective)
        if not rvm.adapt_lengthscales:
            if n_kicks == 0 and rvm.algorithm == "sequential":
                best = self._fit(best.lengthscales, 0, best.model, None)
            return best
        center, least, factor = best.lengthscales, best.left_out, 1.0
        # with the bases as they are the gradient does not see what narrower ones would bring
        while True:
            found = self._adapted(best, least, factor * center)
            if found.objective < best.objective + _LEAST_GAIN:
                break
            best, factor = found, 0.5 * factor
        if self.noise.charge:  # bases that together are worth it may not be so one by one
            uncharged = self._replace(noise=self.noise._replace(charge=0.0)).best()
            best = self._adapted(best, least, uncharged.lengthscales)
        # where they start decides where they end; within a factor of about two, a choice
        for _ in range(rvm.n_restarts):
            start = center * np.exp(0.7 * self.rng.standard_normal())
            best = self._adapted(best, least, start)
        return self._adapted(best, least, best.lengthscales, best.model)

    def _adapted(
        self, best: _Fit, least: float, lengthscales: Array, model: SparseModel | None = None
    ) -> _Fit:
        """The best so far and on the way of bases and length-scales in turns, rows left out too."""
        value, n, n_kicks = -np.inf, len(self.t), 0 if model is None else None
        for _ in range(50):  # a choice
            fit = self._fit(lengthscales, 0, model, n_kicks)
            if fit.left_out >= least and fit.objective > best.objective:
                best = fit
            # a nat a row: that way lies one basis a row
            lost = fit.left_out < least - n or not (fit.model.active < n).any()
            if lost or fit.objective < value + _LEAST_GAIN:
                break
            value, n_kicks = fit.objective, 0
            bases = Bases.of(self.Z, fit.model.active, self.rvm.linear, self.rvm.bias)
            prior = batch.Prior(self.center, self.noise)
            model, lengthscales = batch.adapt(self.Z, self.t, fit.model, bases, lengthscales, prior)
        return best

    def _fit(
        self, lengthscales: Array, restart: int, model: SparseModel | None, n_kicks: int | None
    ) -> _Fit:
        """One start on one design, with what starts and rounds are compared by."""
        Phi = design(self.Z, self.Z, lengthscales, self.rvm.linear, self.rvm.bias)
        model = self.optimize(Phi, restart, model, n_kicks)
        columns = Phi[:, model.active]
        posterior = weight_posterior(columns, self.t, model.alpha, model.noise_var)
        z, log_var = np.log(lengthscales / self.center) / LOG_STD, float(np.log(model.noise_var))
        squares = np.einsum("ij,ij->j", columns, columns)
        log_prior = self.noise.terms(log_var)[0] - 0.5 * float(z @ z)
        log_prior += self.noise.charges(model.alpha, log_var, squares)[0]
        objective, left_out = posterior.log_evidence + log_prior, 0.0
        if self.rvm.adapt_lengthscales:
            left_out = left_out_log_density(columns, self.t, model)
        return _Fit(model, lengthscales, posterior.log_evidence, objective, left_out)

    def optimize(
        self, Phi: Array, restart: int, model: SparseModel | None, n_kicks: int | None
    ) -> SparseModel:
        """The model of one start of the chosen algorithm on one design.

        "sequential" alone starts from `model`, and takes `n_kicks` (None: by its size); without a
        model a restart begins with 50 random columns. The others are finished by its search.
        """
        rvm, most, budget = self.rvm, int(self.rvm.max_iter), None
        if rvm.prior == "shared":
            return batch.shared(Phi, self.t, self.noise)
        alpha, log_noise_var = start = batch.random_start(
            Phi, self.t, 2.0 * (restart > 0), self.rng
        )
        if rvm.algorithm == "sequential":
            if model is None and restart:
                columns = np.sort(self.rng.permutation(Phi.shape[1])[:50])
                noise_var = float(np.exp(log_noise_var))
                model = SparseModel(columns, alpha[columns], noise_var, False, 0)
            trainer = SequentialTrainer(Phi, self.t, self.noise, self.rng, max_iter=most)
            return trainer.fit(model, n_kicks)
        if rvm.algorithm == "gradient":
            model = batch.direct(Phi, self.t, self.noise, start, most)
        elif rvm.algorithm == "subspace_em":
            order, budget = self.rng.permutation(Phi.shape[1]), int(rvm.budget)
            drawn = alpha[order], log_noise_var
            model = batch.subspace_em(Phi[:, order], self.t, self.noise, drawn, budget, most)
            model = model._replace(active=order[model.active]).sorted()
        else:
            step = batch.em_step if rvm.algorithm == "em" else batch.mackay_step
            model = batch.fixed_point(Evidence.of(Phi, self.t), self.noise, start, step, most)
        if not model.converged:
            return model
        trainer = SequentialTrainer(Phi, self.t, self.noise, self.rng, most, budget)
        finished = trainer.fit(model, n_kicks=0)
        return finished._replace(n_iter=model.n_iter + finished.n_iter)
