"""Learning the priors of a kind of series from many of them: empirical Bayes in two passes.

First the linear part, in closed form from the training rows alone; then every series is fitted
under it, once, and the modes and curvatures of the log hyper-parameters give theirs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from tqdm.auto import tqdm

from forecast_unc._checks import check_jobs
from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array
from forecast_unc.forecasting.arguments import Arguments
from forecast_unc.forecasting.forecaster import Forecaster
from forecast_unc.forecasting.model import FittedModel, training_rows
from forecast_unc.forecasting.pooled_prior import PooledPrior
from forecast_unc.forecasting.resolution import resolve
from forecast_unc.forecasting.specification import Specification
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.learned_prior import (
    LEAST_SETS,
    LearnedPrior,
    LinearRows,
    learned_prior,
    linear_rows,
)
from forecast_unc.series.history import History


class _Seen(NamedTuple):
    """What one series says of the linear part of one kind of specification."""

    base: Any
    pooled: NDArray[np.bool_]  # (d,)
    rows: LinearRows


def learn_prior(
    series: Iterable[pd.Series],
    forecaster: Forecaster | None = None,
    *,
    n_jobs: int | None = None,
    progress: bool = False,
) -> PooledPrior:
    """Priors for the models of a kind of series, learned from many of that kind.

    For each specification that the forecaster takes for 30 of them or more: means of the linear
    weights of the lags, mean and spread of the drift of a random walk, and medians and spreads of
    the log hyper-parameters (empirical Bayes). A new series of the kind is then expected to be like
    the others until its own values say otherwise: ``Forecaster(prior=prior)``.

    Parameters
    ----------
    series : iterable of Series
        Series of one kind and frequency, each as for `Forecaster.fit`. Those that cannot be fitted
        are left out.
    forecaster : Forecaster, optional
        Whose default regressors the prior is for: not fitted here, and without a `regressor` of its
        own. By default the automatic choice.
    n_jobs : int, optional
        Jobs, as in joblib; BLAS runs on one thread.
    progress : bool, default=False
        Show a progress bar.

    Returns
    -------
    PooledPrior

    Raises
    ------
    TypeError, ValueError
        If an argument is not what it must be, or fewer than 30 series are alike.

    Notes
    -----
    Whether it helps is a question to the panel: series that live through the same years share
    shocks, which the prior takes for usual. Compare by `backtest_panel`, at several origins.
    """
    forecaster = Forecaster() if forecaster is None else forecaster
    check_poolable(forecaster)
    check_jobs(n_jobs)
    if isinstance(series, (pd.Series, pd.DataFrame, Mapping)):
        raise TypeError(
            f"series must be a list of Series; got {type(series).__name__}. For a long frame use "
            "[y for _, y in frame.set_index(times).groupby(ids)[target]], or forecast_panel(pool=)."
        )
    histories = []
    for i, y in enumerate(series):
        try:
            histories.append(History.checked(y))
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"series must hold series as for Forecaster.fit; got one at position {i} of which: "
                f"{error}"
            ) from error
    return learned_from(histories, forecaster, n_jobs, progress)


def check_poolable(forecaster: object) -> None:
    """Raise unless a forecaster has regressors whose prior can be learned.

    Parameters
    ----------
    forecaster : object
        The argument.
    """
    if not isinstance(forecaster, Forecaster):
        raise TypeError(
            f"forecaster must be a Forecaster; got {type(forecaster).__name__}. Only its default "
            "regressors have a prior that can be learned."
        )
    if forecaster.regressor is not None or forecaster.noise != "process":
        raise ValueError(
            "forecaster must have the default regressor and noise='process' for a learned prior; "
            f"got {forecaster!r}. Leave both out."
        )
    if forecaster.prior is not None:
        raise ValueError(
            "forecaster must have no prior where one is learned or given; got "
            f"{forecaster.prior!r}. Leave it out."
        )


def learned_from(
    histories: Sequence[History], forecaster: Forecaster, n_jobs: int | None, progress: bool
) -> PooledPrior:
    """The priors from checked series, with or without regressors.

    Parameters
    ----------
    histories : sequence of History
        Of one kind.
    forecaster : Forecaster
        Whose regressors the prior is for.
    n_jobs, progress
        As of :func:`learn_prior`.

    Returns
    -------
    PooledPrior
    """
    plain = clone(forecaster).set_params(prior=None)
    arguments = Arguments(**plain.get_params(deep=False))
    arguments.check()
    histories = [arguments.without_outliers(history) for history in histories]
    run = partial(_each, n_jobs=n_jobs, progress=progress)
    seen = run(_linear, plain, histories)
    kinds = {
        kind: learned_prior(sets[0].base, [one.rows for one in sets], sets[0].pooled)
        for kind, sets in _by_kind(seen).items()
    }
    if not kinds:
        most = Counter(kind for one in seen for kind in one).most_common(1)
        raise ValueError(
            f"series must hold {LEAST_SETS} or more with the same specification; got "
            f"{len(histories)} series, and {most[0][1] if most else 0} with the most frequent one. "
            "Constant and too short ones do not count. Give more, or do not pool."
        )
    modes = run(_modes, plain.set_params(prior=PooledPrior(kinds, len(histories))), histories)
    for kind, found in _by_kind(modes).items():
        if kind in kinds:
            mode, var = (np.array(column) for column in zip(*found, strict=True))
            kinds[kind] = kinds[kind].sharpened(mode, var)
    return PooledPrior(kinds, sum(bool(one) for one in seen))


def _each(
    job: Any,
    forecaster: Forecaster,
    histories: Sequence[History],
    n_jobs: int | None,
    progress: bool,
) -> list[dict[str, Any]]:
    """What a job finds in each series."""
    tasks = (delayed(job)(forecaster, history) for history in histories)
    found = Parallel(n_jobs=n_jobs, return_as="generator")(tasks)
    return list(tqdm(found, total=len(histories), disable=not progress, desc=job.__name__[1:]))


def _by_kind(found: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """What was found of each kind of specification that is frequent enough."""
    kinds: dict[str, list[Any]] = defaultdict(list)
    for one in found:
        for kind, value in one.items():
            kinds[kind].append(value)
    return {kind: values for kind, values in kinds.items() if len(values) >= LEAST_SETS}


def _linear(forecaster: Forecaster, history: History) -> dict[str, _Seen]:
    """What a series says of linear weights and drift."""
    found: dict[str, _Seen] = {}
    for kind, one in _specifications(forecaster, history).items():
        regressor = one.regressor
        if not isinstance(regressor, GPRegressor):
            continue
        try:
            X, y = training_rows(one, history)
        except ValueError:
            continue
        pooled = one.pooled_weights(X.shape[1])
        rows = linear_rows(X, y, pooled, regressor.bias is not None)
        if rows.square > 0.0:
            found[kind] = _Seen(regressor.prior, pooled, rows)
    return found


def _modes(forecaster: Forecaster, history: History) -> dict[str, tuple[Array, Array]]:
    """Modes and variances of a series' log hyper-parameters."""
    found: dict[str, tuple[Array, Array]] = {}
    with blas_threads(0):
        for kind, one in _specifications(forecaster, history).items():
            if not isinstance(getattr(one.regressor, "prior", None), LearnedPrior):
                continue
            try:
                model = FittedModel.fit(one, history)
            except ValueError:
                continue
            if isinstance(model.regressor, GPRegressor):
                _, X, y = model.training_rows()
                found[kind] = model.regressor.log_hyperparameters(X, y)
    return found


def _specifications(forecaster: Forecaster, history: History) -> dict[str, Specification]:
    """The specifications of a series by kind: of several windows the first, which is the longest.

    None if there are none that suit it.
    """
    arguments = Arguments(**forecaster.get_params(deep=False))
    arguments.check()
    found: dict[str, Specification] = {}
    try:
        for one in resolve(arguments, history).specifications:
            if not isinstance(one, Specification):
                continue
            found.setdefault(one.kind(history.exog.shape[1]), one)
    except ValueError:
        return {}
    return found
