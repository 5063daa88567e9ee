"""Metrics of a job by validation example, small enough to store in a study."""

import math
import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, Self
from zlib import compress, decompressobj

MAX_GROUPS: Final = 4096
"""Maximum number of values; more examples are averaged in groups of equal size."""
MAX_METRICS: Final = 64
FLOAT_BYTES: Final = 4


@dataclass(frozen=True)
class ExampleResults:
    """The metrics of a job by validation example.

    Attributes:
        rows: The number of examples.
        digest: The digest of their row numbers; equal for jobs evaluated on the same rows.
        values: By metric as in evaluations (`val_accuracy`), the value of each example, or the mean
            of each group of consecutive ones; an incomplete last group is left out.
        means: By metric, the mean of all examples.
    """

    rows: int
    digest: str
    values: Mapping[str, Sequence[float]] = field(default_factory=dict)
    means: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def from_table(cls, content: bytes) -> Self:
        """The results in a `validation_examples.npy`. Raises ValueError."""
        # It loads NumPy, which a server needs only for studies.
        from ampspec.telemetry.validation_examples import read_examples

        rows, metrics = read_examples(content)
        if not len(rows):
            raise ValueError("Expected at least one validation example.")
        size = -(-len(rows) // MAX_GROUPS)
        whole = len(rows) // size * size
        values, means = {}, {}
        for name, column in list(metrics.items())[:MAX_METRICS]:
            mean = float(column.mean(dtype="float64"))
            if not math.isfinite(mean):
                continue
            groups = column[:whole].reshape(-1, size).mean(axis=1, dtype="float64")
            values[f"val_{name}"] = groups.tolist()
            means[f"val_{name}"] = mean
        return cls(len(rows), sha256(rows.tobytes()).hexdigest()[:16], values, means)

    def to_json(self) -> dict[str, Any]:
        """The results as JSON values; each metric as compressed float32."""
        packed = {name: _pack(values) for name, values in self.values.items()}
        return {
            "rows": self.rows,
            "digest": self.digest,
            "values": packed,
            "means": dict(self.means),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The results of a stored document."""
        values = {name: _unpack(text) for name, text in document["values"].items()}
        return cls(document["rows"], document["digest"], values, document["means"])


def _pack(values: Sequence[float]) -> str:
    return b64encode(compress(_little_endian(array("f", values)).tobytes())).decode("ascii")


def _unpack(text: str) -> list[float]:
    content = decompressobj().decompress(b64decode(text), MAX_GROUPS * FLOAT_BYTES)
    return list(_little_endian(array("f", content)))


def _little_endian(numbers: "array[float]") -> "array[float]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
