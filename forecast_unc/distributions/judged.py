"""Where the variance of a forecast comes from, and how good the forecast is."""

from __future__ import annotations

from typing import Self

import numpy as np
import pandas as pd

from forecast_unc._checks import check_whole
from forecast_unc._random import RandomState, one_seed
from forecast_unc.distributions import scores
from forecast_unc.distributions.check import Check, from_moments, from_scores
from forecast_unc.distributions.parts import of_kinds, variances
from forecast_unc.distributions.questions import Questions


class Judged(Questions):
    """Steps that can be checked, scored and decomposed."""

    __slots__ = ()

    def decompose(self, *, by_kind: bool = False) -> pd.DataFrame:
        r"""Return where the variance of each step comes from.

        Each value is :math:`y_t = a_t \cdot z + e_t + \varepsilon_t`, to first order: its inputs z
        (earlier values and regressors) passed on by the mean slope of the function, the error e of
        the function at the mean inputs, and noise. The parts of its variance are

        - ``noise``: :math:`\mathrm{Var}\,\varepsilon_t`, the noise of the step itself;
        - ``noise_observation``: of the error of its observation, which no later step has;
        - ``function_own``: :math:`\mathrm{Var}\,e_t`, the posterior variance of the function;
        - ``function_shared``: :math:`2\,\mathrm{Cov}(e_t, a_t \cdot z)`, as it is one and the same
          function that brought the inputs about; negative if the errors compensate;
        - ``inputs_propagated``: of :math:`a_t \cdot z`, what noise and function of earlier steps
          brought into it;
        - ``inputs_missing``: of missing or noisy values before the first step, through all steps;
        - ``inputs_regressors``: of uncertain regressors, through all steps;
        - ``inputs_nonlinear``: the rest, by which the step's variance differs from that of this
          linear recursion, as the function and its variance change over the uncertain inputs; may
          be negative;
        - ``hyperparameters``: of a mixture over hyper-parameters that are not known, the variance
          of its means; the other parts are averaged over it;
        - ``members``: of an average, what its variance is less than the average variance of its
          members. Averaging quantiles averages stds: never positive, and 0 if the members are
          equally wide, wherever they lie;
        - ``calibration``: what rescaling added.

        After a transform the parts have the shares that they have of the variance on its scale; in
        a sum over such steps the curvature of the transform is in ``inputs_nonlinear``. Parts of
        a sum contain the covariances between its steps: of ``function_shared`` that of the error at
        a step with the earlier values, of ``inputs_propagated`` that of the inputs with these.

        Parameters
        ----------
        by_kind : bool, default=False
            Add up the parts of a kind: columns ``noise``, ``function``, ``inputs``,
            ``hyperparameters``, ``members`` and ``calibration``.

        Returns
        -------
        DataFrame
            One column a part, in squared units of y, those that do not apply zero. They add up
            to the variance.

        Raises
        ------
        ValueError
            If the forecast was made without its parts, by :meth:`condition`, or is a maximum or
            minimum.
        """
        if self._parts is None:
            raise ValueError(
                "decompose must be called on a forecast that knows its parts; got none. "
                "Build it with parts; a forecast by a regressor that predicts "
                "a std alone, a maximum, or what is left after `condition` has no such split."
            )
        parts = variances(self._parts, self._cov)
        return pd.DataFrame(of_kinds(parts) if by_kind else parts, index=self.index)

    def check(self, n_samples: int = 500, random_state: RandomState = None) -> Check:
        """Compare with sample paths of the same model, each of one function.

        The paths are those of ``propagation="monte_carlo"`` with ``path_consistent=True``: free of
        the joint Gaussian that closed forms keep to, up to their sampling error.

        Parameters
        ----------
        n_samples : int, default=500
            Paths, from 100. More find smaller errors, and take longer: 500 see 20 % of a std.
        random_state : int, Generator or None, optional
            An int gives the same paths, hence the same verdict, every time.

        Returns
        -------
        Check
            Errors of mean and std in Monte Carlo errors, the shape of the paths and a verdict. An
            average is compared with that of its members, each with the moments of its own paths,
            and lists their verdicts; its shape is the weighted one of theirs. Of a calibrated
            forecast it is that of the bands before.

        Raises
        ------
        ValueError
            If ``n_samples`` is not a whole number from 100, the forecast does not know its model
            (one built by hand, after :meth:`condition`, a maximum or minimum, or an aggregate of an
            average), or a path diverges.
        """
        check_whole("n_samples", n_samples, 100, "500 is a good start.")
        return self._checked(n_samples, one_seed(random_state))[0]

    def score(self, actual: pd.Series[float], coverage: float = 0.95) -> pd.DataFrame:
        """Score each step against what happened.

        Parameters
        ----------
        actual : Series
            What happened, in units of y, at the forecast's times and perhaps others. NaN is
            taken as not observed.
        coverage : float, default=0.95
            Coverage of the interval that is scored, in (0, 1).

        Returns
        -------
        DataFrame
            One row a step: ``error`` (actual - mean), ``crps``, ``nlpd``, ``interval_score`` and
            ``pit``, as in the module ``scores``; NaN where ``actual`` is. Where the forecast
            excludes a value, as a log does zero, ``nlpd`` is inf; at a zero of positive
            probability it is minus the log of that.

        Raises
        ------
        TypeError
            If ``actual`` is not a Series.
        ValueError
            If ``actual`` lacks one of the forecast's times or has one twice.
        """
        y = self._at_steps("actual", actual)
        if self._marginals.normal:
            normal = y, self._mean, self._std
            crps, nlpd, pit = scores.crps(*normal), scores.nlpd(*normal), scores.pit(*normal)
        else:
            steps = self._marginals
            crps, nlpd, pit = steps.crps(y), steps.nlpd(y), steps.pit(y)
        band = self.interval(coverage)
        return pd.DataFrame(
            {
                "error": y - self._mean,
                "crps": crps,
                "nlpd": nlpd,
                "interval_score": scores.interval_score(y, band["lower"], band["upper"], coverage),
                "pit": pit,
            },
            index=self.index,
        )

    def energy_score(
        self,
        actual: pd.Series[float],
        n_samples: int = 1000,
        random_state: int | np.random.Generator | None = None,
    ) -> float:
        """Score all steps at once, correlation included; lower is better.

        Parameters
        ----------
        actual : Series
            What happened, in units of y, at the forecast's times and perhaps others.
        n_samples : int, default=1000
            Paths drawn, or all :attr:`paths` if there are fewer; the time grows with their square.
        random_state : int, Generator or None, optional
            An int gives the same paths, hence the same score, every time.

        Returns
        -------
        float
            :func:`scores.energy_score` of the paths, in units of y; NaN if ``actual`` is NaN
            at a step.

        Raises
        ------
        TypeError
            If ``actual`` is not a Series.
        ValueError
            If ``actual`` lacks one of the forecast's times or has one twice, or no paths can be
            drawn.
        """
        check_whole("n_samples", n_samples, 2, "1000 is a good start.")
        if self._paths is not None:
            n_samples = min(n_samples, self._paths.shape[1])
        y = self._at_steps("actual", actual)
        return scores.energy_score(y, self.sample(n_samples, random_state).to_numpy().T)

    def _checked(self, n_samples: int, seed: int | None) -> tuple[Check, Self]:
        """The check, and this forecast with the moments of its paths."""
        before = self._uncalibrated()
        if before is not self:
            return before._checked(n_samples, seed)
        labels = [self._label(at) for at in range(len(self))]
        if self._averaged:
            return self._checked_average(labels, n_samples, seed)
        if self._sampler is None:
            raise ValueError(
                "check must be called on a forecast that knows its model; got one that does not. "
                "Check what Forecaster.forecast returns: a forecast built by hand, what is left "
                "after `condition`, a maximum or the aggregate of an average have no sample paths."
            )
        (component,) = self._marginals.components
        scores = self._marginals.latent_scores(self._sampler(n_samples, seed))
        check = from_scores(labels, scores, component.std, self._cor, _one_name(self._propagation))
        std = scores.std(axis=0)
        marginals = self._marginals.conditioned(scores.mean(axis=0), std)
        cor = np.atleast_2d(np.cov(scores, rowvar=False, bias=True)) / np.outer(std, std)
        return check, self._of(self._index, marginals, cor, self._name)

    def _checked_average(
        self, labels: list[str], n_samples: int, seed: int | None
    ) -> tuple[Check, Self]:
        """The same of an average: that of its members, with the moments of their paths."""
        checks, sampled = zip(
            *(member._checked(n_samples, seed) for member, _ in self._averaged), strict=True
        )
        weights = np.array([w for _, w in self._averaged])
        average = self.average(sampled, weights)
        shares = np.zeros_like(weights)
        for row, (member, weight) in zip(shares, self._averaged, strict=True):
            row[: len(member)] = weight[: len(member)] * member._spread()[1]
        shares /= shares.sum(axis=0)
        kind = _one_name(self._propagation)
        both = (*self._spread(), self._cor), (*average._spread(), average._cor)
        return from_moments(labels, *both, checks, shares, kind), average


def _one_name(propagation: str | tuple[str, ...] | None) -> str:
    """The name for a verdict; of several, that of the most costly."""
    names = propagation if isinstance(propagation, tuple) else (propagation or "exact",)
    costly = [name for name in ("monte_carlo", "mixture") if name in names]
    return costly[0] if costly else names[0]
