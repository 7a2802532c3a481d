r"""Five standard models to compare with, each with the joint covariance of its steps.

They fit, forecast, update and apply as a `Forecaster` does, so that they run in
``backtest(compare={"ets": baselines.ETS()})`` on the same folds. Parameters are estimated by
statsmodels and then treated as known, as is usual: no interval holds their estimation error. Where
a step's error is a sum of one-step errors, :math:`\sum_j \psi_j e_{t-j}`, their covariance is

.. math:: \Sigma = \Psi D \Psi^\top

with the weights in the lower Toeplitz matrix :math:`\Psi` and the variances of the one-step errors
in the diagonal :math:`D`.
"""

from forecast_unc.evaluation.baselines.classic import AutoReg, SeasonalNaive, Theta
from forecast_unc.evaluation.baselines.ets import ETS
from forecast_unc.evaluation.baselines.sarimax import SARIMAX

__all__ = ["ETS", "SARIMAX", "AutoReg", "SeasonalNaive", "Theta"]
