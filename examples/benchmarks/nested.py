"""What a choice among rules is worth on other series: nested cross-validation over series.

Scores are frames of a line a series, by (set, unique_id), and of a column for each rule; lower is
better. Differences are paired by series, and each set has one vote however many series it has.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

DEFAULT = "default"
KEY = ["set", "unique_id"]
SURE = 2.0  # standard errors that a gain has to exceed
SEED = 0  # of the folds


class Change(NamedTuple):
    """A change in percent, and its standard error."""

    value: float
    error: float

    @property
    def gain(self) -> bool:
        return -self.value > SURE * self.error

    def __str__(self) -> str:
        return f"{self.value:+.2f} ± {self.error:.2f}"


def change(loss: pd.Series, default: pd.Series, *, logarithms: bool = False) -> Change:
    """Change of the mean loss against the default's, the mean over sets.

    With means r and d of a set, r / d has the variance of the mean of (r_i - r / d d_i) / d.
    In logarithms it is the mean of log(r_i / d_i).
    """
    found = []
    for _, d in default.groupby(level="set"):
        r = loss[d.index]
        if logarithms:
            values = np.log(r / d)
            found.append((values.mean(), values.sem()))
        else:
            ratio = r.mean() / d.mean()
            found.append((ratio - 1, (r - ratio * d).sem() / d.mean()))
    values, errors = 100 * np.array(found).T
    return Change(values.mean(), float(np.hypot.reduce(errors)) / len(errors))


def chosen(losses: pd.DataFrame) -> str:
    """The rule with the lowest loss if its gain over the default is sure, else the default."""
    changes = {rule: change(losses[rule], losses[DEFAULT]) for rule in losses}
    best = min(changes, key=lambda rule: changes[rule].value)
    return best if changes[best].gain else DEFAULT


def folds_of(index: pd.MultiIndex, folds: int) -> np.ndarray:
    """The fold of each series (n,), at random; as many of each set in one as in another."""
    order = pd.Series(np.random.default_rng(SEED).permutation(len(index)), index=index)
    return order.groupby(level="set").rank().to_numpy(int) % folds


def nested(losses: pd.DataFrame, fold: np.ndarray) -> tuple[list[str], pd.Series]:
    """The rule chosen without each fold, and the loss of each series by that of its fold."""
    rules = [chosen(losses[fold != k]) for k in range(fold.max() + 1)]
    reserve = pd.concat([losses.loc[fold == k, rule] for k, rule in enumerate(rules)])
    return rules, reserve[losses.index]


def table(means: pd.DataFrame, changes: pd.DataFrame, decides: str, drop: bool) -> pd.DataFrame:
    """A line for each rule: in how many series it is not the default, mean scores, changes.

    Parameters
    ----------
    means : DataFrame
        Columns (rule, score); the score "coverage" has no better or worse.
    changes : DataFrame
        Whether a rule takes other members than the default somewhere in a series.
    decides : str
        The score whose gain decides.
    drop : bool
        Whether to leave out the rules whose gain is not sure.
    """
    gains = {rule: change(means[rule][decides], means[DEFAULT][decides]) for rule in changes}
    lines = []
    for rule in sorted(gains, key=lambda rule: (rule != DEFAULT, gains[rule].value)):
        if drop and rule != DEFAULT and not gains[rule].gain:
            continue
        own, default = means[rule], means[DEFAULT]
        line: dict[str, object] = {"rule": rule, "series": int(changes[rule].sum())}
        line |= own.groupby(level="set").mean().mean()
        for score in (score for score in own if rule != DEFAULT and score != "coverage"):
            line[f"{score} %"] = str(change(own[score], default[score]))
            line[f"log {score} %"] = str(change(own[score], default[score], logarithms=True))
        lines.append(line)
    return pd.DataFrame(lines).fillna("")


def report(losses: pd.DataFrame, folds: int) -> str:
    """What the rule chosen on all series gains there, and what the choice gains in reserve."""
    best = chosen(losses)
    rules, reserve = nested(losses, folds_of(losses.index, folds))
    lines = []
    results = {
        "default": losses[DEFAULT],
        f"chosen on all series, {best}": losses[best],
        f"in reserve, {folds} folds": reserve,
    }
    for name, loss in results.items():
        mean = loss.groupby(level="set").mean().mean()
        lines.append(f"{name}: {mean:.4f}, {change(loss, losses[DEFAULT])} %")
    on, held = (change(loss, losses[DEFAULT]).value for loss in (losses[best], reserve))
    lines.append(
        f"gap from chosen on to in reserve: {100 * ((100 + held) / (100 + on) - 1):+.2f} %"
    )
    counts = pd.Series(rules).value_counts()
    return "\n".join([*lines, *(f"chosen in {n} of {folds}: {rule}" for rule, n in counts.items())])
