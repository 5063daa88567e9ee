"""Writes the reference of the layers of a spec as Markdown, from their JSON schemas and docstrings.

python -m ampspec.reference.layers > docs/reference/layers.md
"""

import inspect
import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, Final, get_args

from ampspec.layers.base import Layer
from ampspec.layers.catalog import LAYERS, LEFT_OUT, LEFT_OUT_ARGUMENTS
from ampspec.layers.entry import Reuse
from ampspec.layers.fields import Activation
from ampspec.layers.inference import MAX_OUTPUT_SIZE, MAX_PARAMETERS, MAX_RANK
from ampspec.layers.weight_options import Constraint, Initializer, Regularizer, WeightOption
from ampspec.reference.spec import ReferenceSections, Schema

OPTIONS: Final[dict[str, type[WeightOption]]] = {
    "initializer": Initializer,
    "regularizer": Regularizer,
    "constraint": Constraint,
}
EXAMPLES: Final = {
    "initializer": "{name: random_normal, stddev: 0.02}",
    "regularizer": "{name: l2, l2: 0.0001}",
    "constraint": "{name: max_norm, max_value: 3.0}",
}
SHARED: Final = ("layer", "name", "inputs", "trainable")

HEAD: Final = f"""\
# Layers

The kinds of layer that `model: {{kind: layers}}` builds a network from: {len(LAYERS)} classes of
`keras.layers`, with their names, arguments and defaults in Keras. To connect layers, see
[custom models](../guides/custom-models.md). Channels are the last axis, and shapes leave out the
batch; axes are counted as in Keras: the batch is 0, the last axis -1.

A network has at most 1,024 layers and {MAX_PARAMETERS:,} parameters; an output has at most
{MAX_RANK} axes and {MAX_OUTPUT_SIZE:,} numbers for an example.

*Generated from the JSON schemas by `python -m ampspec.reference.layers`. `GET /api/v1/layers`
returns the schemas.*
"""


def render_page() -> str:
    """The whole reference."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield HEAD
    yield "## Every layer\n"
    yield from _fields(Layer, SHARED)
    yield "## `reuse`\n"
    yield f"{Reuse.__doc__}\n"
    yield from _fields(Reuse, tuple(Reuse.model_fields))
    for module, kinds in groupby(LAYERS.values(), key=lambda kind: kind.__module__):
        yield f"## {_first_line(sys.modules[module])}\n"
        for kind in kinds:
            yield f"### `{kind.__name__}`\n"
            yield f"{inspect.cleandoc(kind.__doc__ or '')}\n"
            yield from _fields(kind, tuple(kind.model_fields.keys() - set(SHARED)))
    yield "## Activations\n"
    yield f"{', '.join(f'`{name}`' for name in get_args(Activation))}.\n"
    for name, option in OPTIONS.items():
        yield from _option(name, option)
    yield "## Unsupported layers and arguments\n"
    yield "| class of `keras.layers` | why |\n| --- | --- |"
    yield from (f"| `{name}` | {reason} |" for name, reason in LEFT_OUT.items())
    yield "\n| argument | why |\n| --- | --- |"
    yield from (f"| `{name}` | {reason} |" for name, reason in LEFT_OUT_ARGUMENTS.items())
    yield ""


def _first_line(module: Any) -> str:
    return (inspect.getdoc(module) or "").partition("\n")[0].rstrip(".")


def _fields(part: type[Any], names: tuple[str, ...]) -> Iterator[str]:
    """The table of these fields, the required ones first."""
    schema = part.model_json_schema()
    required = schema.get("required", [])
    order = sorted(names, key=lambda name: (name not in required, [*part.model_fields].index(name)))
    properties = {name: schema["properties"][name] for name in order}
    yield from _LayerSections(schema).fields("", {**schema, "properties": properties}, part)


class _LayerSections(ReferenceSections):
    """Links to the activations, to the options of weights and to the layers inside."""

    derived_defaults: Mapping[str, str] = {"name": "its kind, numbered"}

    def value(self, field: Schema, path: str) -> str:
        """The allowed values of a field, for people."""
        references = [
            option["$ref"].rpartition("/")[2]
            for option in field.get("anyOf", [field])
            if "$ref" in option
        ]
        options = field.get("anyOf", [field])
        if "enum" in options[0] and set(options[0]["enum"]) == set(get_args(Activation)):
            return "[activation](#activations)" + (" or null" if len(options) > 1 else "")
        if not references:
            return super().value(field, path)
        links = [
            f"[{name.lower()}](#{name.lower()}s)" if name.lower() in OPTIONS else f"`{name}`"
            for name in references
        ]
        null = [" or null"] if {"type": "null"} in field.get("anyOf", []) else [""]
        return " or ".join(links) + null[0]


def _option(name: str, option: type[WeightOption]) -> Iterator[str]:
    yield f"## {name.capitalize()}s\n"
    yield f"{option.__doc__} A name alone has Keras's defaults; with arguments it is an object:"
    yield f"`{EXAMPLES[name]}`.\n"
    schema = option.model_json_schema()["properties"]
    values = _LayerSections({})
    yield "| name | arguments |\n| --- | --- |"
    for kind, arguments in option.arguments.items():
        described = (
            f"`{argument}`: {values.value(schema[argument], '').removesuffix(' or null')}"
            for argument in arguments
        )
        yield f"| `{kind}` | {'; '.join(described)} |"
    yield ""


if __name__ == "__main__":
    sys.stdout.write(render_page())
