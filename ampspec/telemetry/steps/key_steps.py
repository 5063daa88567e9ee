"""The steps that a plot shows at every zoom level: skips, and changes of a loss scale."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ampspec.telemetry.steps import array_codec
from ampspec.telemetry.steps.block import StepBlock
from ampspec.telemetry.steps.buckets import SKIPPED

LOSS_SCALE = "loss_scale"


@dataclass(frozen=True)
class LastLossScales:
    """The loss scales of the step before `end_step`, by column."""

    end_step: int
    values: Mapping[str, float]

    @classmethod
    def of(cls, block: StepBlock) -> "LastLossScales":
        """The loss scales of the last step of a block that is not empty."""
        names = [name for name in block.names if is_loss_scale(name)]
        return cls(block.end_step, {name: float(block[name][-1]) for name in names})

    @classmethod
    def unknown(cls) -> "LastLossScales":
        """The value before the first step."""
        return cls(-1, {})


@dataclass(frozen=True)
class LossScaleChanges:
    """Steps whose loss scale differs from the step before: arrays with one value per change.

    `columns` holds the name of the scale's column (`loss_scale`, `loss_scale/generator`); the
    scales are float32.
    """

    steps: NDArray[np.int64]
    columns: NDArray[np.object_]
    old_scales: NDArray[np.float32]
    new_scales: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, index: Any) -> "LossScaleChanges":
        """A slice of the changes."""
        return LossScaleChanges(
            self.steps[index],
            self.columns[index],
            self.old_scales[index],
            self.new_scales[index],
        )


@dataclass(frozen=True)
class KeySteps:
    """The skipped steps (int64) and the changes of the loss scale in a range.

    Both in the order of steps; changes at the same step in the order of their columns.
    """

    skipped: NDArray[np.int64]
    changes: LossScaleChanges

    def between(self, start: int, end: int) -> "KeySteps":
        """The entries at steps s with `start` ≤ s < `end`."""
        low, high = np.searchsorted(self.skipped, (start, end))
        first, last = np.searchsorted(self.changes.steps, (start, end))
        return KeySteps(self.skipped[low:high], self.changes[first:last])

    @classmethod
    def of(cls, block: StepBlock, last_scales: LastLossScales) -> "KeySteps":
        """The key steps of a block; `last_scales` are those at the end of the previous block.

        Steps that are missing between the two do not hide that the scale has changed.
        """
        scales = last_scales.values if last_scales.end_step <= block.first_step else {}
        names = sorted(name for name in block.names if is_loss_scale(name))
        changes = [_changes(block, name, scales.get(name)) for name in names]
        skipped = block["step"][block[SKIPPED]] if SKIPPED in block else np.empty(0, np.int64)
        return cls(skipped, _sorted(changes))

    @classmethod
    def concat(cls, parts: Sequence["KeySteps"]) -> "KeySteps":
        """Concatenate the parts."""
        nothing = np.empty(0, np.int64)
        skipped = np.concatenate([nothing, *(part.skipped for part in parts)])
        return cls(skipped, _joined([part.changes for part in parts]))


def encode_key_steps(key_steps: KeySteps) -> bytes:
    """KeySteps as bytes."""
    changes = key_steps.changes
    names = sorted(set(changes.columns.tolist()))
    of_name = {name: changes[changes.columns == name] for name in names}
    arrays = {SKIPPED: np.diff(key_steps.skipped, prepend=0)}
    for name, column_changes in of_name.items():
        arrays |= {f"{name}.step": np.diff(column_changes.steps, prepend=0)}
        arrays |= {
            f"{name}.before": column_changes.old_scales,
            f"{name}.after": column_changes.new_scales,
        }
    return array_codec.encode(arrays)


def decode_key_steps(payload: bytes) -> KeySteps:
    """The key steps that `encode_key_steps` wrote to `payload`."""
    arrays = array_codec.decode(payload)
    skipped = np.cumsum(arrays.pop(SKIPPED))
    changes = []
    for name in dict.fromkeys(name.rpartition(".")[0] for name in arrays):
        steps = np.cumsum(arrays[f"{name}.step"])
        names = np.full(len(steps), name, np.object_)
        changes.append(
            LossScaleChanges(steps, names, arrays[f"{name}.before"], arrays[f"{name}.after"])
        )
    return KeySteps(skipped, _sorted(changes))


def is_loss_scale(name: str) -> bool:
    """Whether a column holds a loss scale."""
    return name == LOSS_SCALE or name.startswith(f"{LOSS_SCALE}/")


def _changes(block: StepBlock, name: str, last_scale: float | None) -> LossScaleChanges:
    values = block[name].astype(np.float32)
    chain = np.concatenate(
        [values[:1] if last_scale is None else np.array([last_scale], np.float32), values]
    )
    # NaN means that the column was missing: the previous value is unknown.
    at = np.flatnonzero((chain[1:] != chain[:-1]) & ~np.isnan(chain[1:] + chain[:-1]))
    names = np.full(len(at), name, np.object_)
    return LossScaleChanges(block["step"][at], names, chain[at], chain[at + 1])


def _joined(parts: Sequence[LossScaleChanges]) -> LossScaleChanges:
    return LossScaleChanges(
        np.concatenate([np.empty(0, np.int64), *(part.steps for part in parts)]),
        np.concatenate([np.empty(0, np.object_), *(part.columns for part in parts)]),
        np.concatenate([np.empty(0, np.float32), *(part.old_scales for part in parts)]),
        np.concatenate([np.empty(0, np.float32), *(part.new_scales for part in parts)]),
    )


def _sorted(parts: Sequence[LossScaleChanges]) -> LossScaleChanges:
    joined = _joined(parts)
    return joined[np.argsort(joined.steps, kind="stable")]
