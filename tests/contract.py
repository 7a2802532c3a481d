"""scikit-learn's contract of estimators, all checks in one test."""

from unittest import SkipTest

from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import estimator_checks_generator


def failed_checks(estimator: BaseEstimator, *, without: tuple[str, ...] = ()) -> dict[str, str]:
    """Name and error of each check of scikit-learn that fails, `without` those named."""
    failed = {}
    for one, check in estimator_checks_generator(estimator):
        name = check.func.__name__
        if name in without:
            continue
        try:
            check(one)
        except SkipTest:  # of libraries that are not installed
            continue
        except Exception as error:
            failed[name] = repr(error)
    return failed
