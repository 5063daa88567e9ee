"""Reads the runs in a folder of TensorBoard: a run for each folder that has event files."""

import math
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ampclient.imports.foreign_run import ForeignRun, Point

EVENT_FILES: Final = "*tfevents*"
SCALARS: Final = "scalars"
BATCHES: Final = ("batch_", "evaluation_")
"""The callback of Keras counts batches in tags that begin so, …"""
EPOCHS: Final = "epoch_"
"""… and epochs in these."""


def tensorboard_runs(folder: Path) -> Iterator[ForeignRun]:
    """Each run in the folder and those below it.

    Args:
        folder: What `tensorboard --logdir` shows.

    Raises:
        ModuleNotFoundError: The package tensorboard is not installed.
        FileNotFoundError: There is no event file.
    """
    loader = _loader()
    folders = sorted({file.parent for file in folder.rglob(EVENT_FILES) if file.is_file()})
    if not folders:
        raise FileNotFoundError(
            f"expected files with `tfevents` in their names in {folder} or below, found none"
        )
    for path in folders:
        name = folder.resolve().name if path == folder else path.relative_to(folder).as_posix()
        run = ForeignRun(name, f"tensorboard {path}")
        for file in sorted(path.glob(EVENT_FILES)):
            _read(run, loader, file)
        _number_epochs_by_batches(run)
        yield run


def _loader() -> Any:
    try:
        from tensorboard.backend.event_processing import event_file_loader
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "reading TensorBoard's files needs its package: pip install tensorboard"
        ) from None
    # It reads the files of every version: older values become the tensors of today.
    return event_file_loader.EventFileLoader


def _read(run: ForeignRun, loader: Any, file: Path) -> None:
    from tensorboard.util import tensor_util

    plugins: dict[str, str] = {}
    for event in loader(str(file)).Load():
        for value in event.summary.value:
            if value.HasField("metadata") and value.metadata.plugin_data.plugin_name:
                plugins.setdefault(value.tag, value.metadata.plugin_data.plugin_name)
            plugin = plugins.get(value.tag, "others")
            if plugin != SCALARS:
                run.skipped[plugin] = run.skipped.get(plugin, 0) + 1
                continue
            number = float(tensor_util.make_ndarray(value.tensor).reshape(-1)[0])
            time_s = event.wall_time if math.isfinite(event.wall_time) else 0.0
            run.scalars.setdefault(value.tag, []).append(Point(event.step, time_s, number))


def _number_epochs_by_batches(run: ForeignRun) -> None:
    """Move what Keras logged for an epoch to the last batch before it: a run has one axis."""
    batches = [p for tag, points in run.scalars.items() if tag.startswith(BATCHES) for p in points]
    if not batches:
        return
    batches.sort(key=lambda point: point.time_s)
    times = [point.time_s for point in batches]
    for tag, points in run.scalars.items():
        if tag.startswith(EPOCHS):
            places = [max(0, bisect_right(times, point.time_s) - 1) for point in points]
            run.scalars[tag] = [
                point._replace(step=batches[place].step)
                for point, place in zip(points, places, strict=True)
            ]
