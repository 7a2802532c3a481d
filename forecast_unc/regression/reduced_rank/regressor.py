"""Reduced-rank Gaussian process regression: cost linear in the rows."""

import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from forecast_unc._checks import RandomState, check_choice, check_whole, generator
from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array
from forecast_unc.regression.augmented import AugmentedPosterior, CenterAtInput
from forecast_unc.regression.estimator import (
    KernelRegressor,
    LeadingMeans,
    Lengthscales,
)
from forecast_unc.regression.evidence import GaussianProcessEvidence
from forecast_unc.regression.gp import Units, check_process, learns_or_not
from forecast_unc.regression.kernel_posterior import KernelPosterior
from forecast_unc.regression.process import GaussianProcess
from forecast_unc.regression.reduced_rank.learn import Learner, SupportKind, some_rows
from forecast_unc.regression.reduced_rank.posterior import Support, Variance
from forecast_unc.regression.search import SearchEnd, SearchSpace, search_space, widening

_CHOICES = {
    "support": ("greedy", "random", "kmeans"),
    "objective": ("evidence", "bound"),
    "variance": ("corrected", "standard", "augmented"),
}


class ReducedRankGPRegressor(KernelRegressor):
    r"""Gaussian process through a support set of m centers, at a cost linear in the rows.

    .. math::
        y = k_u(x)' w + \textstyle\sum_j v_j x_j + v_0 + \varepsilon, \quad
        w \sim \mathcal N\bigl(0, a^2 K_{uu}^{-1}\bigr), \quad v_j \sim \mathcal N(0, \tau_j^2),
        \quad \varepsilon \sim \mathcal N(0, s^2),

    with the squared-exponential kernel, linear term and bias of `GPRegressor`, of which this is
    the projection on m centers. A fit takes O(n m^2) for each step of the search and memory for
    m x m numbers and a block of rows; a forecast O(m^2 d) a step, however many rows there were.

    Parameters
    ----------
    n_support : int, default=200
        Number m of centers, or that of the rows if there are fewer. More follow a finer function;
        cost grows with the square.
    support : {"greedy", "random", "kmeans"}, default="greedy"
        "greedy" takes rows one by one, each the one of some 59 that raises the objective most;
        "kmeans" the means of clusters of the rows; "random" any rows. The first two depend on
        the length-scales: choice and search take turns while that gains a nat, twice at
        most, on at most 10,000 rows; the last search is on all.
    objective : {"evidence", "bound"}, default="evidence"
        What centers and hyper-parameters maximize. "evidence" is the log marginal likelihood of the
        model whose variance is asked for: of the one above, or with "corrected" of the one where
        what the centers leave of a row's prior variance is noise of that row (FITC; centers are
        chosen by that of the model above). "bound" is that of the model above less
        tr(K - Q) / (2 s^2), a lower bound on the log evidence of the exact process (Titsias 2009):
        it takes for noise what the centers do not follow, but does not over-fit more than the exact
        process does.
    variance : {"corrected", "standard", "augmented"}, default="corrected"
        "corrected" adds the prior variance that the centers leave, so that the variance returns
        to the prior's away from them, and has closed forms throughout. "standard" is that of the
        model above: away from the centers the function has none. "augmented" (RRGP*) adds a
        center at each test input: there is no closed form for uncertain inputs then, and a
        prediction costs O(n m).
    linear : bool or array-like of shape (d,), default=True
        Include the linear term and a bias. With them the forecast far from the data follows
        a linear autoregression; without, it returns to the mean. Numbers are the weights of a
        linear prior mean, in units of y per unit of the inputs: they are kept.
    prior : {"weak", "shrunk", None}, default="weak"
        Of the hyper-parameters, as in `GPRegressor`; the variances of "augmented" are not those of
        Student's t with "shrunk".
    lengthscales : float or array-like of shape (d,), optional
        Length-scales in units of the inputs, kept fixed. By default they are learned.
    noise_std : float, optional
        Noise standard deviation in units of y, kept fixed. By default it is learned.
    search_rows : int, optional
        Rows, drawn at random, from which centers and hyper-parameters are learned; the posterior
        rests on all. At least as many as centers; None takes all.
    tol : float, default=0.1
        A search ends when its last ten steps together gained less, in nats for each 1000 rows.
    random_state : int, numpy.random.Generator or None
        Seed of the rows that start values and centers come from, and of "monte_carlo"
        predictions. None takes the same seed every time for the fit, so that it can be repeated.

    Attributes
    ----------
    posterior_ : KernelPosterior or AugmentedPosterior
        The posterior, from which all predictions are made.
    support_ : ndarray of shape (m, d)
        The centers, in units of the inputs.
    lengthscales_ : ndarray of shape (d,)
        In units of the inputs; a large one means an input without nonlinear influence.
    amplitude_ : float
        Prior std a of the nonlinear part, in units of y.
    linear_scale_ : ndarray of shape (d,)
        Prior std of each linear coefficient, in units of y per unit of the input.
    noise_std_ : float
        In units of y.
    log_evidence_ : float
        The objective in nats, of y less its mean, or of the `search_rows` of it; without the prior.
    converged_ : bool
        Whether the kept search ended at a stationary point or at a bound.
    n_iter_ : int
        Iterations of the kept search.
    n_features_in_ : int
        Number d of inputs.

    References
    ----------
    Quinonero-Candela, PhD thesis, DTU (2004), ch. 3; Quinonero-Candela & Rasmussen, JMLR 6 (2005);
    Snelson & Ghahramani, NIPS 18 (2006); Titsias, AISTATS 2009.

    Examples
    --------
    >>> X = np.linspace(-3, 3, 400)[:, None]
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(400)
    >>> gp = ReducedRankGPRegressor(n_support=12).fit(X, y)
    >>> mean, std = gp.predict([[0.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.0)) < 3 * std[0])
    True
    """

    most_rows: ClassVar[int | None] = None

    posterior_: KernelPosterior | AugmentedPosterior
    support_: Array
    lengthscales_: Array
    amplitude_: float
    linear_scale_: Array
    noise_std_: float
    log_evidence_: float
    converged_: bool
    n_iter_: int
    n_features_in_: int

    # With lengthscales_, amplitude_, linear_scale_ and noise_std_ all that rows need to make the
    # posterior: the centers, the prior std of the bias, where inputs and targets are measured from.
    _centers: Array
    _bias_scale: float
    _mean_weights: Array
    _widening: float
    _input_offset: Array
    _output_offset: float

    # What is known with the rows so far, how many, and which.
    _held: tuple[Support, int, str] | None = None

    def __init__(
        self,
        *,
        n_support: int = 200,
        support: SupportKind = "greedy",
        objective: Literal["evidence", "bound"] = "evidence",
        variance: Variance = "corrected",
        linear: bool | ArrayLike = True,
        prior: Literal["weak", "shrunk"] | None = "weak",
        lengthscales: Lengthscales = None,
        noise_std: float | None = None,
        search_rows: int | None = None,
        tol: float = 0.1,
        random_state: RandomState = None,
    ) -> None:
        self.n_support = n_support
        self.support = support
        self.objective = objective
        self.variance = variance
        self.linear = linear
        self.prior = prior
        self.lengthscales = lengthscales
        self.noise_std = noise_std
        self.search_rows = search_rows
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Choose the centers, learn the hyper-parameters and compute the posterior.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        y : array-like of shape (n,)
            Targets.

        Returns
        -------
        ReducedRankGPRegressor

        Raises
        ------
        ValueError
            If a parameter is not one of its choices, or a fixed hyper-parameter is not positive
            or has the wrong shape.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        X, y = np.asarray(X), np.asarray(y, dtype=np.float64)
        n, d = X.shape
        check_process(vars(self), d)
        for name, allowed in _CHOICES.items():
            check_choice(name, getattr(self, name), allowed)
        check_whole("n_support", self.n_support, 1, "200 is a good start.")
        if self.search_rows is not None:
            least = max(2, min(n, self.n_support))
            remedy = "The n_support centers are among them: None takes all rows."
            check_whole("search_rows", self.search_rows, least, remedy)
        learns = learns_or_not(self.linear) and bool(self.linear)
        self._input_offset, self._output_offset = X.mean(axis=0), float(y.mean())
        self._mean_weights = np.zeros(d)
        if not learns_or_not(self.linear):
            self._mean_weights = np.array(self.linear, dtype=np.float64)
        inputs = X - self._input_offset
        rest = y - self._output_offset - inputs @ self._mean_weights
        input_scale, output_scale = units = Units.of(X, rest)
        before, self._start = self._start, None

        def space_of(evidence: GaussianProcessEvidence) -> SearchSpace:
            given = self.prior, self.lengthscales, self.noise_std
            return search_space(evidence, *given, *units).starting_at(before)

        with blas_threads(n):
            rng = generator(0 if self.random_state is None else self.random_state)
            some = some_rows(n, self.n_searched(n), rng)
            rows = (inputs / input_scale)[some], (rest / output_scale)[some]
            learner = Learner(*rows, learns, space_of, self.objective, self.tol, rng)
            centers, found = learner.learn(self.n_support, self.support, self._independent_rest)
            self._end, scales = SearchEnd(learner.space.free, found.theta), np.exp(found.theta)
            self.lengthscales_ = scales[:d] * input_scale
            self.amplitude_ = float(scales[d]) * output_scale
            self.linear_scale_ = scales[d + 1] * output_scale * learns / input_scale
            self.noise_std_ = float(scales[-1]) * output_scale
            self._centers, self._bias_scale = centers * input_scale, output_scale * learns
            self._widening = 1.0
            if self.variance != "augmented":
                self._widening = widening(self.prior, self.noise_std, n)
            self._held = None
            self._set_posterior(X, y)
        self.support_ = self._centers + self._input_offset
        self.log_evidence_ = found.log_evidence - len(some) * float(np.log(output_scale))
        self.converged_, self.n_iter_ = found.converged, found.n_iter
        return self

    def n_searched(self, n: int) -> int:
        """How many of n rows centers and hyper-parameters are learned from."""
        return n if self.search_rows is None else min(n, self.search_rows)

    def leading_means(self, X: Array, y: Array, counts: Sequence[int]) -> LeadingMeans:
        """Means given the first `counts` of the rows X, y alone, with the hyper-parameters of all.

        Rows are taken in one after the other: O(n m^2), and O(m^2) a count.
        """
        posterior = self.posterior_
        if isinstance(posterior, AugmentedPosterior):
            return super().leading_means(X, y, counts)
        weights = np.empty((len(counts), len(posterior.weights)))
        model, held = self._without_rows(), 0
        for i in np.argsort(counts, kind="stable"):
            model = model.with_rows(X[held : counts[i]], y[held : counts[i]])
            weights[i], held = model.weights(), counts[i]

        def means(inputs: Array) -> Array:
            phi = np.vstack(posterior.features(inputs))
            return np.asarray(posterior.output_offset + np.einsum("km,mk->k", weights, phi))

        return means

    @property
    def _independent_rest(self) -> bool:
        """Whether what the centers leave of a row's prior variance is noise of it."""
        return self.objective == "evidence" and self.variance == "corrected"

    def _without_rows(self) -> Support:
        """The model of what was learned."""
        process = GaussianProcess(
            self.lengthscales_,
            self.amplitude_,
            np.append(self.linear_scale_, self._bias_scale),
            self.noise_std_,
            self._input_offset,
            self._output_offset,
            self._widening,
            self._mean_weights,
        )
        return Support.of(self._centers, process, self._independent_rest)

    def _set_posterior(self, X: Array, y: Array) -> None:
        """Make the posterior of rows: those that follow the rows held cost O(m^2) each."""
        model, held, digest = self._held or (self._without_rows(), 0, _digest(X[:0], y[:0]))
        with blas_threads(len(y)):
            if held > len(y) or digest != _digest(X[:held], y[:held]):
                model, held = self._without_rows(), 0
            model = model.with_rows(X[held:], y[held:])
            self._held = model, len(y), _digest(X, y)
            plain = model.posterior(self.variance == "corrected")
            self.posterior_ = plain
            if self.variance == "augmented":
                pull = (y - plain.mean(X)) / plain.noise_var
                added = CenterAtInput(
                    plain=plain, model=model, inputs=X.copy(), scaled_residual=pull
                )
                self.posterior_ = AugmentedPosterior(plain=plain, added=added)


def _digest(X: Array, y: Array) -> str:
    """Fingerprint of rows: 1 s a GB, where they themselves would have to be kept."""
    parts: list[Any] = [np.ascontiguousarray(X), np.ascontiguousarray(y)]
    return "".join(hashlib.blake2b(part).hexdigest() for part in parts)
