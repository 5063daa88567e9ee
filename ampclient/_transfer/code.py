"""Upload the code of a model, and name it in the spec of its job."""

from pathlib import Path
from typing import Any

from ampclient._http.transport import Transport
from ampclient._transfer.code_bundle import bundle_source
from ampclient._transfer.file_uploads import upload_file
from ampclient._transfer.progress import no_progress
from ampclient._transfer.upload_source import UploadSource
from ampclient.errors import InvalidSpec
from ampspec.api.files import StoredFile
from ampspec.documents.problems import format_value
from ampspec.jobs import Problem
from ampspec.references.stored_files import DIGEST_PREFIX, FileKind

Document = dict[str, Any]


async def upload_code(transport: Transport, document: Document, folder: Path) -> Document:
    """The spec with the folder's code as its bundle, which the server then has.

    Raises InvalidSpec for another kind of model, ValueError for an unsuitable folder, and OSError.
    """
    source = await transport.run_in_thread(bundle_source, folder)
    document_with_bundle = await _with_digest(transport, document, source)
    await upload_file(transport, FileKind.BUNDLE, source, no_progress)
    return document_with_bundle


async def upload_bundle(transport: Transport, folder: Path) -> StoredFile:
    """Upload the code of a folder, unless the project has it. Raises ValueError and OSError."""
    source = await transport.run_in_thread(bundle_source, folder)
    return await upload_file(transport, FileKind.BUNDLE, source, no_progress)


async def with_code_digest(transport: Transport, document: Document, folder: Path) -> Document:
    """The spec with the SHA-256 of the folder's code; sends nothing. Raises as `upload_code`."""
    source = await transport.run_in_thread(bundle_source, folder)
    return await _with_digest(transport, document, source)


async def _with_digest(transport: Transport, document: Document, source: UploadSource) -> Document:
    sha256 = await transport.run_in_thread(source.sha256)
    return name_code(document, f"{DIGEST_PREFIX}{sha256}")


def name_code(document: Document, reference: str) -> Document:
    """The spec with this bundle. Raises InvalidSpec unless its model is one."""
    model = document.get("model")
    kind = model.get("kind") if isinstance(model, dict) else None
    if not isinstance(model, dict) or kind != "bundle":
        expected = "bundle, since a folder with code is given"
        problem = Problem("/model/kind", "code_without_bundle", expected, format_value(kind))
        raise InvalidSpec.from_problems([problem])
    return {**document, "model": {**model, "bundle": reference}}
