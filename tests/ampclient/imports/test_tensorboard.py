"""Runs of TensorBoard, in files that its own package has written."""

import math

import pytest

from ampclient.imports.tensorboard import tensorboard_runs
from tests.ampclient.imports.event_files import scalar, tensor, write


def test_each_folder_with_event_files_is_a_run(tmp_path):
    write(
        tmp_path / "a", (0, 10.0, scalar("Loss/train", 2.0)), (4, 12.0, scalar("Loss/train", 1.0))
    )
    write(tmp_path / "a", (4, 12.0, scalar("top 5 %", 0.5)))
    write(tmp_path / "b" / "c", (0, 1.0, tensor("loss", math.nan)))
    first, second = tensorboard_runs(tmp_path)
    assert (first.name, second.name) == ("a", "b/c")
    assert first.columns() == {"Loss/train": "loss", "top 5 %": "top_5_"}
    assert list(first.rows()) == [
        (0, {"loss": 2.0}),
        (4, {"loss": 1.0, "top_5_": 0.5, "step_time_s": 2.0}),
    ]
    [(step, row)] = second.rows()
    assert (step, math.isnan(row["loss"])) == (0, True)


def test_epochs_of_keras_are_at_their_last_batch(tmp_path):
    batches = [(step, float(step), tensor("batch_loss", 1.0)) for step in range(4)]
    epochs = [(0, 1.5, tensor("epoch_loss", 0.5)), (1, 3.5, tensor("epoch_loss", 0.25))]
    write(tmp_path, *batches, *epochs)
    [run] = tensorboard_runs(tmp_path)
    assert run.columns() == {"batch_loss": "loss", "epoch_loss": "epoch_loss"}
    assert {step: row.get("epoch_loss") for step, row in run.rows()} == {
        **dict.fromkeys((0, 2)),
        1: 0.5,
        3: 0.25,
    }


def test_a_folder_without_event_files_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="files with `tfevents` in their names"):
        list(tensorboard_runs(tmp_path))
