"""The submissions of `ampctl job submit`: files × grid, all validated before the first is sent."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import typer

from ampclient.cli.output.error_output import error_lines
from ampclient.cli.submit.grid import Variant
from ampclient.errors import InvalidSpec
from ampspec.references.stored_files import DIGEST_PREFIX

if TYPE_CHECKING:
    from ampclient._transfer.upload_source import UploadSource
    from ampclient.client import Client

T = TypeVar("T")
LONGEST_NAME: Final = 200


@dataclass(frozen=True)
class SpecToSubmit:
    """A spec to submit, the suffix that its name gets from the grid, and its source."""

    document: dict[str, Any]
    suffix: str
    source: str
    """The file, and the grid's assignments."""


class SpecsInvalid(Exception):
    """Some specs are invalid; `blocks` are the error lines of each."""

    def __init__(self, blocks: Sequence[Sequence[str]]) -> None:
        super().__init__()
        self.blocks = blocks


def build_submissions(
    files: Sequence[tuple[str, bytes]], assignments: Sequence[str], variants: Sequence[Variant]
) -> list[SpecToSubmit]:
    """Each file with the assignments, for each variant. Raises InvalidSpec, SpecsInvalid."""
    combinations = [(name, data, variant) for name, data in files for variant in variants]

    def source(combination: tuple[str, bytes, Variant]) -> str:
        name, _, variant = combination
        return " ".join([name, *variant.assignments])

    def build(combination: tuple[str, bytes, Variant]) -> SpecToSubmit:
        _, data, variant = combination
        document = parse_spec_file(data, [*assignments, *variant.assignments])
        return SpecToSubmit(document, variant.suffix, source(combination))

    return _build_all(combinations, build, source)


def validate_all(client: "Client", submissions: Sequence[SpecToSubmit]) -> list[SpecToSubmit]:
    """Validate all on the server and add the suffixes to their names. Raises SpecsInvalid."""

    def with_suffix(submission: SpecToSubmit) -> SpecToSubmit:
        validated = client.jobs.validate(submission.document)
        if not submission.suffix:
            return submission
        room = LONGEST_NAME - len(submission.suffix) - 1
        name = f"{validated.spec['name'][: max(room, 0)]} {submission.suffix}"[
            :LONGEST_NAME
        ].strip()
        return replace(submission, document={**submission.document, "name": name})

    return _build_all(submissions, with_suffix, lambda submission: submission.source)


def with_code(
    client: "Client", submissions: Sequence[SpecToSubmit], folder: Path, *, upload: bool
) -> list[SpecToSubmit]:
    """Name the code of a folder in each spec; with `upload`, the server has it afterwards.

    Raises typer.BadParameter for an unsuitable folder, and InvalidSpec for another kind of model.
    """
    from ampclient._transfer.code import name_code

    reference = f"{DIGEST_PREFIX}{code_source(folder).sha256()}"
    with_bundle = [
        replace(submission, document=name_code(submission.document, reference))
        for submission in submissions
    ]
    if upload:
        client.files.upload_bundle(folder)
    return with_bundle


def code_source(folder: Path) -> "UploadSource":
    """The archive of the code in a folder. Raises typer.BadParameter for an unsuitable one."""
    from ampclient._transfer.code_bundle import bundle_source

    try:
        return bundle_source(folder)
    except ValueError as error:
        raise typer.BadParameter(f"{error}.", param_hint="--code") from None


def with_weights(
    client: "Client", submissions: Sequence[SpecToSubmit], file: Path, *, upload: bool
) -> list[SpecToSubmit]:
    """Let each job start from the weights in a file; with `upload`, the server has it afterwards.

    Raises InvalidSpec for a spec with another source of weights.
    """
    from ampclient._transfer.weights import name_weights, weights_source

    reference = f"{DIGEST_PREFIX}{weights_source(file).sha256()}"
    from_weights = [
        replace(submission, document=name_weights(submission.document, reference))
        for submission in submissions
    ]
    if upload:
        client.files.upload_weights(file)
    return from_weights


def parse_spec_file(data: bytes, assignments: Sequence[str]) -> dict[str, Any]:
    """The spec in a file, with the assignments applied. Raises InvalidSpec."""
    from ampclient._spec import spec_input

    with as_usage_error():
        return spec_input.parse_spec_file(data, assignments)


@contextmanager
def as_usage_error() -> Iterator[None]:
    """Turn an assignment without a field into a usage error, instead of an invalid spec."""
    try:
        yield
    except InvalidSpec as error:
        for problem in error.problems:
            if problem.code == "bad_assignment" and not problem.pointer:
                raise typer.BadParameter(problem.detail, param_hint="--set") from None
        raise


def _build_all(
    items: Sequence[T], make: Callable[[T], SpecToSubmit], source: Callable[[T], str]
) -> list[SpecToSubmit]:
    """The submission of each item; the errors of all are reported together, without duplicates."""
    submissions: list[SpecToSubmit] = []
    wrong: dict[tuple[str, ...], tuple[InvalidSpec, list[str]]] = {}
    for item in items:
        try:
            submissions.append(make(item))
        except InvalidSpec as error:
            if len(items) == 1:
                raise
            wrong.setdefault(error.messages, (error, []))[1].append(source(item))
    if wrong:
        raise SpecsInvalid([error_lines(error, about=_counted(of)) for error, of in wrong.values()])
    return submissions


def _counted(sources: Sequence[str]) -> str:
    more = f" (and {len(sources) - 1} more)" if len(sources) > 1 else ""
    return f"{sources[0]}{more}"
