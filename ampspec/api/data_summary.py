"""DataSummary: which rows, columns and classes a run trains on; a part of the event `started`."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

MAX_LISTED: Final = 100
"""Maximum number of columns, classes and unused parts in an event, which also has the totals."""
MAX_NAME: Final = 200
MAX_SHOWN: Final = 8

ValidationRows = Literal["own_part", "random", "last", "given", "none"]
VALIDATION_TEXTS: Final[dict[ValidationRows, str]] = {
    "own_part": " (its own split)",
    "random": " (chosen at random)",
    "last": " (the last rows)",
    "given": "",
    "none": "",
}


class _SummaryPart(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class ColumnSummary(_SummaryPart):
    """A column, what it is used for, and how it is prepared."""

    name: str
    role: Literal["input", "target", "left_out"]
    dtype: str
    preparation: str = ""

    @property
    def text(self) -> str:
        """The column in words."""
        return f"{self.name} ({', '.join(filter(None, (self.dtype, self.preparation)))})"


class ClassSummary(_SummaryPart):
    """A class and its number of training examples, or pixels in masks; None if not counted."""

    name: str
    examples: int | None = None


class TargetSummary(_SummaryPart):
    """The targets of an output: `size` classes, labels or numbers."""

    kind: str
    size: int
    classes: list[ClassSummary] = []

    @property
    def text(self) -> str:
        """The targets in words."""
        if self.kind == "input":
            return "the inputs"
        if self.kind != "class":
            return _count(self.size, self.kind.removesuffix("s"))
        names = [
            entry.name if entry.examples is None else f"{entry.name} ({entry.examples:,})"
            for entry in self.classes
        ]
        return f"{self.size:,} classes" + (f": {_listed(names, self.size)}" if names else "")


class LeftOutSummary(_SummaryPart):
    """A part of the data that is not used, and why."""

    name: str
    reason: str


class DataSummary(_SummaryPart):
    """The data that a run trains on.

    Attributes:
        train: The number of training rows.
        validation: The number of rows for validation.
        validation_rows: Where they come from: a split of the data, rows that were split off, or
            data passed by the program.
        split_seed: `data.split_seed`, if it selected the rows; None otherwise.
        train_left_out: The number of rows for training that are left out: they have no target.
        validation_left_out: The same of the rows for validation.
        columns: The first MAX_LISTED columns.
        column_count: The number of all columns.
        targets: By output.
        left_out: The first MAX_LISTED parts of the data that are not used.
        left_out_count: The number of all unused parts.
        collapsed: By column, how many different values of the first rows are equal in float32.
    """

    train: int
    validation: int
    validation_rows: ValidationRows
    split_seed: int | None = None
    train_left_out: int = 0
    validation_left_out: int = 0
    columns: list[ColumnSummary] = []
    column_count: int = 0
    targets: dict[str, TargetSummary] = {}
    left_out: list[LeftOutSummary] = []
    left_out_count: int = 0
    collapsed: dict[str, int] = {}

    @classmethod
    def from_event(cls, data: Mapping[str, Any]) -> Self | None:
        """The summary in the data of an event `started`; None if it is missing or invalid."""
        try:
            return cls.model_validate(data.get("data"))
        except ValidationError:
            return None

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON values, without the parts that are empty."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def lines(self) -> Iterator[tuple[str, str]]:
        """The summary in words, each line with its title."""
        text = f"{_count(self.train, 'row')} to train on"
        if self.validation:
            text += f", {self.validation:,} for validation{VALIDATION_TEXTS[self.validation_rows]}"
            if self.validation_rows == "random" and self.split_seed is not None:
                text = f"{text[:-1]}, split_seed {self.split_seed})"
        yield "data", text
        if self.train_left_out or self.validation_left_out:
            text = f"{_count(self.train_left_out, 'row')} to train on"
            if self.validation_rows != "none":
                text += f" and {self.validation_left_out:,} for validation"
            yield "no target", f"{text}, left out"
        for title, role in (("inputs", "input"), ("not used", "left_out")):
            names = [column.text for column in self.columns if column.role == role]
            if names:
                yield title, _listed(names, self.column_count)
        for output, target in self.targets.items():
            yield "target" if len(self.targets) == 1 else f"target {output}", target.text
        if self.left_out:
            names = [f"{part.name} ({part.reason})" for part in self.left_out]
            yield "left out", _listed(names, self.left_out_count)


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _listed(names: list[str], count: int) -> str:
    """The first names, and how many more there are of `count`, if the list itself is cut."""
    more = (count if len(names) == MAX_LISTED else len(names)) - MAX_SHOWN
    return ", ".join(names[:MAX_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
