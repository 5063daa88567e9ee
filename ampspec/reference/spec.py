"""Writes the reference of the job spec as Markdown, from its JSON schema and docstrings.

python -m ampspec.reference.spec > docs/reference/spec.md
"""

import ast
import inspect
import json
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from ampspec.documents.base import SpecModel
from ampspec.jobs.job import JobSpec

Schema = dict[str, Any]

HEAD: Final = """\
# The job spec

YAML or JSON. An unknown field is an error, and values keep the type they were written in: `"256"`
is not an integer. A section without `kind` or `mode` has its default: `optimizer:
{learning_rate: 0.01}` is `adam`. All errors are reported at once. For practical advice see
[mixed precision in practice](../guides/mixed-precision.md) and [the trainer](../guides/trainer.md).

*Generated from the JSON schema by `python -m ampspec.reference.spec`. `GET /api/v1/models`,
`/layers`, `/data-kinds`, `/optimizers` and `/policies` return the same as JSON.*
"""
DERIVED_DEFAULTS: Final = {
    "loss_scale": "dynamic if a layer computes in float16, else none",
    "name": "the model's kind and the policy",
}
"""Defaults that depend on the rest of the spec."""
TAGS: Final = ("kind", "mode", "layer")
"""The discriminator fields of unions."""
LIMITS: Final = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
LENGTHS: Final = {"minLength": "≥", "maxLength": "≤"}


def render_page() -> str:
    """The whole reference."""
    return "\n".join([HEAD, *ReferenceSections(JobSpec.model_json_schema()).lines()])


class ReferenceSections:
    """A section for the spec and one for each of its parts."""

    derived_defaults: Mapping[str, str] = DERIVED_DEFAULTS

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._first_paths: dict[tuple[str, ...], str] = {}
        """By part names, the path of their first occurrence, where they are documented."""

    def lines(self) -> Iterator[str]:
        """Every section; inner parts come after the parts that contain them."""
        yield from self.fields("", self._schema, JobSpec)
        documented = 0
        while documented < len(self._first_paths):
            names, path = list(self._first_paths.items())[documented]
            documented += 1
            yield f"## `{path}`\n"
            yield from self._parts(path, names)

    def _parts(self, path: str, names: Sequence[str]) -> Iterator[str]:
        if len(names) == 1:
            yield from self._part(path, names[0])
            return
        for name in names:
            tag, value = _tag(self._schema["$defs"][name])
            yield f"### `{tag}: {value}`\n"
            yield from self._part(path, name)

    def _part(self, path: str, name: str) -> Iterator[str]:
        schema, part = self._schema["$defs"][name], _parts_by_name()[name]
        yield f"{schema['description']}\n"
        yield from self.fields(path, schema, part)

    def fields(self, path: str, schema: Schema, part: type[SpecModel]) -> Iterator[str]:
        """The table of the fields of a part; nothing if it has none."""
        fields = {n: s for n, s in schema["properties"].items() if n not in TAGS or not _is_tag(s)}
        if not fields:
            return
        field_docs = _field_docs(part)
        required = schema.get("required", ())
        yield "| field | value | default | |"
        yield "| --- | --- | --- | --- |"
        for name, field in fields.items():
            inner = f"{path}.{name}" if path else name
            value, note = self.value(field, inner), " ".join(field_docs.get(name, "").split())
            cells = [f"`{name}`", value, self._default(name, field, name in required), note]
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
        yield ""

    def value(self, field: Schema, path: str) -> str:
        """The allowed values of a field, for people."""
        if parts := _references(field):
            documented = self._first_paths.setdefault(tuple(parts), path)
            return f"[`{documented}`](#{_anchor(documented)})"
        if "anyOf" in field:
            return " or ".join(self.value(option, path) for option in field["anyOf"])
        if "enum" in field:
            return ", ".join(f"`{value}`" for value in field["enum"])
        match field.get("type"):
            case "array" if "prefixItems" in field:
                parts = field["prefixItems"]
                return f"list of {len(parts)}: {self.value(parts[0], f'{path}[]')}"
            case "array":
                return f"list of {self.value(field['items'], f'{path}[]')}"
            case "object" if inner := _entries(field):
                return f"by name: {self.value(inner, f'{path}.*')}"
        return _plain(field)

    def _default(self, name: str, field: Schema, required: bool) -> str:
        if required:
            return "required"
        if name in self.derived_defaults:
            return self.derived_defaults[name]
        if "default" not in field:
            return "`{}`"
        value = field["default"]
        if isinstance(value, dict):
            tags = [f"{tag}: {value[tag]}" for tag in TAGS if tag in value]
            return f"`{{{tags[0]}}}`" if tags else "its defaults"
        return f"`{_number(value) if isinstance(value, int | float) else json.dumps(value)}`"


def _entries(field: Schema) -> Schema | None:
    """The schema of the entries of an object whose names are free."""
    if isinstance(inner := field.get("additionalProperties"), dict):
        return inner
    return next(iter(field.get("patternProperties", {}).values()), None)


def _plain(field: Schema) -> str:
    """The type of a plain value, and its limits."""
    limits = [f"{sign} {_number(field[key])}" for key, sign in LIMITS.items() if key in field]
    lengths = [f"{sign} {field[key]} characters" for key, sign in LENGTHS.items() if key in field]
    pattern = [f"`{field['pattern']}`"] if "pattern" in field else []
    return " ".join([field["type"], ", ".join([*limits, *lengths, *pattern])]).strip()


def _references(field: Schema) -> list[str]:
    """The names of the parts that the field may hold."""
    options = field.get("oneOf") or field.get("allOf") or [field]
    return [option["$ref"].rpartition("/")[2] for option in options if "$ref" in option]


def _number(value: float) -> str:
    """A number for people; large powers of two as 2^n."""
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
    """The discriminator of a part and its value."""
    for name in TAGS:
        if _is_tag(field := schema["properties"].get(name, {})):
            return name, field["const"]
    raise ValueError(f"expected a part with one of {TAGS}, received {schema['title']}")


def _parts_by_name(base: type[SpecModel] = SpecModel) -> dict[str, type[SpecModel]]:
    parts: dict[str, type[SpecModel]] = {}
    for part in base.__subclasses__():
        parts |= {part.__name__: part, **_parts_by_name(part)}
    return parts


def _field_docs(part: type[SpecModel]) -> dict[str, str]:
    """The docstrings of the fields, from the class of the part and its base classes."""
    field_docs: dict[str, str] = {}
    for base in reversed(part.__mro__[: part.__mro__.index(SpecModel)]):
        [tree] = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        body = tree.body if isinstance(tree, ast.ClassDef) else []
        for field, below in pairwise(body):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    field_docs[name] = text
    return field_docs


def _anchor(path: str) -> str:
    """The anchor that GitHub gives a heading."""
    return "".join(c for c in path.lower() if c.isalnum() or c in "-_")


if __name__ == "__main__":
    sys.stdout.write(render_page())
