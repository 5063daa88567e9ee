"""The files of a version: those that its job has stored, and why other formats have none.

A trainer has written `model.exports.json` and `signature.json`, and its code may be that of a user:
they are read within limits, and what cannot be read is left out.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ampspec.api.models import FORMATS, ModelFile
from ampspec.documents.json_limits import check_json
from ampspec.telemetry.json_values import json_safe, storable_text
from infra.storage import Storage, StorageFailed
from server.errors import Conflict
from store import tables
from store.files import artifacts

MAX_DOCUMENT_BYTES: Final = 2**20
MAX_REASON: Final = 1000
KERAS: Final = ".keras"
EXPORTS_SUFFIX: Final = ".exports.json"
"""Of the report of the conversions of a model file, after its name without `.keras`."""


def model_file_of(job: tables.Job, rows: Sequence[tables.Artifact], name: str | None) -> str:
    """The name of the model file of which a version is made.

    Args:
        job: The job.
        rows: Its artifacts.
        name: The file that was asked for; None: the one in its summary.

    Raises:
        Conflict: The job has no such file.
    """
    names = [_name(row) for row in rows if row.kind == artifacts.MODEL]
    file_name = name or (job.summary or {}).get("model_file")
    if file_name is None or file_name not in names:
        listed = ", ".join(dict.fromkeys(names)) or "none: its model was not saved, or was deleted"
        raise Conflict(
            f"Cannot register job {job.id}: expected {file_name or 'a model file'} among the model "
            f"files of the job; it has {listed}."
        )
    return str(file_name)


def check_stored(storage: Storage, row: tables.Artifact) -> None:
    """Raise Conflict if the storage no longer has a file, or not all of it."""
    last = max(row.size_bytes - 1, 0)
    try:
        pieces = storage.read(row.job_id, row.path, last, row.size_bytes)
        received = sum(map(len, pieces))
    except StorageFailed as error:
        raise Conflict(f"Cannot register job {row.job_id}: {error}") from error
    if received != row.size_bytes - last:
        raise Conflict(
            f"Cannot register job {row.job_id}: expected {row.size_bytes:,} bytes of {row.path} in "
            "the storage; the file is shorter."
        )


def newest_by_name(rows: Sequence[tables.Artifact]) -> dict[str, tables.Artifact]:
    """The files of the last attempt that wrote each, by name."""
    return {_name(row): row for row in rows if row.kind != artifacts.CHECKPOINT}


def files_of_version(
    files: Mapping[str, tables.Artifact], name: str, exports: Any, *, best_file: str | None
) -> list[ModelFile]:
    """The entry of each format.

    Args:
        files: The job's files by name.
        name: The model file of the version.
        exports: The content of the file's `.exports.json`; None without it.
        best_file: The model file with the weights of the best evaluation, if it is a second one.
    """
    reports = exports.get("exports") if isinstance(exports, dict) else None
    entries = {
        report.get("format"): report
        for report in (reports if isinstance(reports, list) else [])
        if isinstance(report, dict)
    }
    stem = name.removesuffix(KERAS)
    result = [_available("keras", files[name], {})]
    if name == best_file:
        reason = "weights.safetensors of the job has the last weights, and this file the best ones."
        result.append(ModelFile(format="safetensors", state="missing", reason=reason))
    elif (weights := files.get("weights.safetensors")) is not None:
        result.append(_available("safetensors", weights, {}))
    else:
        reason = "The job has stored no weights.safetensors."
        result.append(ModelFile(format="safetensors", state="missing", reason=reason))
    for file_format, suffix in (("saved_model", ".saved_model.zip"), ("onnx", ".onnx")):
        report = entries.get(file_format)
        file = files.get(f"{stem}{suffix}")
        if report is None:
            reason = f"train.export of the job does not name {file_format}."
            result.append(ModelFile(format=file_format, state="not requested", reason=reason))
        elif file is None or report.get("state") != "available":
            default = "The job has not stored the file."
            reason = storable_text(str(report.get("reason") or default))[:MAX_REASON]
            result.append(ModelFile(format=file_format, state="failed", reason=reason))
        else:
            result.append(_available(file_format, file, report))
    return sorted(result, key=lambda entry: FORMATS.index(entry.format))


def read_document(storage: Storage, row: tables.Artifact | None) -> Any:
    """The JSON of a small file; None without it, or if it cannot be read."""
    if row is None or row.size_bytes > MAX_DOCUMENT_BYTES:
        return None
    try:
        content = b"".join(storage.read(row.job_id, row.path, 0, row.size_bytes))
        document = check_json(json.loads(content))
    except (StorageFailed, ValueError, RecursionError):
        return None
    return json_safe(document) if isinstance(document, dict) else None


def _available(file_format: str, row: tables.Artifact, report: Mapping[str, Any]) -> ModelFile:
    checked = report.get("checked")
    return ModelFile(
        format=file_format,
        state="available",
        file_name=_name(row),
        size_bytes=row.size_bytes,
        sha256=row.sha256,
        checked=storable_text(checked)[:MAX_REASON] if isinstance(checked, str) else None,
        max_difference=_number(report.get("max_difference")),
        tolerance=_number(report.get("tolerance")),
    )


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None


def _name(row: tables.Artifact) -> str:
    return row.path.rpartition("/")[2]
