"""Formats a preflight report for people, from its JSON form, so that a client can show it too."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ampspec.documents.text import table_lines

HEADINGS: Final = ("layer", "kind", "output", "parameters", "multiply-adds", "compute", "weights")
MEMORY_LABELS: Final = {"casts": "16-bit copies of the weights"}
"""Labels of memory parts whose field names are unclear."""
SUFFIXES: Final = ("", "k", "M", "G", "T", "P", "E")


def report_lines(report: Mapping[str, Any], *, layers: bool = False) -> Iterator[str]:
    """The figures, one per line, and the findings; with `layers`, the layer table first."""
    if layers and report["layers"]:
        several = len({layer["network"] for layer in report["layers"]}) > 1
        rows = [_cells(layer, several=several) for layer in report["layers"]]
        yield from table_lines(HEADINGS, rows, set(HEADINGS) - {"parameters", "multiply-adds"})
        yield ""
    if report["figures"] is not None:
        yield from figure_lines(report["figures"])
    if report["findings"]:
        yield ""
    for finding in report["findings"]:
        yield f"{finding['severity']}: {finding['message']}"
        yield f"  {finding['code']} at {finding['pointer'] or '/'}"


def figure_lines(figures: Mapping[str, Any]) -> Iterator[str]:
    """The figures, one per line."""
    networks = figures["networks"]
    shares = ", ".join(f"{name} {count:,}" for name, count in networks.items())
    yield f"policy       {figures['policy']}"
    yield f"parameters   {figures['parameters']:,}" + (f" ({shares})" if len(networks) > 1 else "")
    yield (
        f"per step     {format_count(figures['flops_per_step'])}FLOPs in matrix products, "
        f"{figures['share_in_16_bit']:.1%} of them in 16 bits"
        # A server before 0.6 has no such figure.
        + (f" or fewer, {share:.1%} in float8" if (share := figures.get("share_in_8_bit")) else "")
    )
    for policy, memory in figures["memory"].items():
        parts = ", ".join(
            f"{MEMORY_LABELS.get(name, name)} {format_bytes(size)}"
            for name, size in memory.items()
            if size and name != "total"
        )
        yield f"memory       {format_bytes(memory['total'])} in {policy} ({parts})"


def format_count(count: float) -> str:
    """A count with the prefix that leaves it below 1,000: `73.7 G`."""
    for suffix in SUFFIXES:
        if count < 1000:
            return f"{count:.3g} {suffix}"
        count /= 1000
    return f"{count:.3g} Z"


def format_bytes(size_bytes: int) -> str:
    """Bytes as KiB, MiB or GiB."""
    if size_bytes < 2**20:
        return f"{size_bytes / 2**10:.1f} KiB"
    if size_bytes < 2**30:
        return f"{size_bytes / 2**20:.1f} MiB"
    return f"{size_bytes / 2**30:.1f} GiB"


def _cells(layer: Mapping[str, Any], *, several: bool) -> tuple[str, ...]:
    return (
        f"{layer['network']}: {layer['path']}" if several else layer["path"],
        layer["kind"],
        "×".join(map(str, layer["output_shape"])),
        f"{layer['parameters']:,}",
        f"{layer['multiply_adds']:,}",
        layer["compute_dtype"],
        layer["variable_dtype"],
    )
