"""The weights that a job starts from, and the layers that it does not train."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from ampspec.documents.base import SpecModel
from ampspec.precision.precision import LayerPattern, check_matching_cost
from ampspec.references.stored_files import FILE_REFERENCE

JOB_ID: Final = r"^[0-9a-z]{1,32}$"


def _check_together(patterns: tuple[str, ...] | None) -> tuple[str, ...] | None:
    check_matching_cost(patterns or ())
    return patterns


class Init(SpecModel):
    """Trained weights to start from, which `job` or `weights` names.

    A weight of the model is loaded from the source weight with the same shape and name (the path
    of its layer, then its own name); other weights start as in a job without this section. The
    event `weights_loaded` reports what matched. The job fails if nothing matches.
    """

    job: Annotated[str, Field(pattern=JOB_ID)] | None = None
    """A job of the same project that has succeeded: its trained weights. Null: `weights` names
    the source."""
    weights: Annotated[str, Field(pattern=FILE_REFERENCE)] | None = None
    """An uploaded safetensors file, as `sha256:` and its SHA-256. Null: `job` names the source."""
    layers: Annotated[
        tuple[LayerPattern, ...] | None,
        Field(strict=False, min_length=1, max_length=256),
        AfterValidator(_check_together),
    ] = None
    """Regular expressions: only layers whose path matches one of them load weights. Null: all."""
    missing: Literal["keep", "error"] = "keep"
    """If a weight of these layers has no match in the source: `keep` its initial value, or fail
    with an `error`."""
    freeze: Annotated[
        tuple[LayerPattern, ...],
        Field(strict=False, max_length=256),
        AfterValidator(_check_together),
    ] = ()
    """Regular expressions: layers whose path matches one of them are not trained. Frozen
    normalization uses its loaded statistics and keeps them."""
