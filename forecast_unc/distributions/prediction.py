"""A joint distribution with how it was made: what models return, a forecast without its times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from forecast_unc._checks import first_true
from forecast_unc._notes import Note
from forecast_unc._typing import Array, Flags, Positions
from forecast_unc.distributions import average as averages
from forecast_unc.distributions.joint import Diverged, Joint
from forecast_unc.distributions.sums import linear


class Member(NamedTuple):
    """A member of an average, with its weights (h,) and its number in it, from 1."""

    prediction: Prediction
    weight: Array
    number: int


@dataclass(frozen=True, eq=False)
class Prediction:
    """The joint distribution of h steps, and how it was made. Immutable."""

    joint: Joint
    name: Any = None  # of the series
    propagation: str | tuple[str, ...] | None = None
    model: str | None = None  # as text
    members: tuple[Member, ...] = ()  # those with a weight at some step
    disagreement: bool = False  # whether what these disagree about is in the bands
    before: Prediction | None = None  # it without calibration, bounds and rounding
    aggregated: str | None = None  # what each step is, such as "maximum of 24 steps"
    notes: tuple[Note, ...] = ()  # remarks on what it was asked for

    def __len__(self) -> int:
        return len(self.joint)

    @property
    def propagations(self) -> tuple[str, ...]:
        """Each propagation; none if it is not known."""
        ways = self.propagation
        return ways if isinstance(ways, tuple) else tuple(filter(None, [ways]))

    @property
    def averaged(self) -> tuple[Member, ...]:
        """Members, as before calibration and bounds."""
        if self.members or self.before is None:
            return self.members
        return self.before.averaged

    def noted(self, more: tuple[Note, ...]) -> Prediction:
        """The prediction with more remarks."""
        return replace(self, notes=self.notes + more) if more else self

    def first(self, n: int) -> Prediction:
        """That of the first n steps, or of all if there are fewer."""
        return self if n >= len(self) else self.each(np.arange(n))

    def each(self, at: Positions, factor: float = 1.0, shift: float = 0.0) -> Prediction:
        """The prediction of ``factor * y + shift`` at some of the steps, and of each member."""
        members = tuple(  # some end before others
            Member(one.each(at[at < len(one)], factor, shift), weight[at], number)
            for one, weight, number in self.members
            if weight[at].any()
        )
        before = None if self.before is None else self.before.each(at, factor, shift)
        joint = self.joint.each(at, factor, shift)
        return replace(self, joint=joint, members=members, before=before)

    def at_zero(self, some: Flags) -> Prediction:
        """The prediction, and that of each member, with some steps (h,) certain to be 0."""
        if not some.any():
            return self
        members = tuple(
            one._replace(prediction=one.prediction.at_zero(some[: len(one.prediction)]))
            for one in self.members
        )
        before = None if self.before is None else self.before.at_zero(some)
        return replace(
            self,
            joint=self.joint.certain(some, np.zeros(len(self))),
            members=members,
            before=before,
        )

    def changed(self, joint: Joint) -> Prediction:
        """That of a calibrated, bounded or rounded joint: itself, if the joint is its own."""
        if joint is self.joint:
            return self
        return replace(self, joint=joint, members=(), disagreement=False, before=self)

    def uncalibrated(self) -> Prediction:
        """That of the bands before; of an average of calibrated ones that of those."""
        if self.before is not None:
            return self.before.uncalibrated()
        clean = [member.prediction.uncalibrated() for member in self.members]
        if all(own is one.prediction for own, one in zip(clean, self.members, strict=True)):
            return self
        _, weights, numbers = zip(*self.members, strict=True)
        return average(clean, np.array(weights), self.disagreement, numbers)

    def combined(self, matrix: Array) -> Prediction:
        """That of ``matrix @ y``, a check of which is of one model alone."""
        before = None if self.before is None else self.before.uncalibrated()
        if before is not None:
            before = None if before.joint.draw is None else before.combined(matrix)
        joint = linear(self.joint, matrix)
        return Prediction(joint, self.name, self.propagation, before=before)

    def checked(self, label: Callable[[int], str]) -> Prediction:
        """Itself, if each step has a finite, positive variance; else `Diverged`."""
        joint = self.joint
        finite, positive = np.isfinite(joint.mean), joint.q.certain | (joint.cov.diagonal() > 0)
        if finite.all() and positive.all() and np.isfinite(joint.cov).all():
            return self
        # Up to the diagonal: a step is not to blame for the covariance with a later one.
        finite &= np.isfinite(np.tril(joint.cov)).all(axis=1)
        if (at := first_true(~(finite & positive))) is not None:
            low, high = joint.q(np.array([[-2.0, 2.0]]))[at]
            got = f"none at {label(at)}, where 95 % of y lie from {low:.3g} to {high:.3g}"
            raise Diverged(
                "cov",
                "leave each step a positive, finite variance",
                got,
                "The transformed forecast has diverged, or is certain to be at its bound: ask for "
                "fewer steps, difference the transformed series, or use no transform or bound; if "
                "its values are this large, divide the series by a constant.",
                step=at + 1,
            )
        return self


class PastSteps(NamedTuple):
    """Predictions of some times of the past, each from the values before it."""

    places: Positions  # (k,), of the times in the series
    prediction: Prediction  # of the k times; only its marginals mean something
    known: Flags  # (k,), which of the times it holds for


def step_label(at: int) -> str:
    """Name of a step whose time is not known."""
    return f"step {at + 1}"


def average(
    members: Sequence[Prediction],
    weights: ArrayLike | None,
    disagreement: bool,
    numbers: Sequence[int],
    label: Callable[[int], str] = step_label,
) -> Prediction:
    """The average of quantiles, see `Forecast.average`; with one member that has weight, itself."""
    shares = averages.check_weights(weights, [len(own) for own in members], label)
    every = (Member(*one) for one in zip(members, shares, numbers, strict=True))
    used = tuple(member for member in every if member.weight.any())
    if len(used) == 1:
        return used[0].prediction
    longest = max(members, key=len)
    name = longest.name if all(own.name == longest.name for own in members) else None
    kinds = {own.aggregated for own in members}
    ways = {member.prediction.propagation for member in used}
    each = tuple(way for member in used for way in member.prediction.propagations or ("other",))
    joint = averages.average(
        [member.prediction.joint for member in used],
        np.array([member.weight for member in used]),
        disagreement,
    )
    way = ways.pop() if len(ways) == 1 else each
    made = Prediction(joint, name, way, members=used, disagreement=disagreement)
    notes = tuple(dict.fromkeys(note for own in members for note in own.notes))
    made = replace(made, aggregated=kinds.pop() if len(kinds) == 1 else None, notes=notes)
    return made.checked(label)
