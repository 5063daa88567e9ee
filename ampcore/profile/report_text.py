"""Formats the report of a profile for people, from its JSON form."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ampspec.documents.text import table_lines

BAR_WIDTH: Final = 30
NAME_WIDTH: Final = 58
OPERATION_HEADINGS: Final = (
    "operation",
    "phase",
    "dtype",
    "computed in",
    "calls",
    "total",
    "self",
    "average",
    "eligible",
    "16 bit",
    "Tensor Cores",
)
KERNEL_HEADINGS: Final = ("kernel", "dtype", "Tensor Cores", "calls", "total", "average", "longest")


def report_lines(report: Mapping[str, Any], *, rows: int = 20) -> Iterator[str]:
    """The figures, phases and dtypes, the longest operations and kernels, and the findings.

    Args:
        report: What `ampcore.profile.report.build_report` returned.
        rows: The most operations and kernels to list.
    """
    last = report["first_step"] + report["steps"] - 1
    device = report["device"]
    yield f"steps        {report['first_step']} to {last}, {seconds(report['step_s'])} each"
    yield f"policy       {report['policy']}, engine {report['engine']}"
    yield f"device       {device['kind']} {device['name']}".rstrip()
    yield from _share_lines(report["sixteen_bit"])
    yield from _bars("phase", report["phases"])
    yield from _bars("dtype", report["dtypes"])
    yield ""
    yield from table_lines(OPERATION_HEADINGS, map(_operation, report["operations"][:rows]))
    if report["kernels"]:
        yield ""
        yield from table_lines(KERNEL_HEADINGS, map(_kernel, report["kernels"][:rows]))
    for finding in report["findings"]:
        yield ""
        yield f"warning: {finding['message']}"
        yield f"  {finding['reason']}: {', '.join(map(short_name, finding['operations'][:5]))}"


def seconds(value: float) -> str:
    """A time with three digits: `12.3 ms`."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.0f} ns"


def short_name(name: str) -> str:
    """A name without the scopes of the loop and the phase, shortened to a width."""
    parts = name.split("/")
    is_gradient = "gradient_tape" in parts
    kept = [
        part
        for part in parts
        if part not in ("while", "body", "gradient_tape") and not part.startswith("phase.")
    ]
    short = ("grad: " if is_gradient else "") + "/".join(kept)
    return short if len(short) <= NAME_WIDTH else f"…{short[1 - NAME_WIDTH :]}"


def _share_lines(shares: Mapping[str, float | None]) -> Iterator[str]:
    labels = {
        "of_promised": "of the products of matrices that the policy promises in 16 bit",
        "of_matrices": "of all products of matrices",
        "of_step": "of all operations",
    }
    for name, label in labels.items():
        if (share := shares[name]) is not None:
            yield f"in 16 bit    {share:.1%} of the time {label}"
    if shares["casts"] is not None:
        yield f"casts        {shares['casts']:.1%} of the time"
    if shares["tensor_cores"] is not None:
        yield f"Tensor Cores {shares['tensor_cores']:.1%} of the time of eligible operations"


def _bars(key: str, parts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield ""
    for part in parts:
        share = part["share"]
        bar = "█" * round(BAR_WIDTH * (share or 0))
        figure = "outside of steps" if share is None else f"{share:6.1%}  {bar}"
        yield f"{part[key]:<18} {seconds(part['time_s']):>8} {figure}".rstrip()


def _operation(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        short_name(row["name"]),
        row["phase"],
        row["dtype"],
        row["computed_in"],
        f"{row['calls']:g}",
        seconds(row["total_s"]),
        seconds(row["self_s"]),
        seconds(row["average_s"]),
        _yes(row["eligible"]),
        _yes(row["in_16_bit"]) if row["reason"] is None else f"no: {row['reason']}",
        _yes(row["tensor_cores"]),
    )


def _kernel(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["name"][:NAME_WIDTH],
        row["dtype"] or "",
        _yes(row["tensor_cores"]),
        f"{row['calls']:g}",
        seconds(row["total_s"]),
        seconds(row["average_s"]),
        seconds(row["max_s"]),
    )


def _yes(value: bool | None) -> str:
    return {True: "yes", False: "no", None: ""}[value]
