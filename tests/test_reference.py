"""The mathematics beside 60 digits, over the regimes of docs/numbers.md."""

import pytest

from tests.reference import measure

REFERENCE = measure.reference()
# What the regressors refuse to learn, and learn only where the noise is given.
BELOW = ("condition 1e10", "condition 1e12", "condition 1e14")


@pytest.mark.parametrize("name", REFERENCE["regressors"])
def test_regressors_have_the_digits_of_their_regime(name):
    errors = {
        quantity: measure.error(found)
        for quantity, found in measure.of_regressors(REFERENCE["regressors"][name]).items()
    }
    if name.startswith(BELOW):  # below the floor of the noise, where a half of the digits is left
        assert all(error < 1e-3 or error == measure.REFUSED for error in errors.values())
    else:
        limits = {quantity: measure.limit(name, quantity) for quantity in errors}
        assert {q: error for q, error in errors.items() if error >= limits[q]} == {}


@pytest.mark.parametrize("name", REFERENCE["transforms"])
def test_moments_and_crps_on_the_scale_of_a_transform(name):
    errors = measure.of_transform(REFERENCE["transforms"][name])
    assert max(errors.values()) < 1e-5, errors  # cubics of a table


def test_the_page_has_every_regime_and_regressor():
    page = measure.DOCS.read_text()
    regimes = [*REFERENCE["regressors"], "log and Box-Cox"]
    assert all(f"| {name} |" in page for name in regimes)
    (case, *_) = REFERENCE["regressors"].values()
    assert all(f" {quantity.partition(' ')[0]} |" in page for quantity in case["answers"])
