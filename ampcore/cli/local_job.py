"""The job that a command is about: its spec, and the local files that its names stand for."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ampcore.cli.exits import BAD_SPEC, exit_with
from ampspec.documents.assignments import with_assignments
from ampspec.documents.problems import format_value
from ampspec.documents.yaml_document import parse_yaml
from ampspec.jobs import JobSpec, Problem, SpecValidationError
from ampspec.references.dataset_reference import VersionReference
from ampspec.references.stored_files import DIGEST_PREFIX

LOCAL_CODE: Final = f"{DIGEST_PREFIX}{'0' * 64}"
"""In the place of the SHA-256 of code that was not uploaded."""


@dataclass(frozen=True)
class LocalFiles:
    """The files of this machine that a job uses."""

    data_root: Path | None = None
    """The folder of the data paths in the spec; None: any path is allowed."""
    datasets: dict[str, Path] = field(default_factory=dict)
    """The file of each dataset that the spec names."""
    code: Path | None = None
    """The folder of a bundle."""
    init: Path | None = None
    """The weights to start from."""


def local_files(
    data_root: Path | None,
    dataset_files: Iterable[str] | None,
    *,
    code: Path | None = None,
    init: Path | None = None,
) -> LocalFiles:
    """The files that the options of a command name; exits if one of them is malformed."""
    return LocalFiles(data_root, _parse_datasets(dataset_files or ()), code, init)


def _parse_datasets(assignments: Iterable[str]) -> dict[str, Path]:
    """The file of each dataset in NAME=FILE; exits if one is malformed."""
    files = {}
    for assignment in assignments:
        name, equals, file = assignment.partition("=")
        try:
            reference = str(VersionReference.parse(name))
        except ValueError as error:
            exit_with(f"--dataset {assignment}: {error}.", BAD_SPEC)
        if not equals or not file:
            exit_with(f"--dataset {assignment}: expected NAME=FILE, as birds=b.npz.", BAD_SPEC)
        files[reference] = Path(file)
    return files


def load_spec(file: str, settings: list[str] | None, code: Path | None = None) -> JobSpec:
    """The spec in a file; exits if it is not valid. With `code` it need not name a bundle."""
    try:
        document = with_assignments(_read_document(file), settings or ())
        if code is not None:
            _name_local_code(document)
        return JobSpec.parse(document)
    except SpecValidationError as error:
        exit_with(str(error), BAD_SPEC)


def _read_document(file: str) -> Any:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return parse_yaml(data.decode("utf-8"))
    except OSError as error:
        problem = Problem("", "no_file", "a file with a job spec", f"{file}: {error.strerror}")
    except UnicodeDecodeError:
        problem = Problem("", "not_yaml", "a text in UTF-8", "other bytes")
    raise SpecValidationError([problem])


def _name_local_code(document: Any) -> None:
    """Name a bundle where the spec names none: code of this machine has not been uploaded.

    Raises SpecValidationError unless the model is a bundle.
    """
    model = document.get("model") if isinstance(document, dict) else None
    kind = model.get("kind") if isinstance(model, dict) else None
    if not isinstance(model, dict) or kind != "bundle":
        expected = "bundle, since a folder with code is given"
        problem = Problem("/model/kind", "code_without_bundle", expected, format_value(kind))
        raise SpecValidationError([problem])
    model.setdefault("bundle", LOCAL_CODE)
