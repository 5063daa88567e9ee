"""What the graph-and-session form uses of TensorFlow existed in version 1.15: names and arguments.

A TensorFlow 1.15 that this Python could import does not exist, so the code is compared with a
recorded list. `tensorflow_1_15.txt` has the names that are used here, as 1.15 had them below
`tensorflow`, and of those that are called the arguments that are used: after the last one that is
passed by position, or after `*`, those that are passed by name. Add a name or an argument only
after looking it up in the API of 1.15 (tensorflow/tools/api/golden/v1 of its source).

Calls are found in the source: of `tf.…`, of methods by their names, and of the optimizer that a
SessionOptimizer wraps. The communication between ranks is not compared:
`ampcore.distributed.collectives` uses operations of TensorFlow 2.4 where a loop of 1.15 called
Horovod.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "sok" / "amp_tf1.py"
OF_TF_2 = ("callable_values.py",)
"""What a graph that a session runs does not use."""
LIBRARY = [
    *(
        file
        for file in sorted((ROOT / "ampcore" / "compat").glob("*.py"))
        if file.name not in OF_TF_2
    ),
    ROOT / "ampcore" / "precision" / "loss_scale.py",
    ROOT / "ampcore" / "precision" / "finite.py",
]
METHODS = {
    "as_default": "Graph.as_default",
    "assign": "Variable.assign",
    "assign_add": "Variable.assign_add",
    "read_value": "Variable.read_value",
    "run": "Session.run",
}
"""Methods of TensorFlow's objects, which nothing else has under these names."""


class Call(NamedTuple):
    """A call of TensorFlow: how many arguments by position, and the names of the others.

    `expanded` tells whether a list is expanded into arguments.
    """

    name: str
    count: int
    keywords: tuple[str, ...]
    expanded: bool


class Signature(NamedTuple):
    """The arguments that may be passed by position or by name, and those by name only."""

    positional: tuple[str, ...]
    keywords: tuple[str, ...]
    any_number: bool


def read_recorded(text: str) -> dict[str, Signature | None]:
    """The recorded names; those that are called with their signatures."""
    return dict(map(read_line, text.splitlines()))


def read_line(line: str) -> tuple[str, Signature | None]:
    name, opened, rest = line.partition("(")
    if not opened:
        return name, None
    expression = ast.parse(f"lambda {rest.removesuffix(')')}: 0", mode="eval").body
    assert isinstance(expression, ast.Lambda)
    arguments = expression.args
    return name, Signature(
        tuple(each.arg for each in arguments.args),
        tuple(each.arg for each in arguments.kwonlyargs),
        arguments.vararg is not None,
    )


RECORDED = read_recorded((Path(__file__).parent / "tensorflow_1_15.txt").read_text())


def dotted(node: ast.expr) -> str | None:
    """`tf.nn.relu` as "tf.nn.relu"; None for other expressions."""
    if isinstance(node, ast.Attribute):
        prefix = dotted(node.value)
        return prefix and f"{prefix}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else None


def name_in_tensorflow(node: ast.expr) -> str | None:
    """`tf.compat.v1.Session` as "Session"; None for what is not of TensorFlow."""
    name = dotted(node)
    if name is None or not name.startswith("tf."):
        return None
    return name.removeprefix("tf.").removeprefix("compat.v1.")


def names_of(file: Path) -> Iterator[str]:
    """The names of TensorFlow in a file, each as long as it is."""
    tree = parse(file)
    inside = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inside:
            name = name_in_tensorflow(node)
            if name is not None:
                yield name


def calls_of(file: Path) -> Iterator[Call]:
    """The calls of TensorFlow's functions, classes and methods in a file."""
    tree = parse(file)
    wrapped = {
        id(node)
        for cls in ast.walk(tree)
        if isinstance(cls, ast.ClassDef) and cls.name == "SessionOptimizer"
        for node in ast.walk(cls)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = called_name(node.func, is_wrapped=id(node) in wrapped)
            if name is not None:
                yield Call(
                    name,
                    len(node.args),
                    tuple(keyword.arg or "**" for keyword in node.keywords),
                    any(isinstance(argument, ast.Starred) for argument in node.args),
                )


def called_name(function: ast.expr, *, is_wrapped: bool) -> str | None:
    name = name_in_tensorflow(function)
    if name is not None or not isinstance(function, ast.Attribute):
        return name
    if is_wrapped and dotted(function.value) == "self.optimizer":
        return f"train.Optimizer.{function.attr}"
    return METHODS.get(function.attr)


def parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def unknown(call: Call) -> list[str]:
    """What 1.15 did not have of a call: arguments that the list does not have."""
    signature = RECORDED.get(call.name)
    if signature is None:
        return [f"{call.name}: not recorded with arguments"]
    found = []
    if not signature.any_number and (call.expanded or call.count > len(signature.positional)):
        found.append(f"{call.name}: {call.count} arguments by position")
    known = (*signature.positional[call.count :], *signature.keywords)
    return found + [f"{call.name}: {name}=" for name in call.keywords if name not in known]


def used_names(files: list[Path]) -> set[str]:
    return {name for file in files for name in names_of(file)}


def used_calls(files: list[Path]) -> list[Call]:
    return [call for file in files for call in calls_of(file)]


@pytest.mark.parametrize("files", [[EXAMPLE], LIBRARY], ids=["example", "library"])
def test_only_names_of_1_15_are_used(files):
    assert used_names(files) - set(RECORDED) == set()


@pytest.mark.parametrize("files", [[EXAMPLE], LIBRARY], ids=["example", "library"])
def test_only_arguments_of_1_15_are_used(files):
    assert [problem for call in used_calls(files) for problem in unknown(call)] == []


def test_everything_recorded_is_used():
    files = [EXAMPLE, *LIBRARY]
    calls = used_calls(files)
    assert set(RECORDED) == used_names(files) | {call.name for call in calls}
    unused = []
    for name, signature in RECORDED.items():
        if signature is not None:
            own = [call for call in calls if call.name == name]
            by_position = max((call.count for call in own), default=0)
            by_name = {keyword for call in own for keyword in call.keywords}
            arguments = [*signature.positional[by_position:], *signature.keywords]
            unused += [f"{name}: {each}" for each in arguments if each not in by_name]
    assert unused == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("tf.nn.relu(tf.compat.v1.train.Server)", {"nn.relu", "train.Server"}),
        ("x.tf.no; y = tf; tf.a.b.c", {"a.b.c"}),
    ],
)
def test_names_are_found_wherever_they_are_used(text, names, tmp_path):
    (tmp_path / "file.py").write_text(text)
    assert used_names([tmp_path / "file.py"]) == names


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("tf.where(a, b, y=c)", []),
        ("tf.compat.v1.Session(graph=g)", []),
        ("tf.group(a, *b, name='x')", []),
        ("tf.where(a, b, c, d)", ["where: 4 arguments by position"]),
        ("tf.where(a, b, x=c)", ["where: x="]),
        ("tf.where(*a)", ["where: 1 arguments by position"]),
        ("tf.cast(a, **b)", ["cast: **="]),
        ("tf.random.uniform([2])", ["random.uniform: not recorded with arguments"]),
        ("tf.newaxis()", ["newaxis: not recorded with arguments"]),
        ("some.variable.assign(a, read_value=False)", ["Variable.assign: read_value="]),
        ("with tf.Graph().as_default(x): 0", ["Graph.as_default: 1 arguments by position"]),
        (
            "class SessionOptimizer:\n def f(self): self.optimizer.minimize()",
            ["train.Optimizer.minimize: not recorded with arguments"],
        ),
        ("class Other:\n def f(self): self.optimizer.minimize()", []),
    ],
)
def test_arguments_that_are_not_recorded_are_found(text, problems, tmp_path):
    (tmp_path / "file.py").write_text(text)
    assert [each for call in calls_of(tmp_path / "file.py") for each in unknown(call)] == problems
