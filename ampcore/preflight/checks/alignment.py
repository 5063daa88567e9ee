"""Checks of sizes: matrix products in 16 bits want dimensions that are multiples of 8.

Source: NVIDIA, "Matrix Multiplication Background User's Guide", on Tensor Core requirements.
"""

from collections.abc import Iterator
from typing import Final

from ampcore.preflight.case import Case
from ampcore.preflight.finding import Finding, Severity

MULTIPLE: Final = 8


def layer_alignment(case: Case) -> Iterator[Finding]:
    """Dimensions of 16-bit layers that are no multiples of 8; each place in the spec once."""
    told: set[tuple[str, str]] = set()
    for layer in case.layers:
        for dimension in layer.dimensions if layer.half else ():
            fact = (dimension.pointer, dimension.name)
            if dimension.size % MULTIPLE == 0 or fact in told:
                continue
            told.add(fact)
            good = nearest_good(dimension.size)
            yield Finding(
                "dimension_not_multiple_of_8",
                _severity(case),
                dimension.pointer,
                f"{layer.path}: {dimension.name} {dimension.size} is no multiple of {MULTIPLE}, "
                f"as fast products in {layer.compute} want it; {_or(good)} would be.",
                {
                    "layer": layer.path,
                    "dimension": dimension.name,
                    "size": dimension.size,
                    "nearest": list(good),
                },
            )


def batch_alignment(case: Case) -> Iterator[Finding]:
    """A batch that is no multiple of 8 while something computes in 16 bits."""
    size = case.spec.data.batch_size
    if size % MULTIPLE and case.half_dtypes:
        good = nearest_good(size)
        yield Finding(
            "batch_not_multiple_of_8",
            _severity(case),
            "/data/batch_size",
            f"A batch of {size} is no multiple of {MULTIPLE}, as fast products in "
            f"{' and '.join(case.half_dtypes)} want it; {_or(good)} would be.",
            {"size": size, "nearest": list(good)},
        )


def nearest_good(size: int) -> tuple[int, ...]:
    """The multiples of 8 on both sides of a size that is none; never 0."""
    below = size // MULTIPLE * MULTIPLE
    return tuple(good for good in (below, below + MULTIPLE) if good)


def _severity(case: Case) -> Severity:
    # On a GPU a whole product may leave the Tensor Cores; a CPU only pads at the edges.
    return "warning" if any(device.kind == "gpu" for device in case.devices) else "info"


def _or(sizes: tuple[int, ...]) -> str:
    return " or ".join(map(str, sizes))
