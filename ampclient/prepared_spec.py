"""The spec to send for a job or a study, with what it needs uploaded: weights and code."""

from os import PathLike
from pathlib import Path

from ampclient._request_options import RequestOptions
from ampclient._transport import Transport
from ampclient.code_upload import upload_code, with_code_digest
from ampclient.spec_input import Document, SpecSections, SpecSource, convert_model, split_options
from ampclient.weights_upload import Weights, has_source, with_weights


async def prepared_spec(
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
            False: random ones.
        upload: Whether code and weights are sent; otherwise they are only hashed.

    Raises InvalidSpec, ValueError for unsuitable code or weights, and OSError.
    """
    source, sections, own = convert_model(spec, options)
    document, rest = split_options(source, sections)
    if isinstance(weights, bool) or weights is None:
        weights = own if weights is not False and not has_source(document) else None
    if weights is not None:
        document = await with_weights(transport, document, weights, upload=upload)
    if code is not None:
        named = upload_code if upload else with_code_digest
        document = await named(transport, document, Path(code))
    return document, rest
