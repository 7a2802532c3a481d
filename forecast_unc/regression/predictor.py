"""Regressors of scikit-learn in the place of a kernel model: all they tell is mean and std."""

from dataclasses import dataclass
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from forecast_unc._random import RandomState
from forecast_unc._typing import Array
from forecast_unc.regression.differences import slope_by_differences, taylor_by_differences
from forecast_unc.regression.moments import Moments
from forecast_unc.regression.posterior import KernelPosterior
from forecast_unc.regression.regressor import KernelRegressor
from forecast_unc.regression.standardize import column_scale

# The scale of numerical derivatives, in standard deviations of an input. On a GP whose
# length-scale was a tenth of that, slopes and Taylor's variances kept five digits.
_SCALE = 0.25


@dataclass(frozen=True, kw_only=True)
class PredictorPosterior(KernelPosterior):
    """What is known of a model that predicts a mean and a std, and nothing of two inputs together.

    A posterior without features. Its std is taken as that of an observation, and which part of
    it is noise is not known; `noise_var` is 0 and not to be shown. Errors of the function at
    different inputs count as independent. `lengthscales` are the scale of numerical derivatives.

    Parameters
    ----------
    predictor : object
        Fitted regressor with ``predict(X, return_std=True)``.
    """

    predictor: Any

    def mean(self, X: Array) -> Array:
        """Predictive mean at the rows of X, of shape (n,)."""
        return np.asarray(self.predictor.predict(X), dtype=np.float64)

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Predictive mean and variance of an observation at the rows of X, each (n,)."""
        mean, std = self.predictor.predict(X, return_std=True)
        if not (std > 0).all():
            raise ValueError(
                f"regressor must predict a positive std; got {np.min(std):.3g}. Let the model "
                "have noise, such as a WhiteKernel in a GaussianProcessRegressor."
            )
        return np.asarray(mean, dtype=np.float64), np.asarray(std, dtype=np.float64) ** 2

    def covariance(self, X: Array) -> Array:
        """Diagonal matrix of the predictive variances at the rows of X, (n, n)."""
        return np.diag(self.predict(X)[1])

    def gradient(self, X: Array) -> Array:
        """Gradient of the predictive mean in x at the rows of X by differences, (n, d)."""
        return slope_by_differences(self.mean, X, self.lengthscales)

    def moments(self, mean: Array, cov: Array) -> NoReturn:
        """Raise: of an unknown function of the input there is no closed form."""
        raise ValueError(
            "method or propagation must be 'taylor', 'monte_carlo' or 'naive' for "
            f"{type(self.predictor).__name__}; got 'exact'. Moments under an uncertain input have "
            "a closed form for kernel models only, such as GPRegressor() and RVMRegressor()."
        )

    def taylor_moments(self, mean: Array, cov: Array) -> Moments:
        """Moments by Taylor expansion, derivatives by differences; see `KernelPosterior`."""
        slope = self.gradient(mean[None])[0]
        return taylor_by_differences(self.predict, slope, mean, cov, self.lengthscales)


class ScikitLearnRegressor(KernelRegressor):
    """A scikit-learn regressor with a std, for `Forecaster`.

    Uncertain inputs go through it by "taylor" with numerical derivatives and by "monte_carlo".

    Parameters
    ----------
    estimator : estimator
        Regressor, or pipeline that ends in one, with ``predict(X, return_std=True)``; cloned.
        The std is taken as that of a new observation: BayesianRidge and ARDRegression include
        the noise, a GaussianProcessRegressor does with a WhiteKernel in its kernel.

    Attributes
    ----------
    estimator_ : estimator
        The fitted regressor.
    posterior_ : PredictorPosterior
        Its predictions.

    Examples
    --------
    >>> from sklearn.linear_model import BayesianRidge
    >>> X = np.arange(20.0)[:, None]
    >>> line = ScikitLearnRegressor(BayesianRidge()).fit(X, 3 * X[:, 0] + np.sin(9 * X[:, 0]))
    >>> m = line.predict_uncertain([5.0], [[4.0]], method="taylor")
    >>> round(float(m.slope[0]), 1)
    3.0
    """

    random_state: RandomState = None

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit a clone of the estimator.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        y : array-like of shape (n,)
            Targets.

        Returns
        -------
        ScikitLearnRegressor

        Raises
        ------
        TypeError
            If the estimator predicts no standard deviation.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        inputs: Array = np.asarray(X)
        self.estimator_ = clone(self.estimator).fit(inputs, y)
        check_predicts_std(self.estimator_, inputs[:3])
        d = inputs.shape[1]
        self.posterior_ = PredictorPosterior(
            centers=np.zeros((0, d)),
            lengthscales=_SCALE * column_scale(inputs),
            weights=np.zeros(d + 1),
            factors=(),
            linear_var=np.zeros(d + 1),
            kernel_var=0.0,
            noise_var=0.0,
            input_offset=np.zeros(d),
            predictor=self.estimator_,
        )
        return self

    def condition(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit anew, hyper-parameters included: scikit-learn has no way to keep them.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        y : array-like of shape (n,)
            Targets.

        Returns
        -------
        ScikitLearnRegressor
        """
        return self.fit(X, y)


def check_predicts_std(estimator: Any, X: Array) -> None:
    """Raise unless a fitted regressor predicts a mean and a std.

    Parameters
    ----------
    estimator : estimator
        Fitted regressor.
    X : ndarray of shape (n, d)
        Some inputs.
    """
    predicted, cause = None, None
    try:
        predicted = estimator.predict(X, return_std=True)
    except (TypeError, AttributeError) as error:  # TransformedTargetRegressor: AttributeError
        cause = error
    pair = isinstance(predicted, tuple) and len(predicted) == 2
    if not pair or any(np.shape(part) != (len(X),) for part in predicted):  # type: ignore[union-attr]
        raise TypeError(
            "regressor must predict a standard deviation, by predict(X, return_std=True); got "
            f"{estimator!r}. Use one that does, such as BayesianRidge() or "
            "GaussianProcessRegressor(), or the package's GPRegressor()."
        ) from cause


def as_kernel_regressor(regressor: Any) -> KernelRegressor:
    """The regressor itself if it is one of the package's, else one that makes use of it.

    Parameters
    ----------
    regressor : KernelRegressor or scikit-learn regressor
        Not fitted; not modified.

    Returns
    -------
    KernelRegressor

    Raises
    ------
    TypeError
        If it is no regressor. Whether it predicts a std is known once it is fitted.
    """
    if isinstance(regressor, KernelRegressor):
        return regressor
    methods = ("fit", "predict", "get_params")
    if isinstance(regressor, type) or not all(hasattr(regressor, name) for name in methods):
        raise TypeError(
            "regressor must be one of the package's, such as GPRegressor(), or one of "
            f"scikit-learn's that predicts a std, such as BayesianRidge(); got {regressor!r}. Use "
            "None for the default."
        )
    return ScikitLearnRegressor(regressor)
