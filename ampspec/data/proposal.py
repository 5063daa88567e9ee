"""Proposes a job for a described data file: inputs, target, task, preprocessing and split, and why.

A proposal is a starting point to edit; each decision has its reason.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ampspec.data.target_columns import TARGET_NAMES, columns_named
from ampspec.documents.text import plural

USUAL_TARGETS: Final = (
    *TARGET_NAMES,
    *("class", "species", "quality", "diagnosis", "survived", "churn", "outcome", "income"),
    *("saleprice", "price", "rating", "medv", "mpg", "response", "result", "output"),
)
MAX_CLASSES: Final = 20
"""A target with more distinct whole numbers is predicted as numbers, not classes."""
MAX_CATEGORIES: Final = 100
LONG_TEXT: Final = 25
"""Average number of characters from which texts are words rather than categories."""
MIN_INPUTS: Final = 2
"""With fewer columns of numbers and categories, a text column is the input."""
MAX_TOKENS: Final = 10_000
TEXT_LENGTH: Final = 64
IMAGE_SIDE: Final = 64
DATE: Final = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T]\d{1,2}:\d{2}.*)?")


@dataclass
class Proposal:
    """A job spec and the reasons for its choices."""

    spec: dict[str, Any]
    reasons: list[str] = field(default_factory=list)
    """One sentence for each decision."""


class NoProposal(ValueError):
    """The description has no columns to predict, or to predict from."""


def propose_job(
    reference: str,
    kind: str,
    rows: int,
    columns: Sequence[Mapping[str, Any]],
    splits: Mapping[str, int],
    *,
    target: str | None = None,
) -> Proposal:
    """A job for a dataset.

    Args:
        reference: The version of the dataset: `birds@3`.
        kind: Its format.
        rows: The rows of all splits.
        columns: The columns of the description, with `statistics`.
        splits: The rows of each split.
        target: The column to predict; None: it is proposed, too.

    Raises:
        NoProposal: The data has no columns for a job, or not this target.
    """
    if kind == "text":
        if target is not None:
            raise NoProposal(f"{reference} is text without columns; {target!r} cannot be a target.")
        spec = {
            "model": {"kind": "transformer_lm"},
            "data": {"kind": "text", "dataset": reference},
            "task": {"kind": "language_model"},
        }
        return Proposal(spec, ["Text: the next character is predicted."])
    every = [_Column.of(column) for column in columns]
    if not every:
        raise NoProposal(f"{reference} has no columns.")
    proposal = Proposal({"model": {}, "data": {"kind": kind, "dataset": reference}, "task": {}})
    column = _target(every, rows, target, proposal)
    inputs = [candidate for candidate in every if candidate is not column]
    _propose_task(column, proposal)
    images = [candidate for candidate in inputs if candidate.is_picture]
    arrays = [candidate for candidate in inputs if candidate.shape and not candidate.is_picture]
    if images or arrays:
        _propose_arrays((images or arrays)[0], column, proposal)
    else:
        _propose_table(inputs, column, proposal)
    _propose_split(kind, rows, splits, proposal)
    proposal.spec["train"] = {"epochs": 10}
    return proposal


@dataclass(frozen=True)
class _Column:
    """A column of a description."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    missing: int
    nan: int
    classes: int | None
    statistics: Mapping[str, Any]

    @classmethod
    def of(cls, column: Mapping[str, Any]) -> "_Column":
        classes = column.get("classes")
        return cls(
            str(column.get("name", "")),
            str(column.get("dtype", "")),
            tuple(column.get("shape") or ()),
            column.get("missing") or 0,
            column.get("nan") or 0,
            len(classes) if isinstance(classes, list) else None,
            column.get("statistics") or {},
        )

    @property
    def without_value(self) -> int:
        """The rows without a value, or with NaN."""
        return self.missing + self.nan

    @property
    def is_picture(self) -> bool:
        is_array = self.dtype == "uint8" and len(self.shape) == 3 and self.shape[2] in (1, 3)
        return self.dtype == "image" or is_array

    @property
    def is_text(self) -> bool:
        return self.dtype == "string"

    @property
    def distinct(self) -> int | None:
        count: int | None = self.statistics.get("distinct")
        return count

    @property
    def is_long_text(self) -> bool:
        is_long = (self.statistics.get("mean_length") or 0) >= LONG_TEXT
        return self.is_text and is_long and (self.distinct is None or self.distinct > MAX_CLASSES)

    @property
    def is_date(self) -> bool:
        return self.is_text and DATE.fullmatch(self.statistics.get("shortest") or "") is not None

    @property
    def is_class(self) -> bool:
        """Whether the values are classes rather than numbers."""
        if self.is_text or self.dtype == "bool" or self.classes is not None:
            return True
        is_whole = bool(self.statistics.get("is_whole"))
        return is_whole and self.distinct is not None and self.distinct <= MAX_CLASSES

    def has_targets(self, rows: int) -> bool:
        """Whether most rows have a value, and the values differ."""
        return 2 * self.without_value <= rows and self.distinct not in (0, 1)

    @property
    def is_time(self) -> bool:
        """Whether the values look like timestamps since 1998, in seconds or milliseconds."""
        low, high = self.statistics.get("low") or 0, self.statistics.get("high") or 0
        is_whole = bool(self.statistics.get("is_whole"))
        return is_whole and any(9e8 * unit < low < high < 3e9 * unit for unit in (1, 1000))

    def reason_to_leave_out(self) -> str | None:
        """Why the column is useless as an input; None if it may be useful."""
        if self.distinct == 0:
            return "no value"
        if self.distinct == 1 and not self.without_value:
            return "the same value in each row"
        if self.statistics.get("is_counted"):
            return "row numbers"
        name = self.name.lower()
        if self.statistics.get("is_unique") and self.is_text and not self.is_long_text:
            return "a different text in each row"
        is_id = name == "id" or name.endswith(("_id", " id")) or self.name.endswith("ID")
        if is_id and self.statistics.get("is_unique"):
            return "an identifier of the row"
        if self.is_long_text:
            return "text of many words, which needs `tokens` and a separate input"
        if self.is_time:
            return "timestamps, which grow from row to row"
        if self.is_date:
            return "dates, which no layer reads directly"
        if self.is_text and (self.distinct is None or self.distinct > MAX_CATEGORIES):
            return f"more than {MAX_CATEGORIES} different texts"
        return None


def _target(columns: Sequence[_Column], rows: int, name: str | None, proposal: Proposal) -> _Column:
    by_name = {column.name: column for column in columns}
    usual = columns_named(USUAL_TARGETS, by_name)
    possible = [
        column
        for column in columns
        if not (column.is_picture or column.is_long_text or column.is_time)
    ]
    if name is not None:
        if name not in by_name:
            raise NoProposal(f"There is no column {name!r}; there are {', '.join(by_name)}.")
        if len(columns) < 2:
            raise NoProposal(f"{name} is the only column: nothing is left to predict it from.")
        target, reason = by_name[name], "is the target that you named"
        if target.is_picture or target.is_long_text:
            raise NoProposal(f"{name} cannot be a target: it is {target.dtype} data.")
    elif usual:
        target, reason = by_name[usual[0]], "is a usual name for a target column"
    elif not possible or len(columns) < 2:
        raise NoProposal("There is no column to predict; all columns are inputs.")
    elif _is_first_column_class(columns):
        target, reason = columns[0], "is the first column and has few different whole numbers"
    else:
        useful = [column for column in possible if column.has_targets(rows)]
        target, reason = (useful or possible)[-1], "is the last column with single values"
    proposal.spec["data"]["target"] = target.name
    proposal.reasons.append(f"data.target: {target.name} {reason}.")
    if target.without_value:
        proposal.spec["data"]["missing_targets"] = "leave_out"
        count = f"{target.without_value:,} of {rows:,} rows"
        proposal.reasons.append(
            f"data.missing_targets: {target.name} has no value in {count}, which are left out."
        )
    return target


def _is_first_column_class(columns: Sequence[_Column]) -> bool:
    """Whether a table without names has classes in its first column, as some have."""
    first, last = columns[0], columns[-1]
    return first.name == "column_1" and first.is_class and not last.is_class


def _propose_task(target: _Column, proposal: Proposal) -> None:
    if target.shape[1:] or target.name == "mask":
        kind, reason = "segmentation", "has a class for each pixel"
    elif target.is_class:
        count = target.classes or target.distinct
        kind, reason = "classification", f"has {count or 'many'} different values"
    else:
        kind, reason = "regression", "has many different numbers"
    proposal.spec["task"] = {"kind": kind}
    proposal.reasons.append(f"task.kind: {kind}, because {target.name} {reason}.")


def _propose_arrays(column: _Column, target: _Column, proposal: Proposal) -> None:
    """One input that is an array or a picture."""
    data, shape = proposal.spec["data"], column.shape
    data["inputs"] = [column.name]
    if column.is_picture:
        data["preprocessing"] = {column.name: {"rescaling": "pixels"}}
        if column.dtype == "image" and None in shape[:2]:
            data["size"] = [IMAGE_SIDE, IMAGE_SIDE]
            shape = (IMAGE_SIDE, IMAGE_SIDE, *shape[2:])
            proposal.reasons.append("data.size: the images have several sizes.")
    else:
        data["preprocessing"] = {column.name: {"normalize": True}}
    if proposal.spec["task"]["kind"] == "segmentation":
        classes = max(2, target.distinct or 2)
        convolution = {"layer": "Conv2D", "kernel_size": 3, "padding": "same", "filters": 16}
        last = {"layer": "Conv2D", "kernel_size": 1, "filters": classes}
        layers = [convolution | {"activation": "relu"}] * 2
        proposal.spec["model"] = {"kind": "layers", "layers": [*layers, last]}
        proposal.reasons.append(f"model: {classes} classes occur in the masks of the first rows.")
    elif column.is_picture and min(side or 0 for side in shape[:2]) >= 8:
        proposal.spec["model"] = {"kind": "cnn"}
    else:
        proposal.spec["model"] = {"kind": "mlp"}


def _propose_table(columns: Sequence[_Column], target: _Column, proposal: Proposal) -> None:
    data = proposal.spec["data"]
    reasons = {column.name: column.reason_to_leave_out() for column in columns}
    inputs = [column for column in columns if reasons[column.name] is None]
    text = next((column for column in columns if column.is_long_text), None)
    if text is not None and len(inputs) < MIN_INPUTS:
        _propose_text(text, target, proposal)
        return
    if not inputs:
        raise NoProposal("There is no column to predict from.")
    data["inputs"] = [column.name for column in inputs]
    for name, reason in reasons.items():
        if reason:
            proposal.reasons.append(f"data.inputs: without {name}: {reason}.")
    preprocessing: dict[str, Any] = {}
    for column in inputs:
        if column.is_text:
            preprocessing[column.name] = {"categories": "one_hot"}
        elif column.dtype != "bool" or column.missing:
            options: dict[str, Any] = {"normalize": True}
            filled = {"missing": "mean"} if column.without_value else {}
            preprocessing[column.name] = options | filled
    data["preprocessing"] = preprocessing
    if any(column.missing for column in inputs):
        data["missing"] = "keep"
        names = ", ".join(column.name for column in inputs if column.missing)
        proposal.reasons.append(f"data.missing: values are missing in {names}.")
    proposal.spec["model"] = {"kind": "mlp", "hidden": [64, 64]}


def _propose_text(text: _Column, target: _Column, proposal: Proposal) -> None:
    is_classification = proposal.spec["task"]["kind"] == "classification"
    units = max(2, target.classes or target.distinct or 2) if is_classification else 1
    tokens = {"length": TEXT_LENGTH, "max_tokens": MAX_TOKENS}
    proposal.spec["data"] |= {
        "inputs": [text.name],
        "preprocessing": {text.name: {"tokens": tokens}},
    }
    proposal.spec["model"] = {
        "kind": "layers",
        "layers": [
            {"layer": "Embedding", "input_dim": MAX_TOKENS, "output_dim": 32},
            {"layer": "GlobalAveragePooling1D"},
            {"layer": "Dense", "units": 32, "activation": "relu"},
            {"layer": "Dense", "units": units},
        ],
    }
    proposal.reasons.append(f"data.inputs: {text.name} is text of many words.")


def _propose_split(kind: str, rows: int, splits: Mapping[str, int], proposal: Proposal) -> None:
    data = proposal.spec["data"]
    evaluation = next((split for split in ("validation", "test") if split in splits), None)
    if evaluation is not None and "train" in splits:
        training = splits["train"]
        proposal.reasons.append(
            f"Validation: the {evaluation} split of the data, {plural(splits[evaluation], 'row')}."
        )
    else:
        data["validation_split"] = 0.2
        if kind in ("npz", "npy"):
            data["validation_rows"] = "random"
        training = int(rows * 0.8)
        proposal.reasons.append("data.validation_split: the data has no validation split.")
    size = 128
    while size > 1 and size * 8 > training:
        size //= 2
    data["batch_size"] = size
