"""Upload the weights that a job starts from, and name them in its spec."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Final

from ampclient._http.transport import Transport
from ampclient._transfer.file_uploads import upload_file
from ampclient._transfer.progress import no_progress
from ampclient._transfer.upload_source import Segment, UploadSource, file_source
from ampclient.errors import InvalidSpec
from ampspec.api.files import StoredFile
from ampspec.documents.problems import format_value
from ampspec.jobs import Problem
from ampspec.references.stored_files import DIGEST_PREFIX, FileKind
from ampspec.tensor_header import DTYPE_NAMES, encode_header

Document = dict[str, Any]
Weights = str | PathLike[str] | Mapping[str, Any] | bytes
"""A safetensors file, its bytes, or arrays by name."""

FILE_NAME: Final = "weights.safetensors"


async def upload_weights(transport: Transport, weights: Weights) -> StoredFile:
    """Upload weights, unless the project has the same. Raises as `weights_source`."""
    source = await transport.run_in_thread(weights_source, weights)
    return await upload_file(transport, FileKind.WEIGHTS, source, no_progress)


async def with_weights(
    transport: Transport, document: Document, weights: Weights, *, upload: bool
) -> Document:
    """The spec with these weights as its `init`; with `upload`, the server then has them.

    Raises InvalidSpec for a spec with another source, and as `weights_source`.
    """
    source = await transport.run_in_thread(weights_source, weights)
    sha256 = await transport.run_in_thread(source.sha256)
    document_with_weights = name_weights(document, f"{DIGEST_PREFIX}{sha256}")
    if upload:
        await upload_file(transport, FileKind.WEIGHTS, source, no_progress)
    return document_with_weights


def name_weights(document: Document, reference: str) -> Document:
    """The spec that starts from these weights. Raises InvalidSpec if it has another source."""
    init = document.get("init")
    init = {} if init is None else init
    if not isinstance(init, Mapping):
        return document  # the server names the mistake
    sources = [init.get("job"), init.get("weights")]
    source = next((source for source in sources if source not in (None, reference)), None)
    if source is not None:
        expected = "no job and no other weights, since weights are given"
        problem = Problem("/init", "two_sources", expected, format_value(source))
        raise InvalidSpec.from_problems([problem])
    return {**document, "init": {**init, "weights": reference}}


def has_source(document: Document) -> bool:
    """Whether the spec names the weights that its job starts from."""
    init = document.get("init")
    return isinstance(init, Mapping) and any(init.get(name) for name in ("job", "weights"))


def weights_source(weights: Weights) -> UploadSource:
    """The bytes of a file, or of arrays by name as safetensors.

    Raises ValueError for an array that is not of numbers, and OSError for an unreadable file.
    """
    if isinstance(weights, Mapping):
        return _arrays_source(weights)
    if isinstance(weights, bytes):
        return UploadSource(FILE_NAME, [Segment(len(weights), weights)])
    return file_source(Path(weights))


def _arrays_source(weights: Mapping[str, Any]) -> UploadSource:
    import numpy as np

    arrays = {name: np.ascontiguousarray(np.asarray(array)) for name, array in weights.items()}
    # Wide dtypes first, so that every array is aligned.
    ordered = sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize)
    entries = []
    for name, array in ordered:
        dtype = DTYPE_NAMES.get(array.dtype.name)
        if dtype is None or array.dtype.byteorder == ">":
            raise ValueError(f"weights: expected arrays of numbers, received {name}: {array.dtype}")
        # NumPy makes an array of rank 0 one of rank 1 when it makes it contiguous.
        entries.append((name, dtype, np.shape(weights[name]), array.nbytes))
    header = encode_header(entries, {})
    pieces = [header, *(array.tobytes() for _, array in ordered)]
    return UploadSource(FILE_NAME, [Segment(len(piece), piece) for piece in pieces])
