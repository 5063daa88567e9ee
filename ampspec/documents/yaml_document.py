"""Reads and writes YAML and JSON: YAML 1.2 floats (1e-3), no dates, unique keys, no aliases."""

import re
from typing import Any, Final

import yaml

from ampspec.documents.problems import Problem, SpecValidationError

MAX_DIGITS: Final = 1000
"""Maximum number of digits of an integer; a float has at most 309."""
MAX_DEPTH: Final = 100
"""Levels of nesting. That of Python itself differs between programs: libraries raise it."""


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with YAML 1.2 floats, without dates, with unique keys, no aliases.

    A few hundred bytes of nested aliases can expand to gigabytes.
    """

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        if self.check_event(yaml.AliasEvent):
            raise _yaml_error("an alias (*) is not allowed here", mark)
        if self._depth == MAX_DEPTH:
            problem = f"it is nested too deeply, in more than {MAX_DEPTH} levels"
            raise _yaml_error(problem, mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise _yaml_error(f"a key must be a name, not {key!r}", key_node.start_mark)
            if key in seen:
                raise _yaml_error(f"duplicate key {key!r}", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        # Python refuses to convert integers of more than a few thousand digits.
        if len(node.value) > MAX_DIGITS:
            problem = f"a number must have at most {MAX_DIGITS} digits, not {len(node.value)}"
            raise _yaml_error(problem, node.start_mark)
        return int(super().construct_yaml_int(node))


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


def _yaml_error(problem: str, mark: yaml.Mark) -> yaml.MarkedYAMLError:
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


def parse_yaml(text: str) -> Any:
    """The document in a YAML or JSON text. Raises SpecValidationError when it is not valid."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader, see above
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        received = f"invalid YAML{line}: {error.problem}"
    except yaml.YAMLError as error:
        received = " ".join(str(error).split())
    raise SpecValidationError([Problem("", "not_yaml", "a YAML or JSON document", received)])


class _Dumper(yaml.SafeDumper):
    """Writes YAML that `_Loader` reads back as the same values."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers


def yaml_text(document: Any) -> str:
    """A document of dictionaries, lists, text and numbers as YAML; small parts in one line."""
    text: str = yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None
    )
    return text
