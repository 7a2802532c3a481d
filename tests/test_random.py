"""Seeds: what repeats, what goes on, and what is refused."""

import re

import numpy as np
import pandas as pd
import pytest

from forecast_unc import (
    Forecast,
    Forecaster,
    GPRegressor,
    ReducedRankGPRegressor,
    RVMClassifier,
    RVMRegressor,
    datasets,
)
from forecast_unc._checks import generator, one_seed


def test_a_seed_repeats_itself_and_a_generator_goes_on():
    np.testing.assert_array_equal(generator(3).normal(size=4), generator(3).normal(size=4))
    rng = np.random.default_rng(0)
    assert generator(rng) is rng
    assert generator(None).normal() != generator(None).normal()
    assert (one_seed(3), one_seed(None)) == (3, None)
    assert one_seed(rng) != one_seed(rng)


X = np.linspace(-1, 1, 20)[:, None]
ONE = Forecast(pd.RangeIndex(1), [0.0], [[1.0]])
NILE = Forecaster(lags=1).fit(datasets.load_nile())
WITH_SEED = {
    "GPRegressor": lambda seed: GPRegressor(random_state=seed).fit(X, X[:, 0]),
    "ReducedRankGPRegressor": lambda seed: ReducedRankGPRegressor(random_state=seed).fit(
        X, X[:, 0]
    ),
    "RVMRegressor": lambda seed: RVMRegressor(random_state=seed).fit(X, X[:, 0]),
    "RVMClassifier": lambda seed: RVMClassifier(random_state=seed).fit(X, X[:, 0] > 0),
    "sample": lambda seed: ONE.sample(2, seed),
    "forecast": lambda seed: NILE.forecast(
        1, propagation="monte_carlo", n_samples=3, random_state=seed
    ),
}


@pytest.mark.parametrize("name", WITH_SEED)
def test_what_is_no_seed_is_said_in_words(name):
    for seed in ("a", -1, 1.5):
        got = f"got {re.escape(repr(seed))}. "
        message = f"random_state must be a whole number, not negative, .*{got}"
        with pytest.raises(ValueError, match=message):
            WITH_SEED[name](seed)
