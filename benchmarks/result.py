"""What a benchmark leaves: raw samples (NAME.json) and the figures computed from nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

UNSTABLE: Final = 0.15
"""Relative deviation of the rounds' ratios above which a figure is flagged."""

Seconds = Annotated[float, Field(gt=0)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class Samples(_Model):
    """Seconds per operation of one alternative, one value per round."""

    name: str
    seconds: Annotated[tuple[Seconds, ...], Field(min_length=2, strict=False)]

    @classmethod
    def of(cls, name: str, seconds: Sequence[float]) -> Samples:
        """Samples of four significant digits: ratios are computed from what is kept."""
        return cls(name=name, seconds=tuple(float(f"{value:.4g}") for value in seconds))

    @property
    def best(self) -> float:
        """The fastest round's seconds per operation."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """Median of the rounds."""
        return median(self.seconds)

    @property
    def mean(self) -> float:
        """Mean of the rounds."""
        return fmean(self.seconds)

    @property
    def deviation(self) -> float:
        """Standard deviation of the rounds."""
        return stdev(self.seconds)

    @property
    def unstable(self) -> bool:
        """Whether the rounds disagree too much to believe the time."""
        return self.deviation > UNSTABLE * self.mean


class Comparison(_Model):
    """A ratio to compute: how many times faster `subject` is than `baseline`.

    Attributes:
        at_least: the smallest ratio that the design needs, or None.
    """

    subject: str
    baseline: str
    at_least: float | None = None


class Ratio(_Model):
    """A ratio of two alternatives of a case.

    Attributes:
        best: the baseline's best round over the subject's.
        median: of the ratios within each round; `mean` and `deviation` are theirs, too.
    """

    comparison: Comparison
    best: float
    median: float
    mean: float
    deviation: float

    @property
    def unstable(self) -> bool:
        """Whether the rounds disagree too much to believe the figure."""
        return self.deviation > UNSTABLE * self.mean

    @property
    def missed(self) -> bool:
        """Whether the ratio is below what the design needs."""
        return self.comparison.at_least is not None and self.best < self.comparison.at_least

    @property
    def loses(self) -> bool:
        """Whether the baseline is faster where nothing was promised."""
        return self.comparison.at_least is None and self.best < 1


class Difference(_Model):
    """A difference to compute: what `subject` takes longer than `baseline`, in times of a third alternative.

    Attributes:
        unit: the alternative whose time it is counted in.
        at_most: how many of them the design allows.
    """

    subject: str
    baseline: str
    unit: str
    at_most: float


class Added(_Model):
    """A difference of two alternatives of a case; noise can make it too small, so no best round is taken.

    Attributes:
        median: of the differences within each round, seconds; `mean` and `deviation` are theirs, too.
        unit_seconds: median of the rounds of what it is counted in.
    """

    difference: Difference
    median: float
    mean: float
    deviation: float
    unit_seconds: Seconds

    @property
    def units(self) -> float:
        """How many times the unit it is."""
        return self.median / self.unit_seconds

    @property
    def unstable(self) -> bool:
        """Whether the rounds disagree too much to believe the figure."""
        return self.deviation > UNSTABLE * abs(self.mean)

    @property
    def missed(self) -> bool:
        """Whether it is more than the design allows."""
        return self.units > self.difference.at_most


class Limit(_Model):
    """The most seconds that one operation of an alternative may take, in its best round."""

    subject: str
    at_most: Seconds


class Count(_Model):
    """What is counted, and not timed.

    Attributes:
        unit: in the plural.
        at_most: the largest value that the design allows, or None.
    """

    name: str
    value: Annotated[int, Field(ge=0)]
    unit: str
    at_most: int | None = None

    @property
    def missed(self) -> bool:
        """Whether the value is above what the design allows."""
        return self.at_most is not None and self.value > self.at_most


class Case(_Model):
    """Alternatives measured side by side, under one condition."""

    name: str
    samples: Annotated[tuple[Samples, ...], Field(strict=False)] = ()
    comparisons: Annotated[tuple[Comparison, ...], Field(strict=False)] = ()
    differences: Annotated[tuple[Difference, ...], Field(strict=False)] = ()
    limits: Annotated[tuple[Limit, ...], Field(strict=False)] = ()
    counts: Annotated[tuple[Count, ...], Field(strict=False)] = ()

    @property
    def missed(self) -> bool:
        """Whether anything is not what the design needs."""
        return (
            any(ratio.missed for ratio in self.ratios())
            or any(added.missed for added in self.added())
            or any(self.alternative(limit.subject).best > limit.at_most for limit in self.limits)
            or any(count.missed for count in self.counts)
        )

    def alternative(self, name: str) -> Samples:
        """The samples of that name. Raises KeyError."""
        for samples in self.samples:
            if samples.name == name:
                return samples
        raise KeyError(name)

    def ratios(self) -> list[Ratio]:
        """The ratios of all comparisons."""
        return [self._ratio(comparison) for comparison in self.comparisons]

    def _ratio(self, comparison: Comparison) -> Ratio:
        subject, baseline = self.alternative(comparison.subject), self.alternative(comparison.baseline)
        rounds = [slow / fast for slow, fast in zip(baseline.seconds, subject.seconds, strict=True)]
        return Ratio(
            comparison=comparison,
            best=baseline.best / subject.best,
            median=median(rounds),
            mean=fmean(rounds),
            deviation=stdev(rounds),
        )

    def added(self) -> list[Added]:
        """What all differences come to."""
        return [self._added(difference) for difference in self.differences]

    def _added(self, difference: Difference) -> Added:
        subject, baseline = self.alternative(difference.subject), self.alternative(difference.baseline)
        rounds = [more - less for more, less in zip(subject.seconds, baseline.seconds, strict=True)]
        return Added(
            difference=difference,
            median=median(rounds),
            mean=fmean(rounds),
            deviation=stdev(rounds),
            unit_seconds=median(self.alternative(difference.unit).seconds),
        )


class Environment(_Model):
    """What a figure depends on besides the code; nothing that names a machine."""

    cpu: str
    cpus: int
    system: str
    python: str
    packages: dict[str, str]


class Result(_Model):
    """One benchmark's run.

    Attributes:
        operation: what one operation is, singular.
        notes: conditions of this run that a reader of the figures must know.
    """

    format_version: Literal[1] = Field(1, alias="formatVersion")
    benchmark: str
    operation: str
    quick: bool
    environment: Environment
    notes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    cases: Annotated[tuple[Case, ...], Field(strict=False)]

    def save(self, folder: Path) -> None:
        """Write `NAME.json` into a folder."""
        text = self.model_dump_json(indent=1, by_alias=True) + "\n"
        (folder / f"{self.benchmark}.json").write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Result:
        """Read what `save` wrote. Raises pydantic.ValidationError."""
        return cls.model_validate_json(path.read_text(encoding="utf-8"))
