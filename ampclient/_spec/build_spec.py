"""The spec to send for a job or a study, with what it needs uploaded: weights and code."""

from os import PathLike
from pathlib import Path

from ampclient._http.options import RequestOptions
from ampclient._http.transport import Transport
from ampclient._spec.spec_input import (
    Document,
    SpecSections,
    SpecSource,
    convert_model,
    split_options,
)
from ampclient._transfer.code import upload_code, with_code_digest
from ampclient._transfer.weights import Weights, has_source, with_weights


async def build_spec(
    transport: Transport,
    spec: SpecSource | None,
    options: SpecSections,
    *,
    code: str | PathLike[str] | None,
    weights: Weights | bool | None,
    upload: bool,
) -> tuple[Document, RequestOptions]:
    """The spec, and the options of the request.

    Args:
        transport: Sends the uploads.
        spec: The spec, or None.
        options: Its sections, and the options of the request.
        code: The folder of a bundle's code.
        weights: Those to start from. None: those of a Keras model, unless the spec names others;
            False: random weights.
        upload: Whether code and weights are sent; otherwise they are only hashed.

    Raises InvalidSpec, ValueError for unsuitable code or weights, and OSError.
    """
    source, sections, model_weights = convert_model(spec, options)
    document, request_options = split_options(source, sections)
    if isinstance(weights, bool) or weights is None:
        weights = model_weights if weights is not False and not has_source(document) else None
    if weights is not None:
        document = await with_weights(transport, document, weights, upload=upload)
    if code is not None:
        with_code = upload_code if upload else with_code_digest
        document = await with_code(transport, document, Path(code))
    return document, request_options
