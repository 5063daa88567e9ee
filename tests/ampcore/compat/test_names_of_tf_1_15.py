"""What the graph-and-session form uses of TensorFlow existed in version 1.15.

A TensorFlow 1.15 that this Python could import does not exist, so the names are compared with a
recorded list: `tensorflow_1_15_names.txt` has those that are used here, as 1.15 had them below
`tensorflow`. Add a name only after looking it up in the API of 1.15.

The communication between ranks is not compared: `ampcore.distributed.collectives` uses operations
of TensorFlow 2.4 where a loop of 1.15 called Horovod.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RECORDED = set((Path(__file__).parent / "tensorflow_1_15_names.txt").read_text().split())
EXAMPLE = ROOT / "examples" / "sok" / "amp_tf1.py"
LIBRARY = [
    *sorted((ROOT / "ampcore" / "compat").glob("*.py")),
    ROOT / "ampcore" / "precision" / "loss_scale.py",
    ROOT / "ampcore" / "precision" / "finite.py",
]


def dotted(node: ast.expr) -> str | None:
    """`tf.nn.relu` as "tf.nn.relu"; None for other expressions."""
    if isinstance(node, ast.Attribute):
        prefix = dotted(node.value)
        return prefix and f"{prefix}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else None


def names_of(file: Path) -> Iterator[str]:
    """The names of TensorFlow in a file, without `tf.` and `compat.v1.`, each as long as it is."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    inside = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inside:
            name = dotted(node)
            if name is not None and name.startswith("tf."):
                yield name.removeprefix("tf.").removeprefix("compat.v1.")


def used(files: list[Path]) -> set[str]:
    return {name for file in files for name in names_of(file)}


def test_the_example_uses_only_what_1_15_had():
    assert used([EXAMPLE]) - RECORDED == set()


def test_the_library_uses_only_what_1_15_had():
    assert used(LIBRARY) - RECORDED == set()


def test_every_recorded_name_is_used():
    assert RECORDED - used([EXAMPLE, *LIBRARY]) == set()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("tf.nn.relu(tf.compat.v1.train.Server)", {"nn.relu", "train.Server"}),
        ("x.tf.no; y = tf; tf.a.b.c", {"a.b.c"}),
    ],
)
def test_names_are_found_wherever_they_are_used(text, names, tmp_path):
    (tmp_path / "file.py").write_text(text)
    assert used([tmp_path / "file.py"]) == names
