"""Turns the arguments of `Trainer.from_keras` into the sections of a spec, and into data."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, Literal, TypedDict

from ampcore.callbacks.run_callbacks import check_callbacks, split_early_stopping
from ampcore.precision.loss_scale import (
    CalibratedLossScale,
    DynamicLossScale,
    FixedLossScale,
    LossScale,
    NoLossScale,
)
from ampspec.documents.base import SpecModel
from ampspec.errors import InvalidData, InvalidModel
from ampspec.precision.precision import Float8, Override, Precision
from ampspec.training.telemetry import Telemetry
from ampspec.training.training import Best, Diagnostics, EarlyStopping, Guard, Runtime, Train

LossScaleArgument = str | float | Mapping[str, Any] | LossScale
"""A mode, the number of a fixed scale, the section of a spec, or a loss scale of this library."""

MODES: Final[Mapping[type, str]] = {
    NoLossScale: "none",
    DynamicLossScale: "dynamic",
    CalibratedLossScale: "calibrated",
}

SHORT_FORMS: Final = {
    "overrides": "precision",
    "float8": "precision",
    "tf32": "precision",
    "best": "train",
    "early_stopping": "train",
    "keep": "train",
}
"""Fields that are arguments of their own, too, and their section."""

ELSEWHERE: Final = {
    "class_weight": "sample_weight=…",
    "initial_epoch": "resume=True",
    "validation_freq": "train=ampcore.Train(eval_every_epochs=…)",
    "validation_steps": "validation_data=… with the examples to evaluate on",
    "validation_batch_size": "batch_size=…, which evaluations use, too",
    "steps_per_execution": "no argument: a run chooses it by time",
    "jit_compile": 'runtime=ampcore.Runtime(engine="xla_step")',
    "auto_scale_loss": "loss_scale=…",
    "weighted_metrics": "metrics=…, which are not weighted",
}
"""Names that somebody may try, and what to write for them."""


class Sections(TypedDict, total=False):
    """The sections of a spec that a run of a Keras model has, as objects or as mappings.

    Some fields have a short form: `overrides=…` is `precision={"overrides": …}`.
    """

    precision: Precision | Mapping[str, Any] | None
    train: Train | Mapping[str, Any] | None
    guard: Guard | Mapping[str, Any] | None
    diagnostics: Diagnostics | Mapping[str, Any] | None
    runtime: Runtime | Mapping[str, Any] | None
    telemetry: Telemetry | Mapping[str, Any] | None
    overrides: Sequence[Override | Mapping[str, Any]]
    float8: Float8 | Mapping[str, Any] | None
    tf32: bool
    best: Best | Mapping[str, Any] | None
    early_stopping: EarlyStopping | Mapping[str, Any] | None
    keep: Literal["last", "best", "both"]


SECTIONS: Final = ("precision", "train", "guard", "diagnostics", "runtime", "telemetry")


def section_documents(sections: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The fields that are set in each section; not checked yet.

    Raises:
        TypeError: There is no such argument.
        InvalidModel: A section is neither its class nor a mapping.
    """
    documents: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    short_forms = {name: value for name, value in sections.items() if name in SHORT_FORMS}
    for name, section in sections.items():
        if name in short_forms:
            continue
        if name not in documents:
            hint = f"; write {ELSEWHERE[name]}" if name in ELSEWHERE else ""
            raise TypeError(f"from_keras() has no argument {name!r}{hint}")
        if isinstance(section, SpecModel):
            documents[name] = section.model_dump(exclude_unset=True)
        elif isinstance(section, Mapping):
            documents[name] = dict(section)
        elif section is not None:
            expected = f"an ampcore.{name.capitalize()}, or a mapping with its fields"
            raise InvalidModel(name, expected=expected, received=repr(section))
    for name, value in short_forms.items():
        if value is not None:
            set_once(documents[SHORT_FORMS[name]], SHORT_FORMS[name], name, _plain(value), None)
    return documents


def _plain(value: Any) -> Any:
    """A field as in a document: parts of a spec as mappings, also in a list."""
    if isinstance(value, SpecModel):
        return value.model_dump(exclude_unset=True)
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def set_once(
    document: dict[str, Any], section: str, field: str, argument: Any, default: Any
) -> None:
    """Set a field of a section that is an argument of its own, too.

    Raises:
        InvalidModel: The section has another value.
    """
    value = document.setdefault(field, argument)
    if argument not in (default, value):
        raise InvalidModel(
            field,
            expected=f"the same value in {field}= and in {section}=",
            received=f"{argument!r} and {value!r}",
        )


def add_early_stopping(train: dict[str, Any], callbacks: Any, *, has_schedule: bool) -> list[Any]:
    """Move Keras's EarlyStopping into the section `train`.

    Args:
        train: The section, which is changed.
        callbacks: The argument `callbacks`.
        has_schedule: Whether the learning rate follows a schedule.

    Returns:
        The other callbacks.

    Raises:
        InvalidModel: A callback cannot be called by a run.
    """
    items = check_callbacks(callbacks, has_schedule=has_schedule)
    other_callbacks, sections = split_early_stopping(items)
    if sections is not None:
        early_stopping, best, keeps_best = sections
        set_once(train, "train", "early_stopping", early_stopping.model_dump(), None)
        set_once(train, "train", "best", best.model_dump(), None)
        if keeps_best:
            set_once(train, "train", "keep", "best", "last")
    return other_callbacks


def examples_argument(x: Any, y: Any, sample_weight: Any, data: Any) -> Any:
    """The examples as one value: `data`, the batches in `x`, or (x, y, sample_weight).

    Raises:
        InvalidData: There are none, or two.
    """
    if (x is None) == (data is None):
        received = "both" if x is not None else "neither"
        raise InvalidData("data", None, expected="x, or data", received=received)
    if x is None:
        if y is not None or sample_weight is not None:
            expected = "targets and weights in data, as (x, y, sample_weight)"
            raise InvalidData("data", "y", expected=expected, received="y or sample_weight")
        return data
    if sample_weight is not None:
        return (x, y, sample_weight)
    return x if y is None else (x, y)


def loss_scale_section(loss_scale: LossScaleArgument) -> dict[str, Any]:
    """The section of a spec that the argument stands for; its values are not checked yet.

    Raises:
        InvalidModel: It is an object of another class, whose arithmetic a run would not use.
    """
    match loss_scale:
        case str():
            return {"mode": loss_scale}
        case Mapping():
            return dict(loss_scale)
        case FixedLossScale():
            return {"mode": "fixed", "scale": loss_scale.value}
        case bool():
            pass
        case int() | float():
            return {"mode": "fixed", "scale": float(loss_scale)}
        case _ if type(loss_scale) in MODES:
            return {"mode": MODES[type(loss_scale)], **asdict(loss_scale)}
    raise InvalidModel(
        "loss_scale",
        expected="a mode, a number, a mapping, or a FixedLossScale, DynamicLossScale, "
        "CalibratedLossScale or NoLossScale",
        received=repr(loss_scale),
    )
