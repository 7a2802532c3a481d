"""Centers and hyper-parameters of a reduced-rank process, in turns."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from forecast_unc._typing import Array
from forecast_unc.regression.descent import descend
from forecast_unc.regression.evidence import GaussianProcessEvidence
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.hyperparameter_search import (
    LEAST_NOISE_RATIO,
    Objective,
    SearchSpace,
    maximize,
)
from forecast_unc.regression.reduced_rank.evidence import Criterion, ReducedRankEvidence
from forecast_unc.regression.reduced_rank.fitc import IndependentRestEvidence
from forecast_unc.regression.reduced_rank.support import GreedySupport, SupportKind, cluster_means

# Rows, drawn at random, of the exact process whose hyper-parameters are the first start.
_START_ROWS = 500
# Rows, drawn at random, on which centers and hyper-parameters take turns: "greedy" holds the
# columns of all centers. With more rows one more search, on all of them, follows.
_SELECTION_ROWS = 10_000
# Times that centers are chosen and hyper-parameters learned, at most; and the gain in nats that
# keeps it going.
_ROUNDS, _LEAST_GAIN = 2, 1.0
_MOST_ITERATIONS = 200
# Noise stds that a search may start from, in those of the start before.
_NOISE_FACTORS = 2.0 ** np.arange(-2.0, 8.0)


class Learned(NamedTuple):
    """Centers and hyper-parameters, of standardized data."""

    centers: Array  # (m, d)
    theta: Array  # (d + 3,), log [l, a, tau, s]
    value: float  # log evidence or bound
    objective: float  # the same and the log prior
    converged: bool
    n_iter: int


class Learner:
    """Centers and hyper-parameters in turns, each given the other, on standardized data.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Inputs.
    t : ndarray of shape (n,)
        Targets.
    exact : GPRegressor
        Not fitted; the process with its prior, what of it is given, and where a search starts.
    scale : ndarray of shape (d + 1,)
        Of inputs and targets: units of what is given.
    objective : {"evidence", "bound"}
        What is maximized, with the prior.
    n_searched : int
        Rows, drawn at random, on which centers and hyper-parameters are learned.
    rng : Generator
        Draws rows.
    """

    def __init__(
        self,
        Z: Array,
        t: Array,
        exact: GPRegressor,
        scale: Array,
        objective: Criterion,
        n_searched: int,
        rng: np.random.Generator,
    ) -> None:
        some = _some_rows(len(t), n_searched, rng)
        Z, t = Z[some], t[some]
        self.Z, self.t, self.rng = Z, t, rng
        self.kind, self.linear, self.tol = objective, exact._learns_linear, exact.tol
        some = _some_rows(len(t), _START_ROWS, rng)
        evidence = GaussianProcessEvidence(Z[some], t[some], self.linear)
        self.space: SearchSpace = exact._search_space(evidence, scale[:-1], float(scale[-1]))
        self.least_ratio = LEAST_NOISE_RATIO if exact.noise_std is None else 0.0
        if self.space.warm:
            self.start = self.space.start
            return
        objective_there = Objective(evidence, self.space, self.least_ratio)
        found = maximize(objective_there, 0, self.tol * len(some) / 1e3, None)
        self.start = objective_there.theta(found.log_hyperparameters)

    def learn(self, n_support: int, support: SupportKind, independent_rest: bool) -> Learned:
        """The best of the rounds.

        Parameters
        ----------
        n_support : int
            Centers at most.
        support : {"greedy", "random", "kmeans"}
            How they are chosen.
        independent_rest : bool
            Whether the last search is by the evidence of `IndependentRestEvidence`.

        Returns
        -------
        Learned
        """
        some = _some_rows(len(self.t), max(_SELECTION_ROWS, n_support), self.rng)
        Z, t = self.Z[some], self.t[some]
        best, theta = None, self.start
        for _ in range(1 if support == "random" else _ROUNDS):
            centers = self._centers(Z, t, n_support, support, theta)
            found = self._search(Z, t, centers, theta)
            gain = np.inf if best is None else found.objective - best.objective
            if best is None or gain > 0.0:
                best, theta = found, found.theta
            if gain < _LEAST_GAIN:
                break
        assert best is not None
        if independent_rest:
            model = IndependentRestEvidence(self.Z, self.t, best.centers, self.linear)
            return self._maximize(model, best.theta)
        if len(some) < len(self.t):
            return self._search(self.Z, self.t, best.centers, best.theta)
        return best

    def _search(self, Z: Array, t: Array, centers: Array, theta: Array) -> Learned:
        """Hyper-parameters for these rows and centers."""
        streamed = ReducedRankEvidence(Z, t, centers, self.linear, objective=self.kind)
        if self.space.free[-1]:
            theta = self._with_noise(streamed, theta)
        return self._maximize(streamed, theta)

    def _maximize(self, streamed: ReducedRankEvidence, theta: Array) -> Learned:
        """The maximum by L-BFGS-B from these hyper-parameters."""
        objective = Objective(streamed, self.space, self.least_ratio)  # type: ignore[arg-type]
        bounds = self.space.bounds[self.space.free]
        tol = self.tol * len(streamed.y) / 1e3
        found = descend(objective, theta[self.space.free], bounds, tol, _MOST_ITERATIONS)
        if not np.isfinite(found.value):
            raise ValueError(
                "noise_std and lengthscales must give a finite evidence; got one that is not, with "
                "what was given. Give a larger noise_std, or learn both."
            )
        value = -found.value - objective.log_prior(found.x)
        theta = objective.theta(found.x)
        return Learned(streamed.centers, theta, value, -found.value, found.converged, found.n_iter)

    def _with_noise(self, streamed: ReducedRankEvidence, theta: Array) -> Array:
        """These hyper-parameters with the noise that suits these centers best.

        What the centers leave of the function is noise to them. From the noise of the exact
        process the bound's search may end at an amplitude of 0: its first steps see nothing but
        the penalty on that rest (KIN40K, 200 means of clusters).
        """
        d, scales = self.Z.shape[1], np.exp(theta)
        stds = np.clip(scales[-1] * _NOISE_FACTORS, *np.exp(self.space.bounds[-1]))
        values = streamed.noise_profile(scales[:d], float(scales[d]), float(scales[d + 1]), stds)
        out = theta.copy()
        out[-1] = np.log(stds[values.argmin()])
        return out

    def _centers(
        self, Z: Array, t: Array, n_support: int, support: SupportKind, theta: Array
    ) -> Array:
        """Centers for these hyper-parameters, (m, d)."""
        (n, d), scales = Z.shape, np.exp(theta)
        n_support = min(n_support, n)
        if support == "random":
            return np.asarray(Z[self.rng.permutation(n)[:n_support]])
        inputs = Z / scales[:d]
        if support == "kmeans":
            return np.asarray(cluster_means(inputs, n_support, self.rng) * scales[:d])
        linear = np.empty((n, 0))
        if self.linear:
            linear = np.column_stack([scales[d + 1] * Z, np.ones(n)])
        amplitude, noise_std = float(scales[d]), float(scales[-1])
        greedy = GreedySupport(inputs, t, linear, amplitude, noise_std, n_support, self.kind)
        return np.asarray(Z[greedy.choose(n_support, self.rng)])


def _some_rows(n: int, most: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """All rows, or so many of them drawn at random, in order."""
    if n <= most:
        return np.arange(n)
    return np.sort(rng.choice(n, most, replace=False))
