"""What an ensemble averages: models on lagged values, and exponential smoothing."""

from forecast_unc.forecasting.model import FittedModel
from forecast_unc.forecasting.smoothing_model import SmoothingModel, SmoothingSpecification
from forecast_unc.forecasting.specification import Specification
from forecast_unc.series.history import History

Member = FittedModel | SmoothingModel
MemberSpecification = Specification | SmoothingSpecification


def fit_member(
    specification: MemberSpecification, history: History, earlier: tuple[Member, ...] = ()
) -> Member:
    """Fit a specification on a history.

    Parameters
    ----------
    specification : Specification or SmoothingSpecification
        What to fit.
    history : History
        The series.
    earlier : tuple of FittedModel or SmoothingModel, optional
        A search starts from the hyper-parameters of the first of them with the same inputs and
        target.

    Returns
    -------
    FittedModel or SmoothingModel

    Raises
    ------
    ValueError
        If the series does not suit it.
    """
    if isinstance(specification, SmoothingSpecification):
        return SmoothingModel.fit(specification, history)
    alike = (
        one
        for one in earlier
        if isinstance(one, FittedModel) and _alike(one.specification, specification)
    )
    return FittedModel.fit(specification, history, next(alike, None))


def _alike(one: Specification, other: Specification) -> bool:
    """Whether two specifications have the same inputs and target."""
    names = ("lags", "differences", "transform", "prior_mean", "max_train", "noise")
    same = all(getattr(one, name) == getattr(other, name) for name in names)
    return same and len(one.calendar) == len(other.calendar)
