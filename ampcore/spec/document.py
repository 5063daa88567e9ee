"""Read a YAML or JSON text the way people mean it: 1e-3 is a number, a doubled key a mistake."""

import re
from typing import Any

import yaml

from ampcore.spec.problems import Problem, SpecInvalid


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with YAML 1.2 floats, without dates, and with unique keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    None, None, f"expected a name as key, received {key!r}", node.start_mark
                )
        if len(keys) != len(set(keys)):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {twice!r} stands here twice", node.start_mark
            )
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, regexp) for tag, regexp in resolvers if not tag.endswith((":timestamp", ":float"))
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+\.\d*|\.\d+|\d+)([eE][-+]?\d+)?$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN)$"),
    list("-+.0123456789"),
)


def read_document(text: str) -> Any:
    """The document in a YAML (or JSON, its subset) text; SpecInvalid when it is none."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader, see above
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        received = f"{error.problem}{line}"
    except yaml.YAMLError as error:
        received = " ".join(str(error).split())
    except RecursionError:
        received = "one nested too deeply"
    raise SpecInvalid([Problem("", "not_yaml", "a YAML or JSON document", received)])
