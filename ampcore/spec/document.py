"""Read a YAML or JSON text the way people mean it: 1e-3 is a number, a doubled key a mistake."""

import re
from typing import Any, Final

import yaml

from ampcore.spec.problems import Problem, SpecInvalid

MAX_DIGITS: Final = 1000
"""Of a whole number; a float has 309 at most."""


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with YAML 1.2 floats, without dates, with unique keys, no aliases.

    A few hundred bytes of nested aliases stand for gigabytes once they are written out.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise _mistake("an alias (*) is not allowed here", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise _mistake(f"a key must be a name, not {key!r}", key_node.start_mark)
            if key in seen:
                raise _mistake(f"the key {key!r} stands here twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        # Python itself refuses to read, or to write, a number of more than some thousand digits.
        if len(node.value) > MAX_DIGITS:
            problem = f"a number must have at most {MAX_DIGITS} digits, not {len(node.value)}"
            raise _mistake(problem, node.start_mark)
        return int(super().construct_yaml_int(node))


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


def _mistake(problem: str, mark: yaml.Mark) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(None, None, problem, mark)


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
        received = f"a mistake{line}: {error.problem}"
    except yaml.YAMLError as error:
        received = " ".join(str(error).split())
    except RecursionError:
        received = "one nested too deeply"
    raise SpecInvalid([Problem("", "not_yaml", "a YAML or JSON document", received)])
