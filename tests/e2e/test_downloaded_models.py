"""A table and a segmentation: pushed, trained, downloaded, and checked on raw data with Keras."""

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.xdist_group("stack")

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "file", "metric"),
    [("table", "houses.csv", "val_mae"), ("segmentation", "cells.npz", "val_accuracy")],
)
def test_the_downloaded_model_gives_the_metric_of_the_job_on_raw_data(
    stack: Any, terminal: Any, name: str, file: str, metric: str
) -> None:
    folder = EXAMPLES / name
    terminal.python(folder / "make_data.py")
    terminal.ampctl("dataset", "push", file, "--name", name)
    changes = [f"data.dataset={name}", 'data.path=""', "train.epochs=2", "runtime.engine=graph"]
    options = [option for change in changes for option in ("--set", change)]
    job = terminal.ampctl("submit", str(folder / "job.yaml"), *options).strip()
    terminal.ampctl("watch", job)
    terminal.ampctl("download", job, "--output", "out")
    shown = terminal.python(folder / "predict.py", "out/attempt-1")
    [found] = map(float, re.findall(r"\d+\.\d+", shown))
    assert found == pytest.approx(stack.client.jobs.get(job).metrics[metric], rel=0.02)
