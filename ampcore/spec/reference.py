"""The reference of the job spec as Markdown, made from its JSON schema and the words beside it.

python -m ampcore.spec.reference > docs/reference/spec.md
"""

import ast
import inspect
import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

from ampcore.spec.job import JobSpec
from ampcore.spec.part import Part

Schema = dict[str, Any]

HEAD: Final = """\
# The job spec

YAML or JSON. An unknown field is an error, and values keep the type they were written in: `"256"`
is no integer. All mistakes are told at once. What it means in practice is told in
[mixed precision in practice](../guides/mixed-precision.md) and [the trainer](../guides/trainer.md).

*Made from the JSON schema by `python -m ampcore.spec.reference`; `GET /api/v1/models`, `/datasets`,
`/optimizers` and `/policies` tell the same to programs.*
"""
MADE: Final = {
    "loss_scale": "dynamic where a layer computes in float16, else none",
    "name": "the model's kind and the policy",
}
"""Defaults that depend on the rest of the spec."""
TAGS: Final = ("kind", "mode")
"""The fields that say which part of several it is."""
LIMITS: Final = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
LENGTHS: Final = {"minLength": "≥", "maxLength": "≤"}


def page() -> str:
    """The whole reference."""
    return "\n".join([HEAD, *_Sections().lines()])


class _Sections:
    """A section for the spec, and one for each place in it that has fields of its own."""

    def __init__(self) -> None:
        self._schema: Schema = JobSpec.model_json_schema()
        self._places: dict[tuple[str, ...], str] = {}
        """Where parts were met first, by their names; they are told there."""

    def lines(self) -> Iterator[str]:
        """Every section, those of inner places behind those that they are in."""
        yield from self._fields("", self._schema, JobSpec)
        told = 0
        while told < len(self._places):
            names, place = list(self._places.items())[told]
            told += 1
            yield f"## `{place}`\n"
            yield from self._parts(place, names)

    def _parts(self, place: str, names: Sequence[str]) -> Iterator[str]:
        if len(names) == 1:
            yield from self._part(place, names[0])
            return
        for name in names:
            tag, value = _tag(self._schema["$defs"][name])
            yield f"### `{tag}: {value}`\n"
            yield from self._part(place, name)

    def _part(self, place: str, name: str) -> Iterator[str]:
        schema, part = self._schema["$defs"][name], _parts_by_name()[name]
        yield f"{schema['description']}\n"
        yield from self._fields(place, schema, part)

    def _fields(self, place: str, schema: Schema, part: type[Part]) -> Iterator[str]:
        fields = {n: s for n, s in schema["properties"].items() if n not in TAGS or not _is_tag(s)}
        if not fields:
            return
        words = _words_of(part)
        required = schema.get("required", ())
        yield "| field | value | default | |"
        yield "| --- | --- | --- | --- |"
        for name, field in fields.items():
            inner = f"{place}.{name}" if place else name
            value, note = self._value(field, inner), " ".join(words.get(name, "").split())
            cells = [f"`{name}`", value, _default(name, field, name in required), note]
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
        yield ""

    def _value(self, field: Schema, place: str) -> str:
        """What may stand there, in words."""
        if parts := _references(field):
            told = self._places.setdefault(tuple(parts), place)
            return f"[`{told}`](#{_anchor(told)})"
        if "anyOf" in field:
            return " or ".join(self._value(option, place) for option in field["anyOf"])
        if "enum" in field:
            return ", ".join(f"`{value}`" for value in field["enum"])
        match field.get("type"):
            case "array":
                return f"list of {self._value(field['items'], f'{place}[]')}"
            case "object" if isinstance(inner := field.get("additionalProperties"), dict):
                return f"by name: {self._value(inner, f'{place}.*')}"
        return _plain(field)


def _plain(field: Schema) -> str:
    """A value without parts, and its limits."""
    limits = [f"{sign} {_number(field[key])}" for key, sign in LIMITS.items() if key in field]
    lengths = [f"{sign} {field[key]} characters" for key, sign in LENGTHS.items() if key in field]
    pattern = [f"`{field['pattern']}`"] if "pattern" in field else []
    return " ".join([field["type"], ", ".join([*limits, *lengths, *pattern])]).strip()


def _references(field: Schema) -> list[str]:
    """The names of the parts, one of which may stand there."""
    options = field.get("oneOf") or field.get("allOf") or [field]
    return [option["$ref"].rpartition("/")[2] for option in options if "$ref" in option]


def _default(name: str, field: Schema, required: bool) -> str:
    if required:
        return "required"
    if name in MADE:
        return MADE[name]
    if "default" not in field:
        return "`{}`"
    value = field["default"]
    if isinstance(value, dict):
        tags = [f"{tag}: {value[tag]}" for tag in TAGS if tag in value]
        return f"`{{{tags[0]}}}`" if tags else "its defaults"
    return f"`{_number(value) if isinstance(value, int | float) else json.dumps(value)}`"


def _number(value: float) -> str:
    """Large powers of two as such."""
    if isinstance(value, bool):
        return json.dumps(value)
    for less, suffix in ((0, ""), (1, " - 1")):
        whole = int(value) + less
        if value == int(value) and whole >= 2**16 and whole & (whole - 1) == 0:
            return f"2^{whole.bit_length() - 1}{suffix}"
    if 0 < value < 2**-16 and (1 / value).is_integer() and int(1 / value).bit_count() == 1:
        return f"2^-{int(1 / value).bit_length() - 1}"
    return f"{value:g}" if isinstance(value, float) else f"{value}"


def _is_tag(field: Schema) -> bool:
    return "const" in field


def _tag(schema: Schema) -> tuple[str, str]:
    """What says that it is this part."""
    for name in TAGS:
        if _is_tag(field := schema["properties"].get(name, {})):
            return name, field["const"]
    raise ValueError(f"expected a part with one of {TAGS}, received {schema['title']}")


def _parts_by_name(base: type[Part] = Part) -> dict[str, type[Part]]:
    found: dict[str, type[Part]] = {}
    for part in base.__subclasses__():
        found |= {part.__name__: part, **_parts_by_name(part)}
    return found


def _words_of(part: type[Part]) -> dict[str, str]:
    """The strings that stand below the fields, in the part's class or those it comes from."""
    words: dict[str, str] = {}
    for base in reversed(part.__mro__[: part.__mro__.index(Part)]):
        [tree] = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        body = tree.body if isinstance(tree, ast.ClassDef) else []
        for field, below in pairwise(body):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    words[name] = text
    return words


def _anchor(place: str) -> str:
    """As GitHub makes it of a heading."""
    return "".join(c for c in place.lower() if c.isalnum() or c in "-_")


if __name__ == "__main__":
    sys.stdout.write(page())
