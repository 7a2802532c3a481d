"""How sure are we about this series, k steps ahead?

`import forecast_unc` takes milliseconds: each public name is imported where it is first asked for.
"""

from pkgutil import resolve_name

from forecast_unc._version import __version__

_HOMES = {
    "Combination": "forecast_unc.forecasting.combination",
    "Forecast": "forecast_unc.distributions.forecast",
    "Forecaster": "forecast_unc.forecasting.forecaster",
    "GPRegressor": "forecast_unc.regression.gp",
    "LinearRegressor": "forecast_unc.regression.linear",
    "RVMClassifier": "forecast_unc.regression.rvm.rvm_classifier",
    "RVMRegressor": "forecast_unc.regression.rvm.rvm",
    "ReducedRankGPRegressor": "forecast_unc.regression.reduced_rank.reduced_rank",
    "backtest": "forecast_unc.evaluation.backtest",
    "backtest_panel": "forecast_unc.panels.panel_backtest",
    "baselines": "forecast_unc.evaluation",
    "datasets": "forecast_unc",
    "forecast_panel": "forecast_unc.panels.panel_forecast",
    "load_model": "forecast_unc.forecasting.combination",
    "plot": "forecast_unc",
    "scores": "forecast_unc.distributions",
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = resolve_name(f"{_HOMES[name]}.{name}")
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
