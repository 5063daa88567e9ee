"""What people log: every row arrives under its number, and what is left out is said.

The loops are small forms of reports about other trackers, which dropped or renumbered these rows.
"""

import math
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from sqlalchemy import select

from ampspec.telemetry.steps.missing import is_missing
from server.background.compactor import Compactor
from store.tables import EventRow
from tests.tables import every_row


@pytest.fixture
def warnings_of(api):
    """The code and the message of each warning of a run."""

    def read(run):
        with api.database.read() as session:
            query = select(EventRow).where(EventRow.job_id == run.id, EventRow.type == "warning")
            events = session.scalars(query.order_by(EventRow.seq)).all()
        return [(event.data["code"], event.data["message"]) for event in events]

    return read


def test_none_is_an_empty_cell_and_the_other_values_of_the_row_stay(track, stored, job_of):
    with track() as run:
        for step in range(60):
            run.log(step, loss=1.0 + step, val_acc=0.5 if step % 10 == 0 else None)
    block = stored(run)
    assert block["step"].tolist() == list(range(60))
    assert block["loss"].tolist() == [1.0 + step for step in range(60)]
    assert is_missing(block["val_acc"]).sum() == 54
    assert block["val_acc"][::10].tolist() == [0.5] * 6
    assert "dropped" not in job_of(run).summary


def test_a_loss_of_nan_is_told_from_one_that_was_not_logged(track, stored, job_of):
    with track() as run:
        run.log(0, loss=math.nan)
        run.log(1, loss=math.inf)
        run.log(2, loss=2.5)
        run.log(3, val_acc=0.5)
    block = stored(run)
    assert is_missing(block["loss"]).tolist() == [False, False, False, True]
    assert repr(block["loss"][:3].tolist()) == "[nan, inf, 2.5]"
    assert job_of(run).latest["loss"] == 2.5  # the last one that was logged


def test_steps_may_begin_anywhere_and_have_gaps(track, stored, job_of):
    with track(total_steps=2000) as run:
        for step in range(1000, 2000, 100):
            run.log(step, loss=float(step))
    block = stored(run)
    assert block["step"].tolist() == list(range(1000, 2000, 100))
    assert (job_of(run).step, job_of(run).totals["steps"]) == (1901, 10)


def test_a_validation_with_the_number_of_the_step_before_is_in_its_row(track, stored):
    """open-mmlab/mmdetection: the values of the validation were dropped at each 1000th step."""
    with track() as run:
        for step in range(1, 4):
            run.log(step * 1000, loss=1.0 / step, loss_scale=2.0**step, epoch=step)
            run.log(step * 1000, epoch=step, **{"val/AP50": 0.3 * step})
    block = stored(run)
    assert block["step"].tolist() == [1000, 2000, 3000]
    assert block["val/AP50"].tolist() == pytest.approx([0.3, 0.6, 0.9])
    assert block["loss_scale"].tolist() == [2.0, 4.0, 8.0]


def test_an_epoch_number_among_unnumbered_steps_loses_no_row(track, stored, warnings_of, job_of):
    """wandb: batches without a number, then `step=epoch`; every evaluation was dropped."""
    with track() as run:
        for epoch in range(3):
            for batch in range(4):
                run.log(loss=epoch + batch / 4)
            run.log(epoch, eval_loss=10.0 + epoch)
    block = stored(run)
    assert block["step"].tolist() == list(range(15))
    assert block["eval_loss"][~is_missing(block["eval_loss"])].tolist() == [10.0, 11.0, 12.0]
    assert block["logged_step"][[4, 9, 14]].tolist() == [0.0, 1.0, 2.0]
    assert {code for code, _ in warnings_of(run)} == {"steps_renumbered"}
    assert warnings_of(run)[-1][1].startswith("3 steps have a number that is not above")
    assert job_of(run).summary["renumbered_steps"] == 3


def test_a_loop_that_begins_again_loses_no_row(track, stored, job_of):
    """Optuna: each trial counts its epochs from 1; all but the first trial were dropped."""
    with track() as run:
        for trial in range(3):
            for epoch in range(1, 10):
                run.log(epoch, loss=float(trial), rate=0.1 * trial)
    block = stored(run)
    assert block["loss"].tolist() == [0.0] * 9 + [1.0] * 9 + [2.0] * 9
    assert block["step"].tolist() == list(range(1, 28))
    assert block["logged_step"][9:].tolist() == [*range(1, 10), *range(1, 10)]
    assert job_of(run).summary["renumbered_steps"] == 18


def test_batches_that_are_numbered_by_their_epoch_are_rows_each(track, stored):
    """Equal losses (0.0 of a model that has converged) are as many rows."""
    with track() as run:
        for epoch in range(2):
            for _ in range(5):
                run.log(epoch, loss=0.0)
    assert len(stored(run)) == 10


def test_a_step_that_is_no_whole_number_is_numbered_on(track, stored, warnings_of):
    """PyTorch, MLflow: parts of epochs, and 50.0 of a logger that makes everything a float."""
    with track() as run:
        for step in (np.float64(50.0), 50.5, np.int64(60), -1, "70", math.nan, np.array(80)):
            run.log(step, loss=1.0)
    block = stored(run)
    assert block["step"].tolist() == [50, 51, 60, 61, 70, 71, 80]
    assert block["logged_step"][[1, 3]].tolist() == [50.5, -1.0]
    codes = {code for code, _ in warnings_of(run)}
    assert codes == {"steps_renumbered", "values_dropped"}


NUMBERS = [
    (np.float16(0.5), 0.5),
    (np.array(0.5), 0.5),
    (np.array([0.5]), 0.5),
    (np.array([[0.5]], np.float32), 0.5),
    (True, 1.0),
    (np.bool_(False), 0.0),
    (Decimal("0.5"), 0.5),
    (Fraction(1, 2), 0.5),
    ("0.5", 0.5),
    (10**400, math.inf),
    (-(10**400), -math.inf),
    (1e300, math.inf),
    (2**70, 2.0**70),
    (-math.inf, -math.inf),
]


@every_row(("value", "expected"), NUMBERS)
def test_a_number_of_any_type_is_stored(track, stored, value, expected):
    with track() as run:
        run.log(0, loss=1.0, value=value)
    assert stored(run)["value"].tolist() == [expected]


def test_scalars_of_tensorflow_are_stored(track, stored):
    tf = pytest.importorskip("tensorflow")
    values = [tf.constant(0.5), tf.Variable(0.5), tf.constant(0.5, tf.bfloat16), tf.constant([0.5])]
    with track() as run:
        for value in values:
            run.log(tf.constant(7), loss=value)
    assert stored(run)["loss"].tolist() == [0.5] * 4


NO_NUMBERS = [
    ("abc", "expected a number, received str; write text with log_text"),
    ({"a": 1}, "expected a number, received dict; log each of its values"),
    (np.zeros((2, 3)), r"received an array of 6 values, shape \(2, 3\); log its mean"),
    ([1.0], "expected a number, received list"),
    (1j, "expected a number, received complex"),
    (np.zeros(0), "received an array of 0 values"),
]


@every_row(("value", "reason"), NO_NUMBERS)
def test_what_is_no_number_is_left_out_of_its_row_and_said(  # noqa: PLR0917
    track, stored, warnings_of, job_of, value, reason
):
    with track() as run:
        for step in range(5):
            run.log(step, loss=1.0, value=value)
    block = stored(run)
    assert block["step"].tolist() == [0, 1, 2, 3, 4]
    assert block["loss"].tolist() == [1.0] * 5
    assert "value" not in block
    messages = [message for code, message in warnings_of(run) if code == "values_dropped"]
    assert messages
    assert "5 values of 'value' were left out" in messages[-1]
    assert re.search(reason, messages[-1])
    assert job_of(run).summary["dropped"] == {"values": 5, "steps": 0, "events_and_logs": 0}


def test_a_name_that_no_column_can_have_is_said(track, stored, warnings_of):
    """TensorBoard: tags with spaces; and the name of a column that the run makes itself."""
    with track() as run:
        run.log(0, loss=1.0, **{"val acc": 0.5, "logged_step": 3.0})
    assert stored(run)["loss"].tolist() == [1.0]
    messages = " ".join(message for _, message in warnings_of(run))
    assert "'val acc'" in messages
    assert "'logged_step'" in messages


def test_a_row_without_a_loss_scale_keeps_that_of_the_row_before(track, stored, job_of):
    with track() as run:
        run.log(0, loss=1.0, loss_scale=1024.0)
        run.log(1, val_acc=0.5)
        run.log(2, loss=1.0, loss_scale=1024.0)
    assert stored(run)["loss_scale"].tolist() == [1024.0] * 3
    assert job_of(run).totals["scale_health"] == "fixed"


def test_of_a_run_without_a_loss_scale_none_is_known(track, stored, client):
    with track() as run:
        run.log(0, loss=1.0)
        run.log(1, loss=0.5)
    job = client.jobs.get(run.id)
    assert (job.latest.loss, job.latest.loss_scale, job.summary.scale_health) == (0.5, None, None)
    assert stored(run)["loss_scale"].tolist() == [1.0, 1.0]


@every_row("compacts", [False, True])
def test_a_sample_and_every_export_have_the_numbers_of_the_steps(
    api, client, track, tmp_path, compacts
):
    numbers = list(range(1000, 60_000, 100))
    with track() as run:
        for step in numbers:
            run.log(
                step,
                loss=1 / step,
                loss_scale=2.0 if step < 30_000 else 4.0,
                val_acc=step / 1e5 if step % 1000 == 0 else None,
            )
    compactor = Compactor(api.database)
    while compacts and compactor.compact():
        pass
    job = client.jobs.get(run.id)
    assert job.steps()["step"].tolist() == numbers
    assert job.steps(start=30_000)["step"].tolist() == [n for n in numbers if n >= 30_000]
    sample = job.sample(50)
    assert sample["count"].sum() == len(numbers)
    assert set(sample["step"].tolist()) <= set(numbers)
    assert np.isfinite(sample["loss.mean"]).all()
    assert sample.scale_changes.step.tolist() == [30_000]
    assert job.sample(10_000)["step"].tolist() == numbers
    empty = is_missing(job.sample(1000)["val_acc.last"])
    assert empty.sum() == len(numbers) - 59
    lines = job.export(tmp_path / "steps.csv").read_text().splitlines()
    assert [int(line.split(",")[0]) for line in lines[1:]] == numbers
    assert lines[2].endswith(",")  # the empty cell of val_acc
    streamed = list(job.follow(kinds=("steps",)))
    assert [step for event in streamed for step in event["step"].tolist()] == numbers
