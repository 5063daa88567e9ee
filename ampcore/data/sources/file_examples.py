"""FileExamples: examples that are read from a data file and prepared as they are needed."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ampcore.data.examples import (
    ArrayExamples,
    Batch,
    Examples,
    consecutive,
    example_bytes,
    single_or_all,
)
from ampcore.data.preparation.file_rows import CHUNK_BYTES, FileRows, Indices
from ampcore.data.preparation.preprocessing import PreparedInputs
from ampcore.data.preparation.targets import Encoding, join_columns
from ampspec.data.target_columns import OUTPUT


class FileExamples:
    """Examples on the disk.

    Args:
        rows: Their rows.
        inputs: Prepares the inputs.
        targets: The columns of each target.
        encodings: How they become targets; none: the inputs are the targets.
    """

    def __init__(
        self,
        rows: FileRows,
        inputs: PreparedInputs,
        targets: Mapping[str, tuple[str, ...]],
        encodings: Mapping[str, Encoding],
    ) -> None:
        self._rows, self._inputs = rows, inputs
        self._targets, self._encodings = targets, encodings
        used = [column for group in targets.values() for column in group]
        self._columns = list(dict.fromkeys([*inputs.columns, *used]))
        x = single_or_all(inputs.specs)
        y = {output: encoding.spec for output, encoding in encodings.items()}
        self.spec = Batch(x, _single(y) if y else x)

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, rows: Indices) -> Batch:
        """The prepared examples with these indices. Raises InvalidData for a bad row."""
        numbers = self._rows.rows[rows]
        raw = self._rows.source.read(numbers, self._columns)
        inputs = {column: raw[column] for column in self._inputs.columns}
        self._rows.check_inputs(numbers, inputs, self._inputs.plans, self._inputs.key_limits)
        x = self._inputs(inputs)
        if not self._encodings:
            return Batch(x, x)
        return Batch(
            x,
            _single(
                {
                    output: encoding(
                        join_columns([raw[column] for column in self._targets[output]]),
                        self._rows.name,
                        ", ".join(self._targets[output]),
                    )
                    for output, encoding in self._encodings.items()
                }
            ),
        )


def resident_if_small(examples: FileExamples, memory_bytes: float) -> Examples:
    """The same examples in memory, if they need at most `memory_bytes`. Raises InvalidData."""
    if example_bytes(examples) * len(examples) > memory_bytes:
        return examples
    size = max(1, CHUNK_BYTES // max(1, example_bytes(examples)))
    pieces = list(consecutive(examples, size))
    return ArrayExamples(
        tf.nest.map_structure(lambda *parts: np.concatenate(parts), *pieces)
        if len(pieces) > 1
        else pieces[0]
    )


def _single(targets: dict[str, Any]) -> Any:
    """The targets of the only output of a task without names of outputs, else all by name."""
    return targets.get(OUTPUT, targets)
