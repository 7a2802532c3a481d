"""Reduced-rank Gaussian process regression: cost linear in the rows."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from forecast_unc._checks import RandomState, check_choice, check_whole, generator
from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array
from forecast_unc.regression.augmented import AugmentedPosterior, CenterAtInput
from forecast_unc.regression.estimator import LeadingMeans, Lengthscales
from forecast_unc.regression.gp_base import ProcessRegressor
from forecast_unc.regression.kernel_posterior import KernelPosterior
from forecast_unc.regression.reduced_rank.reduced_rank_posterior import Support, Variance
from forecast_unc.regression.reduced_rank.support import Learner, SupportKind, some_rows
from forecast_unc.regression.search import widening

_CHOICES = {
    "support": ("greedy", "random", "kmeans"),
    "objective": ("evidence", "bound"),
    "variance": ("corrected", "standard", "augmented"),
}


@dataclass(kw_only=True, eq=False, repr=False)
class ReducedRankGPRegressor(ProcessRegressor):
    r"""Gaussian process through a support set of m centers, at a cost linear in the rows.

    .. math::
        y = k_u(x)' w + \textstyle\sum_j b_j x_j + b_0 + \varepsilon, \quad
        w \sim \mathcal N\bigl(0, a^2 K_{uu}^{-1}\bigr), \quad b_j \sim \mathcal N(0, \tau_j^2),
        \quad \varepsilon \sim \mathcal N(0, s^2),

    up to a jitter of 1e-8 on K_uu, with the squared-exponential kernel, linear term and bias of
    `GPRegressor`, of which this is the projection on m centers. A fit takes O(n m^2) for each step
    of the search and memory for m x m numbers and a block of rows; a forecast O(m^2 d) a step,
    however many rows there were.

    Parameters
    ----------
    n_support : int, default=200
        Number m of centers, at most that of different rows. More follow a finer function;
        cost grows with the square.
    support : {"greedy", "random", "kmeans"}, default="greedy"
        "greedy" takes rows one by one, each the one of some 59 that raises the objective most;
        "kmeans" the means of clusters; "random" any rows. The first two depend on the length-scales
        and take turns with the search, at most twice, on at most 10,000 rows.
    objective : {"evidence", "bound"}, default="evidence"
        What centers and hyper-parameters maximize. "evidence" is the log marginal likelihood of the
        model above (SoR, DTC), or with `variance` "corrected" of a model counting the prior
        variance which the centers leave at a row as its noise (FITC). "bound" is that of the model
        above less tr(K - Q) / (2 s^2), a lower bound on the log evidence of the exact process (VFE,
        SGPR; Titsias 2009), with "corrected" predictions as of DTC:
        it takes for noise what the centers do not follow, and over-fits no more than the exact one.
    variance : {"corrected", "standard", "augmented"}, default="corrected"
        "corrected" adds the prior variance that the centers leave, so that the variance returns to
        the prior's away from them. "standard" is that of the model above: away from the centers the
        function has none. "augmented" (RRGP*) adds a center at each test input: no closed form for
        uncertain inputs, and a prediction costs O(n m).
    linear : bool or array-like of shape (d,), default=True
        The linear term and a bias, or the weights of a linear prior mean, as in `GPRegressor`.
    prior : {"weak", "shrunk", None}, default="weak"
        Of the hyper-parameters, as in `GPRegressor`; the variances of "augmented" are not those of
        Student's t with "shrunk".
    lengthscales, noise_std : float or array-like of shape (d,), float, optional
        In units of the inputs, and of y, kept fixed. By default they are learned.
    search_rows : int, optional
        Rows, drawn at random, from which centers and hyper-parameters are learned; the posterior
        rests on all. At least as many as centers; None takes all.
    tol : float, default=0.1
        A search ends when its last ten steps together gained less, in nats for each 1000 rows.
    random_state : int, numpy.random.Generator or None
        Seed of the rows that start values and centers come from (None takes the same one every
        time, so that a fit can be repeated), and of "monte_carlo" predictions.

    Attributes
    ----------
    posterior_ : KernelPosterior or AugmentedPosterior
        The posterior that all predictions are made from.
    support_ : ndarray of shape (m, d)
        The centers, in units of the inputs.
    lengthscales_, linear_scale_, amplitude_, noise_std_ : ndarray of shape (d,), float
        The hyper-parameters, as of `GPRegressor`.
    log_evidence_ : float
        The objective in nats, of y less its mean, or of the `search_rows` of it; without the prior.
    converged_, n_iter_ : bool, int
        Whether the kept search ended at a stationary point or at a bound, and its iterations.

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

    n_support: int = 200
    support: SupportKind = "greedy"
    objective: Literal["evidence", "bound"] = "evidence"
    variance: Variance = "corrected"
    linear: bool | ArrayLike = True
    prior: Literal["weak", "shrunk"] | None = "weak"
    lengthscales: Lengthscales = None
    noise_std: float | None = None
    search_rows: int | None = None
    tol: float = 0.1
    random_state: RandomState = None

    posterior_: KernelPosterior | AugmentedPosterior = field(init=False)
    support_: Array = field(init=False)

    _centers: Array = field(init=False)  # from the input offset
    # What is known with the rows so far, how many, and which; not of what was read from a file.
    _held: tuple[Support, int, str] | None = field(init=False)

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn centers, hyper-parameters and posterior from inputs X (n, d) and targets y (n,).

        Raises
        ------
        ValueError
            If a parameter is not one of its choices, or a fixed hyper-parameter is not positive
            or has the wrong shape.
        """
        X, y = self._checked_rows(X, y)
        n = len(X)
        self._check_process(X, y, least_noise=1e-8)  # else roundoff of K - Q decides
        for name, allowed in _CHOICES.items():
            check_choice(name, getattr(self, name), allowed)
        n_support = check_whole("n_support", self.n_support, 1, "200 is a good start.")
        if self.search_rows is not None:
            least = max(2, min(n, n_support))
            remedy = "The n_support centers are among them: None takes all rows."
            check_whole("search_rows", self.search_rows, least, remedy)
        Z, targets, units, _ = self._standardized(X, y)
        with blas_threads(n):
            rng = generator(0 if self.random_state is None else self.random_state)
            some = some_rows(n, self.n_searched(n), rng)
            space_of = partial(self._search_space, units=units)
            given = self._learns_linear, space_of, self.objective, self.tol, rng
            learner = Learner(Z[some], targets[some], *given)
            centers, found = learner.learn(n_support, self.support, self._independent_rest)
            self._end, self._start = (learner.space.free, found.theta), None
            self._set_optimum(found, units, len(some))
            if self.variance != "augmented":
                wide = widening(self.prior, self.noise_std, n)
                self._process = replace(self._process, widening=wide)
            self._centers, self._held = centers * units.inputs, None
            self._set_posterior(X, y)
        self.support_ = self._centers + self._process.input_offset
        return self

    def n_searched(self, n: int) -> int:
        """Number of the n rows that centers and hyper-parameters are learned from."""
        return n if self.search_rows is None else min(n, self.search_rows)

    def leading_means(self, X: Array, y: Array, counts: Sequence[int]) -> LeadingMeans:
        """Means given the first `counts` of the rows X, y: O(n m^2), and O(m^2) a count."""
        posterior = self.posterior_
        if isinstance(posterior, AugmentedPosterior):
            return super().leading_means(X, y, counts)
        weights = np.empty((len(counts), len(posterior.weights)))
        model, held = Support.of(self._centers, self._process, self._independent_rest), 0
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

    def _set_posterior(self, X: Array, y: Array) -> None:
        """Make the posterior of rows: those that follow the rows held cost O(m^2) each."""
        model, held, digest = vars(self).get("_held") or (None, 0, "")
        with blas_threads(len(y)):
            if model is None or held > len(y) or digest != _digest(X[:held], y[:held]):
                model, held = Support.of(self._centers, self._process, self._independent_rest), 0
            model = model.with_rows(X[held:], y[held:])
            self._held = model, len(y), _digest(X, y)
            plain = model.posterior(self.variance == "corrected")
            self.posterior_ = plain
            if self.variance == "augmented":
                self.posterior_ = CenterAtInput(
                    plain=plain,
                    inputs=X.copy(),
                    scaled_residual=(y - plain.mean(X)) / plain.noise_var,
                    signal_var=self.amplitude_**2,
                    model=model,
                )


def _digest(X: Array, y: Array) -> str:
    """Fingerprint of rows: 1 s a GB, where they themselves would have to be kept."""
    parts: list[Any] = [np.ascontiguousarray(X), np.ascontiguousarray(y)]
    return "".join(hashlib.blake2b(part).hexdigest() for part in parts)
