"""The explanation of a step as plain text; long lists are folded."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ampspec.documents.text import plural

Json = Mapping[str, Any]

FOLDED_ROWS: Final = 6
"""The number of rows of a folded list."""
MAX_VALUES: Final = 8

KINDS: Final = {
    "skip": "skipped",
    "nonfinite_loss": "the loss is not finite",
    "nonfinite_gradients": "the gradients are not finite",
    "loss_spike": "loss spike",
    "grad_norm_jump": "jump of the gradient norm",
    "normal": "nothing remarkable",
}
ATTRIBUTIONS: Final = {
    "data": "the data",
    "loss_scale": "the loss scale",
    "operation": "an operation",
    "weights": "the weights",
    "not_reproducible": "not reproducible",
    "normal": "none",
    "unknown": "unknown",
}


def cost_line(cost: Json) -> str:
    """The cost of a replay, shown before it starts."""
    start = f"the checkpoint after {plural(cost['first_step'], 'step')}"
    origin = start if cost["first_step"] else "the first step"
    seconds = cost.get("seconds")
    time = "" if seconds is None else f", {_duration(seconds)} at the speed of the run"
    return f"Replaying {plural(cost['steps'], 'step')} from {origin}{time}."


def explanation_lines(explanation: Json, *, folded: bool = True) -> list[str]:
    """The lines of an explanation; `folded` shortens long lists."""
    limit = FOLDED_ROWS if folded else None
    values, batch = explanation["values"], explanation["batch"]
    kind, attribution = explanation["kind"], explanation["attribution"]
    lines = [
        f"Step {explanation['step']} (epoch {batch['epoch']}, batch {batch['batch']}): "
        f"{KINDS.get(kind, kind)}",
        f"Due to: {ATTRIBUTIONS.get(attribution, attribution)}",
        "",
        explanation["sentence"],
        *([f"What to do: {explanation['advice']}"] if explanation["advice"] else []),
        "",
        f"loss {number(values['loss'])}   gradient norm {number(values['grad_norm'])}   "
        f"loss scale {number(values['loss_scale'])}   "
        f"learning rate {number(values['learning_rate'])}",
        _repeat_line(explanation["repeat"]),
    ]
    for title, rows in (
        ("Layers, in the order of the forward pass (* the first that is not finite)", _layers),
        ("Gradients of the variables", _variables),
        ("Tried", _tried),
        ("Comparison", _comparison),
        ("Examples", _examples),
    ):
        shown = list(rows(explanation, limit))
        lines += ["", title, *(f"  {row}" for row in shown)] if shown else []
    return lines


def number(value: Any) -> str:
    """A number for people; non-finite ones as they are written in JSON."""
    return f"{value:.4g}" if isinstance(value, int | float) else str(value)


def _repeat_line(repeat: Json) -> str:
    if repeat["equal_bits"]:
        return "Run twice: every bit of the results is equal."
    names = ", ".join(difference["name"] for difference in repeat["differences"])
    return f"Run twice: the results differ in {names}."


def _layers(explanation: Json, limit: int | None) -> Iterator[str]:
    rows = explanation["layers"]
    first = next((index for index, row in enumerate(rows) if row.get("is_first")), 0)
    start = 0 if limit is None else max(0, min(first - limit // 2, len(rows) - limit))
    shown = rows[start : None if limit is None else start + limit]
    if start:
        yield f"… {plural(start, 'layer')} before"
    for row in shown:
        mark = "*" if row.get("is_first") else " "
        yield (
            f"{mark} {row['layer']} ({row['kind']}, {row['dtype']}): "
            f"output {_counts(row['forward'])}; gradient {_counts(row['backward'])}"
        )
    yield from _left_out(len(rows) - start - len(shown) + explanation["layers_left_out"], "layer")


def _variables(explanation: Json, limit: int | None) -> Iterator[str]:
    rows = explanation["variables"]
    for row in rows[:limit]:
        yield (
            f"{row['variable']}: {_counts(row)} of {row['size']}; largest weight "
            f"{number(row['largest_value'])}"
        )
    yield from _left_out(
        len(rows) - len(rows[:limit]) + explanation["variables_left_out"], "variable"
    )


def _tried(explanation: Json, limit: int | None) -> Iterator[str]:
    rows = explanation["tried"]
    shown = rows if limit is None or len(rows) <= limit else [*rows[: limit - 1], rows[-1]]
    for row in shown:
        state = "finite" if row["finite_gradients"] else "not finite"
        state = state if row["finite_loss"] else "not finite, nor is the loss"
        note = " (as in the run)" if row.get("is_own") else ""
        scale = f", loss scale {number(row['loss_scale'])}" if row["dtype"] != "float32" else ""
        yield f"{row['dtype']}{scale}: gradients {state}{note}"
    yield from _left_out(len(rows) - len(shown), "computation")


def _comparison(explanation: Json, _: int | None) -> Iterator[str]:
    if (compared := explanation["comparison"]) is None:
        yield "nothing to compare: the weights or the inputs are not finite"
        return
    rows = [
        ("this batch", "own"),
        (f"{compared['other_batches']} other batches", "others"),
        ("the first step of the run", "at_start"),
        ("this batch, untrained weights", "untrained"),  # of version 0.5
    ]
    for title, name in rows:
        if (measured := compared.get(name)) is not None:
            loss, norm = number(measured["loss"]), number(measured["grad_norm"])
            yield f"{title}: loss {loss}, gradient norm {norm}"


def _examples(explanation: Json, limit: int | None) -> Iterator[str]:
    examples = explanation["examples"]
    if not examples["unusual"] and explanation["attribution"] != "data":
        return
    for row in examples["shown"][:limit]:
        loss = "" if row["loss"] is None else f", loss {number(row['loss'])}"
        place = f", {text}" if (text := place_text(row.get("place"))) else ""
        effect = _effect(row.get("effect"))
        at = f"(at {row['position']} of the batch)"
        yield f"training example {row['example']} {at}{place}{loss}{effect}"
        for name, view in {**row["inputs"], "target": next(iter(row["targets"].values()))}.items():
            yield f"  {name + ': ' if name else ''}{view_text(view)}"
    yield from _left_out(examples["unusual"] - len(examples["shown"][:limit]), "unusual example")


def _effect(measured: Json | None) -> str:
    if measured is None:
        return ""
    return f", which alone makes the gradient norm {number(measured['grad_norm'])}"


def place_text(place: Json | None) -> str:
    """Where an example is stored; empty if it is not known."""
    if place is None:
        return ""
    file = "the data" if place["file"] is None else place["file"]
    for unit in ("row", "character"):
        if place[unit] is not None:
            return f"{unit} {place[unit]} of {file}"
    return str(file)


def view_text(view: Json) -> str:
    """The input or target of an example in a line."""
    match view["kind"]:
        case "text":
            return repr(view["text"])
        case "picture":
            shape = " × ".join(map(str, view["shape"]))
            return f"picture {shape}, from {number(view['smallest'])} to {number(view['largest'])}"
    values: Sequence[Json] = view["values"]
    shown = [
        f"{entry['name']}={number(entry['value'])}" if len(values) > 1 else number(entry["value"])
        for entry in values[:MAX_VALUES]
    ]
    more = len(values) - len(shown) + view["left_out"]
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _counts(row: Json) -> str:
    bad = [f"{row[name]} {name}" for name in ("inf", "nan") if row[name]]
    return ", ".join([*bad, f"largest {number(row['largest'])}"])


def _left_out(count: int, noun: str) -> Iterator[str]:
    if count > 0:
        yield f"… {plural(count, noun)} more (--all)"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "less than a second"
    return f"about {seconds:.0f} s" if seconds < 120 else f"about {seconds / 60:.0f} min"
