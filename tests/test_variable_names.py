"""Variables are named after the thing in them, not by a pronoun, participle or adjective alone.

`rows`, `checkpoint` or `limit` says what is there; `found`, `own` or `most` does not.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.tables import every_row

ROOT = Path(__file__).parents[1]
WORDS = """
    found own one made given wanted needed known named most left each other others rest good
    before after
"""
NOT_A_NAME = frozenset(WORDS.split())
USES = {
    "ampspec": 2,
    "ampdata": 0,
    "ampcore": 0,
    "infra": 0,
    "store": 0,
    "server": 0,
    "worker": 0,
    "ampclient": 18,  # the parameters `after` and fields `before`, `after` that users name
    "migrations": 0,
    "dashboard": 0,
}
"""How often each package still uses one of them; only ever lower a number."""


def variables(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Each use of a variable or parameter, and each assigned attribute, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, lineno=line) | ast.arg(arg=name, lineno=line):
                yield name, line
            case ast.Attribute(attr=name, ctx=ast.Store(), lineno=line):
                yield name, line


def uses_in(package: Path) -> Counter[str]:
    """The uses of words that are no names, each as `path:line: word`."""
    uses: Counter[str] = Counter()
    for file in package.rglob("*.py"):
        if "node_modules" in file.parts:
            continue
        for name, line in variables(ast.parse(file.read_text(encoding="utf-8"))):
            if name.strip("_") in NOT_A_NAME:
                uses[f"{file.relative_to(ROOT)}:{line}: {name}"] += 1
    return uses


@every_row("package", USES)
def test_variables_are_named_after_the_thing_in_them(package: str) -> None:
    uses = uses_in(ROOT / package)
    count = uses.total()
    assert count <= USES[package], f"{count} uses, such as {sorted(uses)[:20]}"


def test_the_check_sees_variables_parameters_and_attributes() -> None:
    code = "def f(own):\n    self.most = [one for one in rows]\n    return found.given\n"
    names = [name for name, _ in variables(ast.parse(code)) if name in NOT_A_NAME]
    assert sorted(names) == ["found", "most", "one", "one", "own"]
