"""Alternatives of which some diverge: what takes their place, and when the forecast is refused."""

import numpy as np
import pytest
from scipy.linalg import block_diag

from forecast_unc.distributions.joint import Diverged
from forecast_unc.forecasting.horizon.gaussian import propagate as propagate_joint
from forecast_unc.forecasting.horizon.step import Future, Method, OneStepModel
from forecast_unc.regression.mixture import PosteriorMixture
from tests.recursions import IDENTITY, past_of
from tests.recursions import paths_of as sample_paths
from tests.test_propagation import linear_posterior

HISTORY = np.array([0.4, -0.2, 0.3, 1.0])
# Of roots 30 and 4 the second and third diverge at steps 5 and 10.
CALM, LIVELY, FAST, SLOW = (linear_posterior(np.array([a])) for a in (0.5, 0.8, 30.0, 4.0))
EARLY, LATE = 4, 9  # the last steps that they reach


def problem(posterior, steps):
    model = OneStepModel(posterior, (1,), IDENTITY)
    return model, past_of(HISTORY), Future(np.empty((steps, 0)))


def propagate(posterior, steps, **method):
    return propagate_joint(*problem(posterior, steps), Method(**method))


def mixture(*posteriors_and_p):
    posteriors, p = zip(*posteriors_and_p, strict=True)
    return PosteriorMixture(posteriors, np.array(p))


BOTH = mixture((CALM, 0.6), (FAST, 0.04), (LIVELY, 0.34), (SLOW, 0.02))


def reach(posterior):
    with pytest.raises(Diverged) as error:
        propagate(posterior, 40)
    return error.value.step - 1


def test_the_unstable_ones_diverge_where_it_is_said():
    assert (reach(FAST), reach(SLOW)) == (EARLY, LATE)


@pytest.mark.parametrize("steps", [3, 6, 12])
def test_the_steps_beyond_have_the_moments_of_the_others(steps):
    """Written out: each alternative's moments, by the step."""
    found = propagate(BOTH, steps)
    calm, lively = (propagate(one, steps) for one in (CALM, LIVELY))
    slow = propagate(SLOW, min(steps, LATE))
    fast = propagate(FAST, min(steps, EARLY))

    def mixed(p, means, covs):
        p = np.array(p) / np.sum(p)
        away = np.array(means) - p @ means
        return p @ means, np.tensordot(p, covs, 1) + (p * away.T) @ away

    means, covs = [calm.mean, lively.mean], [calm.cov, lively.cov]
    for p, one in (((0.6, 0.34), slow), ((0.6, 0.34, 0.02), fast)):
        end = len(one.mean)
        mean, cov = mixed(p, means, covs)
        means.append(np.append(one.mean, mean[end:]))
        covs.append(block_diag(one.cov, cov[end:, end:]))
    mean, cov = mixed((0.6, 0.34, 0.02, 0.04), means, covs)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-10)
    np.testing.assert_allclose(found.cov, cov, rtol=1e-10)
    total = np.sum([found.parts[name] for name in found.parts], axis=0)
    np.testing.assert_allclose(np.diagonal(total), np.diagonal(cov), rtol=1e-10)


def test_beyond_the_last_divergence_the_steps_are_those_of_the_stable_ones():
    found = propagate(BOTH, 12)
    stable = propagate(mixture((CALM, 0.6 / 0.94), (LIVELY, 0.34 / 0.94)), 12)
    np.testing.assert_allclose(found.mean[LATE:], stable.mean[LATE:], rtol=1e-10)
    np.testing.assert_allclose(found.cov[LATE:, LATE:], stable.cov[LATE:, LATE:], rtol=1e-10)


@pytest.mark.parametrize("propagation", ["exact", "mixture", "monte_carlo"])
def test_one_that_diverges_at_the_first_step_leaves_all_to_the_others(propagation):
    at_once = linear_posterior(np.array([1e9]))
    options = {"propagation": propagation, "n_samples": 4000, "random_state": 1}
    found = propagate(mixture((at_once, 0.04), (CALM, 0.6), (LIVELY, 0.36)), 3, **options)
    others = propagate(mixture((CALM, 0.6 / 0.96), (LIVELY, 0.36 / 0.96)), 3)
    sampled = propagation != "exact"
    np.testing.assert_allclose(found.mean, others.mean, atol=0.1 if sampled else 1e-10)
    np.testing.assert_allclose(found.cov, others.cov, rtol=0.1 if sampled else 1e-10)
    if propagation == "exact":
        for name in others.parts:
            np.testing.assert_allclose(found.parts[name], others.parts[name], rtol=1e-9, atol=1e-12)
    if propagation == "monte_carlo":
        assert found.paths.shape == (3, 4000)


@pytest.mark.parametrize("propagation", ["exact", "taylor", "naive", "mixture", "monte_carlo"])
def test_the_first_steps_do_not_depend_on_the_horizon(propagation):
    options = {"propagation": propagation, "n_samples": 500, "random_state": 1}
    whole = propagate(BOTH, 15, **options)
    for steps in (2, EARLY, EARLY + 1, LATE + 2):
        short = propagate(BOTH, steps, **options)
        np.testing.assert_allclose(short.mean, whole.mean[:steps], rtol=1e-9)
        np.testing.assert_allclose(short.cov, whole.cov[:steps, :steps], rtol=1e-9)
    if propagation == "monte_carlo":
        assert whole.paths.shape == (15, 500)


def test_sample_paths_go_on_as_others():
    paths = sample_paths(*problem(BOTH, 15), Method("monte_carlo", True, 4000, 0))
    exact = propagate(BOTH, 15)
    assert paths.shape == (4000, 15)
    std = np.sqrt(np.diagonal(exact.cov))[LATE:]
    away = (paths.mean(axis=0) - exact.mean)[LATE:] / std
    np.testing.assert_allclose(away, 0.0, atol=5.0 / np.sqrt(4000))
    np.testing.assert_allclose(paths.std(axis=0)[LATE:], std, rtol=5.0 / np.sqrt(8000))


@pytest.mark.parametrize("propagation", ["exact", "monte_carlo"])
def test_more_than_a_tenth_is_the_divergence_of_the_forecast(propagation):
    """The step is that at which the weight of what has diverged is more than a tenth."""
    options = {"propagation": propagation, "random_state": 1}
    uncertain = mixture((CALM, 0.85), (FAST, 0.05), (SLOW, 0.1))
    assert len(propagate(uncertain, LATE, **options).mean) == LATE
    with pytest.raises(Diverged, match="diverges at step") as error:
        propagate(uncertain, 40, **options)
    assert abs(error.value.step - LATE - 1) <= 1  # of paths a step later or earlier
    with pytest.raises(Diverged):
        propagate(mixture((CALM, 0.4), (FAST, 0.6)), 40, **options)


def test_the_first_steps_of_uncertain_regressors():
    cov = np.arange(36.0).reshape(6, 6)
    first = Future(np.arange(9.0).reshape(3, 3), cov).first(2)
    np.testing.assert_array_equal(first.exog, [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    np.testing.assert_array_equal(first.exog_cov, cov[:4, :4])
