"""What is left of a forecast once some of it is known."""

from __future__ import annotations

from typing import Self

import numpy as np
import pandas as pd

from forecast_unc.distributions.aggregated import Aggregated
from forecast_unc.distributions.checked import check_positive
from forecast_unc.distributions.mirrored import Mirrored
from forecast_unc.distributions.steps import time_label
from forecast_unc.series.values import numeric_values


class Conditioned(Aggregated):
    """Steps of which some may be observed."""

    __slots__ = ()

    def condition(self, observed: pd.Series[float]) -> Self:
        r"""Return the forecast of the remaining steps once some values are known.

        .. math:: B z_o, \quad R_{rr} - B R_{or}, \quad B = R_{ro} R_{oo}^{-1}

        are the mean and covariance of the remaining normal scores z, given those observed; of
        normal steps z is (y - mean) / std.

        The model is not refitted: this is what the forecast itself implies. How much of the
        variance that is left comes from noise, function or inputs is not defined, so the result has
        no :meth:`decompose`; nor has it :attr:`paths`, since none goes through the values.

        Parameters
        ----------
        observed : Series
            Values at some of the forecast's times, in any order, in units of y.

        Returns
        -------
        Forecast
            The steps that were not observed.

        Raises
        ------
        TypeError
            If ``observed`` is not a Series.
        ValueError
            If a time is not one of the forecast's or occurs twice, a value is not finite, no step
            is left, the forecast gives a value no density (a negative one after a log), or the
            observed steps determine each other under the joint distribution.
        """
        values = numeric_values(observed, "observed")
        at = self._index.get_indexer(observed.index)
        for wrong, rule, got, remedy in (
            (at < 0, "lie at the forecast's times", "", f"They are {self!r}."),
            (observed.index.duplicated(), "hold each time once", " twice", "Keep one value."),
            (~np.isfinite(values), "be finite", " not finite", "Leave out what is not known."),
        ):
            if wrong.any():
                first = observed.index[int(wrong.argmax())]
                raise ValueError(f"observed must {rule}; got {first}{got}. {remedy}")
        rest = np.setdiff1d(np.arange(len(self)), at)
        if rest.size == 0:
            raise ValueError(
                f"observed must leave a step to forecast; got all {len(self)}. Leave one out."
            )
        if not at.size:
            return self
        if isinstance(self._marginals, Mirrored):
            return -(-self).condition(-observed)
        cor = self._cor[np.ix_(at, at)]
        eigenvalues = np.linalg.eigvalsh(cor)
        # Beyond 1e12 the coefficients would keep fewer than four digits.
        if eigenvalues[0] < 1e-12 * eigenvalues[-1]:
            raise ValueError(
                "observed must hold steps that do not determine each other; got correlations "
                f"with eigenvalues from {eigenvalues[0]:.3g} to {eigenvalues[-1]:.3g}. "
                "Leave some of them out."
            )
        known = self._marginals.picked(at)
        z = known.normal_score(values)
        wrong = ~np.isfinite(known.nlpd(values)) | known.atom(values)
        if wrong.any():
            first = int(wrong.argmax())
            raise ValueError(
                f"observed must hold values of positive density; got {values[first]:g} at "
                f"{observed.index[first]}, which the forecast excludes or lumps together. "
                "Leave it out."
            )
        cross = self._cor[np.ix_(rest, at)]
        gain = np.linalg.solve(cor, cross.T).T
        left = self._cor[np.ix_(rest, rest)] - gain @ cross.T
        left = 0.5 * (left + left.T)  # the product is symmetric but for roundoff
        index = self._index.delete(np.sort(at))
        if self._mixture is not None:
            known_now = self._mixture.conditioned(at, values, rest)
            free = type(self)(
                index, known_now.mean, known_now.cov, name=self._name, mixture=known_now
            )
            return free._bounded(self._marginals.lower[rest])
        check_positive(left, lambda at: time_label(index, at))
        std = np.sqrt(left.diagonal())
        marginals = self._marginals.picked(rest).conditioned(gain @ z, std)
        return self._of(index, marginals, left / np.outer(std, std), self._name)
