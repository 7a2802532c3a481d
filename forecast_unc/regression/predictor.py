"""Regressors of scikit-learn in the place of a kernel model: all they tell is mean and std."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from forecast_unc._checks import refusal
from forecast_unc._typing import Array
from forecast_unc.regression.estimator import KernelRegressor, column_scale
from forecast_unc.regression.moments import covariance_root
from forecast_unc.regression.posterior import Moments, Posterior

# Step of a derivative, in the lengths over which the function changes. The error of these formulas
# falls with its fourth power, so it can be large enough for predictions that lost some digits.
_STEP = 0.02
_USE = "Use one of the package's, such as GPRegressor() or RVMRegressor()."


@dataclass(frozen=True)
class PredictorPosterior:
    """A model that predicts mean and std of an observation; which part is noise is not known."""

    closed_form: ClassVar[bool] = False
    joint: ClassVar[bool] = False
    noise_var: ClassVar[float] = 0.0
    observation_var: ClassVar[float] = 0.0
    signal_var: ClassVar[None] = None
    path_size: ClassVar[int] = 0

    predictor: Any  # fitted, with ``predict(X, return_std=True)``
    scale: Array  # (d,), length of each input over which predictions change

    def mean(self, X: Array) -> Array:
        """Predictive mean at the rows of X, of shape (n,)."""
        return np.asarray(self.predictor.predict(X), dtype=np.float64)

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Predictive mean and variance of an observation at the rows of X, each (n,)."""
        mean, std = self.predictor.predict(X, return_std=True)
        if not (std > 0).all():
            must = "predict a positive std"
            remedy = "Let the model have noise, such as a WhiteKernel in GaussianProcessRegressor."
            raise refusal("regressor", must, f"{np.min(std):.3g}", remedy)
        return np.asarray(mean, dtype=np.float64), np.asarray(std, dtype=np.float64) ** 2

    def gradient(self, X: Array) -> Array:
        """Gradient of the predictive mean in x at the rows of X by differences, (n, d)."""
        return slope_by_differences(self.mean, X, self.scale)

    def moments(self, mean: Array, cov: Array) -> NoReturn:
        """Raise: of an unknown function of the input there is no closed form."""
        names = "'taylor', 'mixture', 'monte_carlo', 'auto' or 'naive'"
        must = f"be {names}, method 'taylor' or 'monte_carlo', for {type(self.predictor).__name__}"
        why = "Moments under an uncertain input have a closed form for kernel models only."
        raise refusal("propagation", must, "'exact'", f"{why} {_USE}")

    def taylor_moments(self, mean: Array, cov: Array) -> Moments:
        """Moments by Taylor expansion, derivatives by differences; see `KernelPosterior`."""
        return taylor_by_differences(self, mean, cov, self.scale)

    def covariance(self, X: Array) -> NoReturn:
        """Raise: the function is not told apart from the noise."""
        must = "be False for a regressor of scikit-learn"
        why = "It does not tell how the function's errors at two inputs are related."
        raise refusal("path_consistent", must, "True", f"{why} {_USE}")

    def function_path(self, n_steps: int, n_paths: int = 1) -> NoReturn:
        """Raise: as for `covariance`."""
        self.covariance(np.zeros((0, len(self.scale))))

    def function_sample(self, n_paths: int, rng: np.random.Generator) -> None:
        """None: the function is not told apart from the noise."""

    def plus_input(self, column: int) -> NoReturn:
        """Raise: a regressor of scikit-learn has no prior mean."""
        raise refusal("prior_mean", "be 'zero' for a regressor of scikit-learn", "another", _USE)


class ScikitLearnRegressor(KernelRegressor):
    """A scikit-learn regressor, or pipeline that ends in one, with a std; cloned.

    The std is taken as that of a new observation: BayesianRidge and ARDRegression include the
    noise, a GaussianProcessRegressor does with a WhiteKernel in its kernel. Uncertain inputs go
    through it by "taylor" with numerical derivatives and by "monte_carlo".
    """

    estimator_: Any
    posterior_: PredictorPosterior

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit a clone of the estimator; a TypeError if it predicts no standard deviation."""
        check_takes_return_std(self.estimator)
        self._set_posterior(*self._checked_rows(X, y))
        return self

    def _set_posterior(self, X: Array, y: Array) -> None:
        """Fit to the rows, hyper-parameters included: they cannot be kept."""
        self.estimator_ = clone(self.estimator).fit(X, y)
        try:
            predicted = self.estimator_.predict(X[:3], return_std=True)
        except (TypeError, AttributeError) as error:  # TransformedTargetRegressor: AttributeError
            raise _without_std(self.estimator_) from error
        pair = isinstance(predicted, tuple) and len(predicted) == 2
        if not pair or any(np.shape(part) != (len(X[:3]),) for part in predicted):
            raise _without_std(self.estimator_)
        # Predictions change over a quarter of a std: on a GP whose length-scale was a tenth of it,
        # slopes and Taylor's variances kept five digits.
        self.posterior_ = PredictorPosterior(self.estimator_, 0.25 * column_scale(X))


def check_takes_return_std(estimator: Any) -> None:
    """Raise if the signature of `predict` tells that a regressor has no std, before any fit."""
    last = estimator
    while isinstance(last, Pipeline):
        last = last.steps[-1][1]
    try:
        parameters = inspect.signature(last.predict).parameters
    except (AttributeError, TypeError, ValueError):  # none, or one that does not tell
        return
    any_name = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    if "return_std" not in parameters and not any_name:
        raise _without_std(estimator)


def _without_std(estimator: Any) -> Exception:
    must = "predict a standard deviation, by predict(X, return_std=True)"
    remedy = "Use one that does, such as BayesianRidge() or GPRegressor()."
    return refusal("regressor", must, f"{estimator!r}", remedy, TypeError)


def as_kernel_regressor(regressor: Any) -> KernelRegressor:
    """The regressor itself if it is one of the package's, else one that makes use of it."""
    if isinstance(regressor, KernelRegressor):
        return regressor
    methods = ("fit", "predict", "get_params")
    if isinstance(regressor, type) or not all(hasattr(regressor, name) for name in methods):
        must = "be one of the package's, such as GPRegressor(), or of scikit-learn's that predict"
        must += " a std, such as BayesianRidge()"
        raise refusal("regressor", must, f"{regressor!r}", "Use None for the default.", TypeError)
    check_takes_return_std(regressor)
    return ScikitLearnRegressor(regressor)


def slope_by_differences(mean: Callable[[Array], Array], X: Array, scale: Array) -> Array:
    """Gradient (n, d) of a function of rows, which changes over lengths `scale` (d,)."""
    n, d = X.shape
    step = _STEP * scale
    moves = np.array([-2, -1, 1, 2])[:, None, None] * np.diag(step)  # (4, d, d)
    far0, near0, near1, far1 = (
        mean((X[:, None] + move).reshape(-1, d)).reshape(n, d) for move in moves
    )
    return np.asarray((8.0 * (near1 - near0) - (far1 - far0)) / (12.0 * step))


def taylor_by_differences(posterior: Posterior, mean: Array, cov: Array, scale: Array) -> Moments:
    """`KernelPosterior.taylor_moments` by differences along a root of cov."""
    root = covariance_root(cov)
    length = np.sqrt(np.einsum("dr,dr->r", root, root / scale[:, None] ** 2))
    step = _STEP / np.where(length > 0, length, 1.0)
    shifts = (root * step).T  # (r, d)
    points = np.concatenate([mean + k * shifts for k in (-2, -1, 1, 2)] + [mean[None]])
    means, variances = posterior.predict(points)
    far0, near0, near1, far1 = variances[:-1].reshape(4, -1)
    second = (16.0 * (near0 + near1) - far0 - far1 - 30.0 * variances[-1]) / 12.0
    slope = posterior.gradient(mean[None])[0]
    push = root.T @ slope
    var = variances[-1] + 0.5 * (second / step**2).sum() + push @ push
    return Moments(float(means[-1]), float(var), slope)
