"""Relevance vector machine for classes: sparse kernel logistic regression."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.blas import dtrsm
from scipy.special import expit, log_expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from forecast_unc._checks import RandomState, check_choice, check_whole, generator, refusal
from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array, Positions
from forecast_unc.regression import estimator
from forecast_unc.regression.rvm import laplace
from forecast_unc.regression.rvm.sparse_evidence import chosen_prior, design

# Length-scales that are compared, in multiples of the typical one. These and the numbers of folds,
# rows, columns and steps below are choices: they trade the cost of a fit against its variance.
_MULTIPLES = (0.5, 1.0, 2.0, 4.0)
# Rows an input from which the plain prior is taken, and nats that the smooth one charges a degree
# of freedom. Labels say less than numbers: with the log(n) / 2 of regression hardly anything is
# found. Log loss of functions of 2 of 5, 20, 30 inputs (60, 60, 200 rows; .69 by chance) without a
# charge .57, .77, .74, with it .68, .68, .63; of labels by chance .73, .84, .96 and .70, .69, .72.
_ROWS_AN_INPUT, _CHARGE = 10, 1.0


class Machine(NamedTuple):
    """One class against the rest: columns kept, and the Gaussian of their weights."""

    active: Positions  # (m,), rows of the training inputs; n is the bias
    alpha: Array  # (m,)
    mean: Array  # (m,)
    chol: Array  # (m, m), lower triangular L; Sigma = A^-1/2 (L L')^-1 A^-1/2
    log_evidence: float
    converged: bool
    n_iter: int

    def log_odds(self, features: Array, exact: bool = False) -> Array:
        """Log-odds (k,) from features (k, m), moderated by the variance of f (MacKay 1992)."""
        if not len(self.active):
            return np.zeros(len(features))
        whitened = dtrsm(1.0, self.chol, (features / np.sqrt(self.alpha)).T, lower=1)
        mean, var = features @ self.mean, np.einsum("mk,mk->k", whitened, whitened)
        if exact:
            return laplace.log_mean_sigmoid(mean, var) - laplace.log_mean_sigmoid(-mean, var)
        return np.asarray(mean / np.sqrt(1.0 + np.pi / 8.0 * var))


@dataclass(kw_only=True, eq=False, repr=False)
class RVMClassifier(ClassifierMixin, BaseEstimator):
    r"""Relevance vector classifier: Gaussian bases at training inputs, sparse by the evidence.

    .. math::
        p(y = 1 | x) = \sigma(f(x)), \quad
        f(x) = \sum_i w_i \exp\bigl[-\tfrac12\textstyle\sum_j (x_j - x_{ij})^2 / l_j^2\bigr]
        + w_0, \quad w_i \sim \mathcal N(0, 1/\alpha_i) .

    The posterior of the weights is Laplace's Gaussian at the mode; each has its own precision, and
    where the evidence is highest at an infinite one, the basis is gone. With more than two classes
    there is one machine a class, against the rest, and the probabilities are normalized. Inputs are
    standardized inside. Far from the data the probability returns to that of the bias alone.

    Parameters
    ----------
    lengthscales : float or array-like of shape (d,), optional
        Length-scales of the bases, in units of the inputs; larger ones make the boundary smoother.
        By default half the median distance between the rows of the standardized inputs, times the
        std of each input, or 0.5, 2 or 4 times that where the log score of cross-validation is
        clearly better (Nadeau & Bengio 2003). With them given a fit is some fifty times faster.
    algorithm : {"sequential", "mackay"}, default="sequential"
        "sequential" thins all rows (500 random ones of more) out by a few of MacKay's steps, and
        then adds, re-estimates and deletes by the largest gain; "mackay" takes those steps to the
        end, from all rows at O(n^3) an iteration. The optima are local, so each may end elsewhere.
    prior : {"auto", "individual", "smooth"}, default="auto"
        Of the precisions, as in `RVMRegressor`: "individual" is flat in log alpha, "smooth" charges
        a nat for each degree of freedom that a basis alone has at even odds, as Akaike's criterion
        does. "auto" is "smooth" with two inputs or more and fewer than 10 rows an input.
    integral : {"probit", "quadrature"}, default="probit"
        Of the probability over f. MacKay's probit approximation is off by .018 at most, which is
        twice a small probability in the tails; "quadrature" is exact, at some hundred terms a row.
    n_restarts : int, default=0
        Further starts, from random precisions. The one of highest evidence is kept, among those
        that converged.
    max_iter : int, default=2000
        Most iterations a start.
    random_state : int, numpy.random.Generator or None
        Seed of the folds and the further starts. None takes the same seed every time, so that a
        fit can be repeated.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
        Class labels, sorted.
    prior_ : str
        The prior that was taken.
    relevance_, n_relevance_ : ndarray of shape (m,), int
        Rows of the training inputs that are the center of a basis, of any machine; their number.
    machines_ : tuple of Machine
        One for two classes, else one a class: columns, precisions, mode and its factor.
    log_evidence_ : ndarray of shape (1,) or (k,)
        Laplace's approximation of the log evidence of each machine, in nats.
    lengthscales_ : ndarray of shape (d,)
        In units of the inputs.
    converged_, n_iter_ : bool, int
        Whether the kept search of every machine came to rest; iterations of the longest.

    References
    ----------
    Tipping, JMLR 1 (2001); Faul & Tipping, NIPS 14 (2002); Tipping & Faul, AISTATS 2003; MacKay,
    Neural Computation 4 (1992), 720-736; Schmolck & Everson, Machine Learning 68 (2007), 107-135;
    Bishop, PRML (2006), 7.2.3; Nadeau & Bengio, Machine Learning 52 (2003), 239-281.

    Examples
    --------
    >>> X = np.linspace(-3, 3, 60)[:, None]
    >>> y = np.where(np.abs(X[:, 0]) < 1, "in", "out")
    >>> rvm = RVMClassifier().fit(X, y)
    >>> rvm.predict([[0.0], [2.0]])
    array(['in', 'out'], dtype='<U3')
    >>> rvm.n_relevance_ < 6
    True
    """

    lengthscales: estimator.Lengthscales = None
    algorithm: Literal["sequential", "mackay"] = "sequential"
    prior: Literal["auto", "individual", "smooth"] = "auto"
    integral: Literal["probit", "quadrature"] = "probit"
    n_restarts: int = 0
    max_iter: int = 2000
    random_state: RandomState = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn bases and weights from inputs X (n, d) and class labels y (n,), of any type.

        Raises
        ------
        ValueError
            If a parameter is not one of its choices, or there are fewer than two classes.
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        X = np.asarray(X)
        check_classification_targets(y)
        check_choice("algorithm", self.algorithm, ("sequential", "mackay"))
        check_choice("prior", self.prior, ("auto", "individual", "smooth"))
        check_choice("integral", self.integral, ("probit", "quadrature"))
        estimator.check_lengthscales(self.lengthscales, X, "take them from the data")
        n_restarts, max_iter = (
            check_whole(name, getattr(self, name), least, "Leave it out for the default.")
            for name, least in (("n_restarts", 0), ("max_iter", 1))
        )
        classes, labels = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            got = f"one class, {str(classes[0])!r}"
            remedy = "Pass rows of every class that is to be told apart."
            raise refusal("y", "hold at least two classes", got, remedy)
        rng = generator(0 if self.random_state is None else self.random_state)
        offset, scale = X.mean(axis=0), estimator.column_scale(X)
        Z = (X - offset) / scale
        lengthscales = estimator.standard_lengthscales(self.lengthscales, Z, scale)
        prior = chosen_prior(self.prior, len(Z), Z.shape[1], _ROWS_AN_INPUT)
        charge = _CHARGE if prior == "smooth" else 0.0
        with blas_threads(len(Z)):
            if self.lengthscales is None:
                search = _Search(0, max_iter, 100, charge)
                lengthscales *= _best_multiple(Z, labels, lengthscales, search, rng)
            Phi = design(Z, Z, lengthscales, False, True)
            most = 500 if self.algorithm == "sequential" else None
            search = _Search(n_restarts, max_iter, most, charge)
            machines = tuple(_train(Phi, signs, search, rng) for signs in _one_against_rest(labels))
        self.classes_, self.machines_, self.prior_ = classes, machines, prior
        self._input_offset, self._input_scale = offset, scale
        columns = np.unique(np.concatenate([machine.active for machine in machines]))
        self.relevance_ = columns[columns < len(Z)]
        self.n_relevance_ = len(self.relevance_)
        self._centers = Z[self.relevance_]
        self.lengthscales_ = lengthscales * scale
        self.log_evidence_ = np.array([machine.log_evidence for machine in machines])
        self.converged_ = all(machine.converged for machine in machines)
        self.n_iter_ = max(machine.n_iter for machine in machines)
        return self

    def decision_function(self, X: ArrayLike) -> Array:
        r"""Log-odds of the second class, (n,), or of each of more, (n, k), at inputs X (n, d).

        .. math:: \mu / \sqrt{1 + \pi v / 8}

        for f ~ N(mu, v); by quadrature log E sigma(f) - log E sigma(-f). The variance moves the
        odds toward zero. Far from the data f is the bias, and v is small: the classifier is as
        overconfident there as a plain RVM.
        """
        check_is_fitted(self)
        X = np.asarray(validate_data(self, X, dtype=np.float64, reset=False))
        Z = (X - self._input_offset) / self._input_scale
        lengthscales = self.lengthscales_ / self._input_scale
        Phi = design(Z, self._centers, lengthscales, False, True)
        # the bias, which follows all rows, follows the relevance vectors here
        odds = [
            machine.log_odds(
                Phi[:, np.searchsorted(self.relevance_, machine.active)],
                self.integral == "quadrature",
            )
            for machine in self.machines_
        ]
        return odds[0] if len(self.classes_) == 2 else np.column_stack(odds)

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities (n, k), in the order of `classes_`, at inputs X (n, d).

        The integral over f is `integral`.
        """
        odds = self.decision_function(X)
        if odds.ndim == 1:
            return np.column_stack([expit(-odds), expit(odds)])
        # the normalized sigma(odds), also where all of them underflow
        shares: Array = softmax(log_expit(odds), axis=1)
        return shares

    def predict(self, X: ArrayLike) -> NDArray[np.generic]:
        """Most probable class (n,), a label of the type of y, at inputs X (n, d)."""
        odds = self.decision_function(X)
        best = (odds > 0).astype(np.intp) if odds.ndim == 1 else odds.argmax(axis=1)
        labels: NDArray[np.generic] = self.classes_[best]
        return labels


def _one_against_rest(labels: Positions) -> list[Array]:
    """Labels -1 and 1 of each binary problem; a single one, for class 1, if there are two."""
    k = int(labels.max()) + 1
    return [np.where(labels == j, 1.0, -1.0) for j in (range(k) if k > 2 else (1,))]


class _Search(NamedTuple):
    """How a machine is trained."""

    n_restarts: int
    max_iter: int
    most: int | None  # columns a sequential search starts from; None: all at once
    charge: float = 0.0


def _train(Phi: Array, signs: Array, search: _Search, rng: np.random.Generator) -> Machine:
    """Machine of the highest evidence and prior over the starts, those that converged first."""
    found, (_, M) = [], Phi.shape
    n_restarts, max_iter, most, charge = search
    for restart in range(n_restarts + 1):
        columns = np.arange(M)
        if most is not None and most < M:  # random ones, and the last, which is the bias
            columns = np.append(np.sort(rng.permutation(M - 1)[: most - 1]), M - 1)
        columns, alpha = laplace.equal_shares(Phi, columns)
        alpha = alpha * np.exp(2.0 * (restart > 0) * rng.standard_normal(len(alpha)))
        iterations = max_iter if most is None else 10
        model = laplace.train_mackay(Phi, signs, (columns, alpha), iterations, charge)
        if most is not None or charge:  # which no update for all at once takes a basis out for
            begin = model.active, model.alpha
            model = laplace.train_sequential(Phi, signs, begin, max_iter, charge)
        weights = laplace.laplace(Phi[:, model.active], signs, model.alpha)
        posterior = weights.mean, weights.chol, weights.log_evidence
        machine = Machine(model.active, model.alpha, *posterior, model.converged, model.n_iter)
        prior = laplace.log_prior(Phi[:, model.active], model.alpha, charge)
        found.append((machine.converged, machine.log_evidence + prior, machine))
    return max(found, key=lambda one: one[:2])[-1]


def _best_multiple(
    Z: Array, labels: Positions, lengthscales: Array, search: _Search, rng: np.random.Generator
) -> float:
    """Multiple of the length-scales by the cross-validated log score, 1 unless clearly better."""
    n_folds = min(5, int(np.bincount(labels).min()))
    if n_folds < 2:  # a class of a single row has nothing to be tested on
        return 1.0
    from sklearn.model_selection import RepeatedStratifiedKFold  # kept out of the import

    seed = int(rng.integers(2**31))
    # scores differ by some nats from one choice of folds to the next: of three the mean
    folds = RepeatedStratifiedKFold(n_splits=n_folds, n_repeats=3, random_state=seed)
    thinning = -(-len(Z) // 500)  # to that many rows
    scores, tested = np.zeros((len(_MULTIPLES), len(Z))), np.zeros(len(Z))
    for train, test in folds.split(Z, labels):
        train, test = train[::thinning], test[::thinning]
        tested[test] += 1
        for row, multiple in enumerate(_MULTIPLES):
            Phi = design(Z, Z[train], multiple * lengthscales, False, True)
            inside, outside = np.asfortranarray(Phi[train]), Phi[test]
            for signs in _one_against_rest(labels):
                machine = _train(inside, signs[train], search, rng)
                odds = machine.log_odds(outside[:, machine.active])
                scores[row, test] += log_expit(signs[test] * odds)
    scores = scores[:, tested > 0] / tested[tested > 0]
    best = int(np.argmax(scores.sum(axis=1)))
    gain = scores[best] - scores[_MULTIPLES.index(1.0)]
    # the folds share training rows: the variance is larger by 1 + k / (k - 1) (Nadeau & Bengio)
    inflation = 1.0 + n_folds / (n_folds - 1)
    clear = gain.sum() > np.sqrt(inflation * len(gain)) * gain.std()
    return _MULTIPLES[best] if clear else 1.0
