"""What a choice among rules is worth on other series: nested cross-validation over series.

    python examples/benchmarks/nested.py --scores quarterly.csv monthly.csv

The scores are outputs of choose.py: a line for each set, series, window and rule that is not the
default there. Lower is better. Rules are compared with the default, paired by series, and each set
has one vote however many series it has.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

DEFAULT, DECIDES, COVERAGE = "default", "quantile loss", "coverage"
KEY = ["set", "unique_id"]
SURE = 2.0  # standard errors that a gain has to exceed
SEED = 0  # of the folds


def by_series(lines: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Means over windows (series, rules x scores), and which series each rule changes.

    Lines hold set, unique_id, window, rule and scores. Where a rule has none it is the default.
    """
    parts = {
        rule: part.set_index([*KEY, "window"]).drop(columns="rule")
        for rule, part in lines.groupby("rule", sort=False)
    }
    wide = pd.concat(parts, axis=1)
    filled = pd.concat({rule: wide[rule].fillna(wide[DEFAULT]) for rule in parts}, axis=1)
    changed = pd.DataFrame({rule: wide[rule].notna().any(axis=1) for rule in parts})
    return filled.groupby(level=KEY).mean(), changed.groupby(level=KEY).any()


class Change(NamedTuple):
    """A change in percent, and its standard error."""

    value: float
    error: float

    def gain(self, sure: float = SURE) -> bool:
        return -self.value > sure * self.error

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
        with np.errstate(invalid="ignore"):  # a loss that is infinite has no error
            ratio = r.mean() / d.mean()
            values = np.log(r / d) if logarithms else (r - ratio * d) / d.mean()
            found.append((values.mean() if logarithms else ratio - 1, values.sem()))
    values, errors = 100 * np.array(found).T
    return Change(values.mean(), float(np.hypot.reduce(errors)) / len(errors))


def chosen(losses: pd.DataFrame, sure: float = SURE) -> str:
    """The rule with the lowest loss if its gain over the default is sure, else the default."""
    changes = {rule: change(losses[rule], losses[DEFAULT]) for rule in losses}
    best = min(changes, key=lambda rule: changes[rule].value)
    return best if changes[best].gain(sure) else DEFAULT


def folds_of(index: pd.MultiIndex, folds: int) -> np.ndarray:
    """The fold of each series (n,), at random; as many of each set in one as in another."""
    order = pd.Series(np.random.default_rng(SEED).permutation(len(index)), index=index)
    return order.groupby(level="set").rank().to_numpy(int) % folds


def nested(
    losses: pd.DataFrame, fold: np.ndarray, sure: float = SURE
) -> tuple[list[str], pd.Series]:
    """The rule chosen without each fold, and the loss of each series by that of its fold."""
    rules = [chosen(losses[fold != k], sure) for k in range(fold.max() + 1)]
    reserve = pd.concat([losses.loc[fold == k, rule] for k, rule in enumerate(rules)])
    return rules, reserve[losses.index]


# --- the text


def table(means: pd.DataFrame, changed: pd.DataFrame, drop: bool, sure: float) -> str:
    """A line for each rule that changes a series, the best first: mean scores, changes in percent.

    Parameters
    ----------
    means : DataFrame
        Columns (rule, score).
    changed : DataFrame
        Whether a rule takes other members than the default somewhere in a series.
    drop : bool
        Whether to leave out the rules whose gain is not sure.
    sure : float
        Standard errors.
    """
    gains = {rule: change(means[rule][DECIDES], means[DEFAULT][DECIDES]) for rule in changed}
    lines = []
    for rule in sorted(gains, key=lambda rule: (rule != DEFAULT, gains[rule].value)):
        shown = gains[rule].gain(sure) if drop else changed[rule].any()
        if rule != DEFAULT and not shown:
            continue
        own, default = means[rule], means[DEFAULT]
        line: dict[str, object] = {"rule": rule, "series": int(changed[rule].sum())}
        line |= own.groupby(level="set").mean().mean()
        for score in (score for score in own if rule != DEFAULT and score != COVERAGE):
            line[f"{score} %"] = str(change(own[score], default[score]))
            line[f"log {score} %"] = str(change(own[score], default[score], logarithms=True))
        lines.append(line)
    return pd.DataFrame(lines).fillna("").to_string(index=False, float_format="{:.3f}".format)


def choice(losses: pd.DataFrame, folds: int, sure: float) -> str:
    """What the rule chosen on all series gains there, and what the choice gains in reserve."""
    best = chosen(losses, sure)
    rules, reserve = nested(losses, folds_of(losses.index, folds), sure)
    results = {
        "default": losses[DEFAULT],
        f"chosen on all series, {best}": losses[best],
        f"in reserve, {folds} folds": reserve,
    }
    lines = [DECIDES]
    for name, loss in results.items():
        mean = loss.groupby(level="set").mean().mean()
        lines.append(f"{name}: {mean:.4f}, {change(loss, losses[DEFAULT])} %")
    on, held = (change(loss, losses[DEFAULT]).value for loss in (losses[best], reserve))
    lines.append(
        f"gap from chosen on to in reserve: {100 * ((100 + held) / (100 + on) - 1):+.2f} %"
    )
    counts = pd.Series(rules).value_counts()
    return "\n".join([*lines, *(f"chosen in {n} of {folds}: {rule}" for rule, n in counts.items())])


def report(lines: pd.DataFrame, folds: int, sure: float, drop: bool) -> str:
    """The tables of each set and of all, and the choice.

    Parameters
    ----------
    lines : DataFrame
        As for `by_series`.
    folds : int
        Of the cross-validation.
    sure : float
        Standard errors that a gain has to exceed.
    drop : bool
        Whether tables have the rules alone whose gain is sure.
    """
    means, changed = by_series(lines)
    counts = means.groupby(level="set").size()
    if not 2 <= folds <= counts.min():
        raise SystemExit(
            f"--folds must be from 2 to the series of each set; got {folds}, and {counts.idxmin()} "
            f"has {counts.min()}. Give more series, or leave this set out."
        )
    parts = dict(list(means.groupby(level="set")))
    texts = [
        f"{name}\n{table(part, changed.loc[part.index], drop, sure)}"
        for name, part in (parts if len(parts) == 1 else parts | {"all": means}).items()
    ]
    return "\n\n".join([*texts, choice(means.xs(DECIDES, axis=1, level=1), folds, sure)])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the report can be told."""
    parser.add_argument("--folds", type=int, default=5, help="of the nested cross-validation")
    parser.add_argument(
        "--sure", type=float, default=SURE, help="standard errors that a gain has to exceed"
    )
    parser.add_argument("--drop", action="store_true", help="show only rules whose gain is sure")


def main() -> None:
    """Read scores, print how the choice holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scores", type=Path, nargs="+", required=True, help="CSV files")
    add_arguments(parser)
    arguments = parser.parse_args()
    parts = [pd.read_csv(path, dtype={"unique_id": str}) for path in arguments.scores]
    print(report(pd.concat(parts), arguments.folds, arguments.sure, arguments.drop))


if __name__ == "__main__":
    main()
