"""Checks of sizes: 16-bit matrix products are fast in dimensions that are multiples of 8.

Products in float8 need multiples of 16. Source: NVIDIA, "Matrix Multiplication Background User's
Guide", on Tensor Core requirements; cuBLAS, "8-bit Floating Point Data Types".
"""

from collections.abc import Iterator
from typing import Final

from ampspec.preflight.case import Case, Finding, Severity

MULTIPLE: Final = 8
FLOAT8_MULTIPLE: Final = 16
DIMENSION_CODES: Final = {
    MULTIPLE: "dimension_not_multiple_of_8",
    FLOAT8_MULTIPLE: "dimension_not_multiple_of_16",
}


def layer_alignment(case: Case) -> Iterator[Finding]:
    """Dimensions of 16-bit layers that are not multiples of 8; each field of the spec once."""
    emitted: set[tuple[str, str]] = set()
    for layer in case.layers:
        for dimension in layer.dimensions if layer.half else ():
            key = (dimension.pointer, dimension.name)
            multiple = FLOAT8_MULTIPLE if layer.float8_share else MULTIPLE
            if dimension.size % multiple == 0 or key in emitted:
                continue
            emitted.add(key)
            multiples = nearest_multiples(dimension.size, multiple)
            yield Finding(
                DIMENSION_CODES[multiple],
                _severity(case),
                dimension.pointer,
                f"{layer.path}: {dimension.name} {dimension.size} is not a multiple of {multiple}, "
                f"which fast {layer.product_dtype} matrix products need; use {_or(multiples)}.",
                {
                    "layer": layer.path,
                    "dimension": dimension.name,
                    "size": dimension.size,
                    "nearest": list(multiples),
                },
            )


def batch_alignment(case: Case) -> Iterator[Finding]:
    """A batch size that is not a multiple of 8 while a layer computes in 16 bits."""
    size = case.spec.data.batch_size
    if size % MULTIPLE and case.half_dtypes:
        multiples = nearest_multiples(size)
        yield Finding(
            "batch_not_multiple_of_8",
            _severity(case),
            "/data/batch_size",
            f"A batch of {size} is not a multiple of {MULTIPLE}, which fast matrix products in "
            f"{' and '.join(case.half_dtypes)} need; use {_or(multiples)}.",
            {"size": size, "nearest": list(multiples)},
        )


def nearest_multiples(size: int, multiple: int = MULTIPLE) -> tuple[int, ...]:
    """The multiples below and above a size that is not one; never 0."""
    below = size // multiple * multiple
    return tuple(multiples for multiples in (below, below + multiple) if multiples)


def _severity(case: Case) -> Severity:
    # A GPU may run the whole product without Tensor Cores; a CPU only pads at the edges.
    return "warning" if any(device.kind == "gpu" for device in case.devices) else "info"


def _or(sizes: tuple[int, ...]) -> str:
    return " or ".join(map(str, sizes))
