r"""Exponential smoothing with what is unknown drawn afresh at each step: the classic recursion.

Of a node with variance s^2 the next values are, with the impulses Psi, innovations e and a start
whose error adds F u, u ~ N(0, s^2 I),

.. math:: y = \mu + \Psi e + F u, \qquad
    y = \mu + (I - \Psi^{-1}) (y - \mu) + \Psi^{-1} F u + e.

The second form predicts each value from those before it, and :math:`\Psi^{-1} F u` is the error of
these predictions: of the function. Path consistency has one u and one node at all steps. Here, as
in Girard et al. 2003, both are drawn afresh at each step, and each value enters the next ones.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from forecast_unc._random import RandomState, generator
from forecast_unc._typing import Array
from forecast_unc.distributions.parts import Deferred
from forecast_unc.forecasting.propagation import Joint


class OneStep(NamedTuple):
    """Predictions of each value from those before it, by K nodes."""

    probability: Array  # (K,)
    center: Array  # (h,), what the values are measured from
    constant: Array  # (K, h)
    slopes: Array  # (K, h, h), of each value in those before it
    noise_var: Array  # (K,)
    function_var: Array  # (K, h)

    def joint(self) -> Joint:
        """Joint mean and covariance of the values.

        Returns
        -------
        Joint
            Parts: the innovation (noise), the start (function_own) and the nodes (hyperparameters)
            at the step itself, and all that of those before it (inputs_propagated).
        """
        p, h = self.probability, len(self.center)
        slope = np.tensordot(p, self.slopes, axes=1)
        mean, between, cov = np.zeros(h), np.zeros(h), np.zeros((h, h))
        own, noise = p @ self.function_var, float(p @ self.noise_var)
        for t in range(h):
            each = self.constant[:, t] + self.slopes[:, t, :t] @ mean[:t]
            mean[t] = p @ each
            other = self.slopes[:, t, :t] - slope[t, :t]
            spread = np.einsum("ki,ij,kj->k", other, cov[:t, :t], other, optimize=True)
            between[t] = p @ ((each - mean[t]) ** 2 + spread)
            cov[t, :t] = cov[:t, t] = cov[:t, :t] @ slope[t, :t]
            cov[t, t] = slope[t, :t] @ cov[:t, t] + noise + own[t] + between[t]
        fresh = {
            "noise": noise * np.eye(h),
            "function_own": np.diag(own),
            "hyperparameters": np.diag(between),
        }
        parts = {**fresh, "inputs_propagated": cov - sum(fresh.values())}
        return Joint(self.center + mean, cov, Deferred(partial(dict, parts)))

    def sample(self, n_samples: int, random_state: RandomState) -> Array:
        """Paths of the values.

        Parameters
        ----------
        n_samples : int
            Their number.
        random_state : int, Generator or None
            The seed.

        Returns
        -------
        ndarray of shape (n_samples, h)
        """
        rng, paths = generator(random_state), np.zeros((n_samples, len(self.center)))
        std = np.sqrt(self.noise_var[:, None] + self.function_var)
        for t in range(len(self.center)):
            node = rng.choice(len(self.probability), size=n_samples, p=self.probability)
            mean = self.constant[:, t] + paths[:, :t] @ self.slopes[:, t, :t].T  # (n, K)
            chosen = mean[np.arange(n_samples), node]
            paths[:, t] = chosen + std[node, t] * rng.standard_normal(n_samples)
        return self.center + paths


def one_step(weights: Array, variance: Array, means: Array, factor: Array, psi: Array) -> OneStep:
    """Predictions of each value from those before it.

    Parameters
    ----------
    weights, variance : ndarray of shape (K,)
        Probabilities of the nodes, and variances of their innovations.
    means : ndarray of shape (K, h)
        Means of the values.
    factor : ndarray of shape (K, h, c)
        F: what the error of the start adds, in units of the std of an innovation.
    psi : ndarray of shape (K, h, h)
        Impulses: effects of the innovations.

    Returns
    -------
    OneStep
    """
    inverse = np.linalg.inv(psi)
    center = weights @ means
    constant = np.einsum("kts,ks->kt", inverse, means - center)
    function_var = variance[:, None] * ((inverse @ factor) ** 2).sum(axis=2)
    slopes = np.eye(len(center)) - inverse
    return OneStep(weights, center, constant, slopes, variance, function_var)
