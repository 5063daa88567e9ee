"""Write a saved model in other formats, and compare each with the model.

What does not convert, or gives other outputs, is no error of the job: the report has the reason,
and the file is deleted.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import keras
import numpy as np

from ampcore.data import Dataset
from ampcore.export import onnx_file, saved_model
from ampcore.export.named_model import Arrays, ExportFailed, NamedModel
from ampcore.export.sample_rows import sample_rows
from ampspec.training.training import ExportFormat

TOLERANCES: Final = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""By the dtype in which the model computes: the relative difference of outputs that another order
of the same operations explains."""
SUFFIXES: Final[Mapping[ExportFormat, str]] = {"saved_model": ".saved_model.zip", "onnx": ".onnx"}
REPORT_SUFFIX: Final = ".exports.json"
MAX_REASON: Final = 1000


@dataclass(frozen=True)
class Export:
    """What came of a conversion.

    Attributes:
        format: The format.
        state: `available` or `failed`.
        reason: Why it failed.
        file: The name of the file.
        checked: With which rows it was compared, and how closely.
        max_difference: The largest difference of an output.
        tolerance: The largest difference that is allowed of an output of 0.
        inputs: By the name of an input in the signature, its name in the file, where they differ.
    """

    format: ExportFormat
    state: Literal["available", "failed"]
    reason: str | None = None
    file: str | None = None
    checked: str | None = None
    max_difference: float | None = None
    tolerance: float | None = None
    inputs: Mapping[str, str] | None = None


@dataclass(frozen=True)
class _Writer:
    save: Callable[[NamedModel, Path], None]
    run: Callable[[NamedModel, Path, Arrays], dict[str, np.ndarray[Any, Any]]]


_WRITERS: Final[Mapping[ExportFormat, _Writer]] = {
    "saved_model": _Writer(saved_model.save, saved_model.run),
    "onnx": _Writer(onnx_file.save, onnx_file.run),
}


@dataclass(frozen=True)
class ExportOutcome:
    """The files that were written, the report last, and what has failed."""

    files: Sequence[Path]
    failures: Sequence[Export]


def export_model(
    file: Path, formats: Sequence[ExportFormat], signature: Mapping[str, Any], dataset: Dataset
) -> ExportOutcome:
    """Write a saved model in other formats, and a report of all of them.

    Args:
        file: `model.keras`, which is loaded as its users load it.
        formats: The formats.
        signature: Its entry in `signature.json`.
        dataset: For rows to compare with.
    """
    exports = exports_of(file, dict.fromkeys(formats), signature, dataset)
    report = file.with_name(f"{file.stem}{REPORT_SUFFIX}")
    document = {"model": file.name, "exports": [asdict(export) for export in exports]}
    report.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    names = [export.file for export in exports if export.file is not None]
    failures = [export for export in exports if export.state == "failed"]
    return ExportOutcome([*(file.with_name(name) for name in names), report], failures)


def exports_of(
    file: Path, formats: Collection[ExportFormat], signature: Mapping[str, Any], dataset: Dataset
) -> list[Export]:
    """The same without the report."""
    try:
        # Written by this process a moment ago, so its code may run.
        model = keras.saving.load_model(file, compile=False, safe_mode=False)
        named_model = NamedModel.of(model, signature)
        arrays, source = sample_rows(dataset, named_model)
        expected = named_model.predict(arrays)
    except Exception as error:
        return [Export(name, "failed", _reason(error)) for name in formats]
    return [_export(named_model, file, name, arrays, expected, source) for name in formats]


def _export(  # noqa: PLR0917 - what all formats share
    named_model: NamedModel,
    file: Path,
    format_name: ExportFormat,
    arrays: Arrays,
    expected: Arrays,
    source: str,
) -> Export:
    target = file.with_name(f"{file.stem}{SUFFIXES[format_name]}")
    try:
        _WRITERS[format_name].save(named_model, target)
        outputs = _WRITERS[format_name].run(named_model, target, arrays)
        export = compared(format_name, expected, outputs, named_model.compute_dtype, source)
    except Exception as error:
        export = Export(format_name, "failed", _reason(error))
    if export.state == "failed":
        target.unlink(missing_ok=True)
        return export
    renamed = {
        column: name
        for column, name in zip(named_model.columns, named_model.inputs, strict=True)
        if column != name
    }
    return replace(export, file=target.name, inputs=renamed or None)


def compared(
    format_name: ExportFormat, expected: Arrays, outputs: Arrays, dtype: str, source: str
) -> Export:
    """Compare the outputs of a file with those of the model.

    Args:
        format_name: The format of the file.
        expected: The outputs of the model by name.
        outputs: Those of the file.
        dtype: In which the model computes.
        source: Where the rows are from.
    """
    share = TOLERANCES[dtype]
    worst, floor = 0.0, 0.0
    for name, values in expected.items():
        received = outputs.get(name)
        if received is None or received.shape != values.shape:
            shape = None if received is None else received.shape
            reason = f"Expected the output {name} of the shape {values.shape}. Received: {shape}"
            return Export(format_name, "failed", reason)
        if values.dtype.kind not in "fV":  # V: bfloat16
            if not np.array_equal(values, received):
                reason = f"The output {name} differs from that of the model on {source}."
                return Export(format_name, "failed", reason)
            continue
        exact, received_values = values.astype(np.float64), received.astype(np.float64)
        finite = np.isfinite(exact)
        if not np.array_equal(exact[~finite], received_values[~finite], equal_nan=True):
            reason = f"The output {name} is not finite where that of the model is, on {source}."
            return Export(format_name, "failed", reason)
        size = np.abs(exact[finite])
        largest = float(size.max(initial=0.0))
        difference = np.abs(received_values[finite] - exact[finite])
        if not np.all(difference <= share * (size + largest)):  # NaN, too
            reason = (
                f"The output {name} differs from that of the model by "
                f"{float(difference.max(initial=0.0)):.3g} on {source}; {share:g} of its largest "
                f"value, {largest:.3g}, is what {dtype} explains."
            )
            return Export(format_name, "failed", reason)
        worst = max(worst, float(difference.max(initial=0.0)))
        floor = max(floor, share * largest)
    checked = f"{source}, within {share:g} ({dtype})"
    return Export(
        format_name,
        "available",
        checked=checked,
        max_difference=worst,
        tolerance=floor,
    )


def _reason(error: Exception) -> str:
    """The error on one line."""
    text = " ".join(str(error).split()) or "no details"
    message = text if isinstance(error, ExportFailed) else f"{type(error).__name__}: {text}"
    return message[:MAX_REASON]
