"""Step blocks as JSON: which columns are asked for, and how they are written."""

from collections.abc import Iterator

from ampcore.series import COLUMNS, StepBlock
from ampcore.series.jsonable import column_to_json
from ampcore.spec import Problem
from ampcore.spec.problems import closest, shown
from server.http.parameters import RequestInvalid
from server.http.responses import dumps

PIECE = 8192
"""Values turned into text at a time: Python's floats take four times the array's memory."""


def read_names(columns: str | None, block: StepBlock) -> list[str]:
    """The columns of a block that `columns` names, all when it is None; never `step`.

    Raises RequestInvalid for a name that no step carries.
    """
    if columns is None:
        return list(block.names)
    names = [name.strip() for name in columns.split(",")]
    unknown = [name for name in names if name not in block and not _possible(name, block)]
    if unknown:
        raise RequestInvalid([_unknown(name, block) for name in unknown])
    return [name for name in dict.fromkeys(names) if name != "step" and name in block]


def json_pieces(block: StepBlock, *, last: int | None, more: bool) -> Iterator[bytes]:
    """The answer to a read of steps, made while it is sent."""
    yield b'{"data":{'
    yield from _columns(block)
    rest = dumps({"steps_per_point": 1, "next": last, "more": more})
    yield b"}," + rest[1:].encode()


def _columns(block: StepBlock) -> Iterator[bytes]:
    for index, name in enumerate(("step", *block.names)):
        yield f"{',' if index else ''}{dumps(name)}:[".encode()
        column = block[name]
        for low in range(0, len(column), PIECE):
            text = dumps(column_to_json(column[low : low + PIECE]))
            yield (("," if low else "") + text[1:-1]).encode()
        yield b"]"


def _possible(name: str, block: StepBlock) -> bool:
    """A named extra (`loss/generator`) may come later, when there are no steps yet."""
    return not len(block) and name.partition("/")[0] in COLUMNS


def _unknown(name: str, block: StepBlock) -> Problem:
    names = ["step", *block.names]
    expected = f"columns among {', '.join(names)}"
    suggestion = closest(name, names)
    return Problem("/query/columns", "unknown_column", expected, shown(name), suggestion)
