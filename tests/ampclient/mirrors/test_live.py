"""Mirrors of a run that goes on: they get every row, and never stop or delay the training."""

import logging
import threading

import pytest

from ampclient.mirrors import live
from ampclient.mirrors.mirror import MirrorEnd, MirrorRow, MirrorStart, flat_params
from ampspec.jobs import State
from tests.waiting import DEADLINE_S, join


class ListMirror:
    """Keeps what it gets; raises an error where `fails` says so."""

    place, command = "a list", "--to list"

    def __init__(self, fails=""):
        self.fails, self.rows, self.starts, self.ends = fails, [], [], []
        self.free = threading.Event()
        self.free.set()

    def begin(self, start):
        self.starts.append(start)
        self._act("begin")

    def write(self, rows):
        assert self.free.wait(DEADLINE_S)
        self.rows += rows
        self._act("write")

    def end(self, end):
        self.ends.append(end)
        self._act("end")

    def _act(self, name):
        if self.fails == name:
            raise OSError(f"cannot {name}")

    @property
    def values(self):
        return {row.step: dict(row.values) for row in self.rows}


def test_a_mirror_gets_the_settings_each_row_the_evaluations_and_the_end(track, job_of):
    mirror = ListMirror()
    config = {"optimizer": {"name": "adam", "rate": 0.1}, "layers": [8, 4], "seed": None}
    with track(
        "mirrored", labels={"team": "vision"}, policy="float32", config=config, mirror=mirror
    ) as run:
        run.watch(usage_every_s=None)
        for step in range(0, 40, 10):
            run.log(step, loss=float(step), extra=None if step else 1.0)
        run.event("evaluation", {"epoch": 0, "val_loss": 0.5, "note": "text"})
        run.result(val_loss=0.5)
    [start], [end] = mirror.starts, mirror.ends
    assert (start.name, start.labels) == ("mirrored", {"team": "vision"})
    assert start.params == {
        "optimizer.name": "adam",
        "optimizer.rate": 0.1,
        "layers": "[8, 4]",
        "precision.policy": "float32",
    }
    rows = mirror.values
    assert rows[10].pop("step_time_s") >= rows[0].pop("step_time_s") == 0.0
    evaluation = [row for row in mirror.rows if "val_loss" in row.values]
    assert [(row.step, row.values) for row in evaluation] == [(30, {"val_loss": 0.5})]
    assert rows[0] == {"loss": 0.0, "extra": 1.0}
    assert rows[10] == {"loss": 10.0}
    assert (end.state, end.results, end.run_id, end.url) == (
        "succeeded",
        {"val_loss": 0.5},
        run.id,
        run.url,
    )
    times = [row.time_s for row in mirror.rows]
    assert start.started_at_s <= times[0] <= max(times) <= end.ended_at_s


def test_a_loss_scale_that_was_given_is_mirrored(track):
    mirror = ListMirror()
    with track(mirror=[mirror]) as run:
        run.log(0, loss=float("nan"), loss_scale=1024.0, skipped=True)
    [values] = mirror.values.values()
    assert (values["loss_scale"], values["skipped"]) == (1024.0, 1.0)
    assert values["loss"] != values["loss"]


@pytest.mark.parametrize("fails", ["begin", "write", "end"])
def test_a_mirror_that_fails_is_said_once_and_the_run_is_complete(track, stored, caplog, fails):
    mirror, good = ListMirror(fails), ListMirror()
    with caplog.at_level(logging.WARNING):
        with track(mirror=[mirror, good]) as run:
            for step in range(100):
                run.log(step, loss=float(step))
        assert caplog.text.count("The mirror to a list is not complete") == 1
    assert f"cannot {fails}" in caplog.text
    assert "`ampctl run mirror ID --to list`" in caplog.text
    assert stored(run)["loss"].tolist() == [float(step) for step in range(100)]
    assert len(good.values) == 100


def test_a_mirror_that_has_stopped_is_an_event_of_the_run(track, client):
    with track(mirror=ListMirror("begin")) as run:
        run.log(0, loss=0.0)
        join(*(t for t in threading.enumerate() if t.name == "ampcore-mirror"))
    [event] = client.jobs.get(run.id).events(type="warning")
    assert event.data["code"] == "mirror_incomplete"


def test_a_slow_mirror_delays_neither_the_training_nor_its_end(track, caplog, job_of):
    mirror = ListMirror()
    mirror.free.clear()
    with caplog.at_level(logging.WARNING):
        run = track(mirror=mirror, flush_timeout_s=0.5)
        for step in range(100):
            run.log(step, loss=float(step))
        run.finish()
    assert "it took longer than 0.5 s" in caplog.text
    assert job_of(run).state == State.SUCCEEDED
    mirror.free.set()


def test_rows_beyond_the_limit_are_counted(monkeypatch):
    monkeypatch.setattr(live, "MAX_ROWS", 5)
    problems, mirror = [], ListMirror()
    mirror.free.clear()
    thread = live.LiveMirror(mirror, MirrorStart("run", {}, {}, 0.0), problems.append)
    for step in range(20):
        thread.put([MirrorRow(step, 0.0, {"loss": 1.0})])
    mirror.free.set()
    thread.close(MirrorEnd("succeeded", 1.0), DEADLINE_S)
    [problem] = problems
    assert f"{20 - len(mirror.rows)} rows were left out" in problem


def test_a_missing_package_is_named_before_the_training(monkeypatch):
    from ampclient import MlflowMirror, WandbMirror
    from ampclient.mirrors import mirror

    monkeypatch.setattr(mirror, "find_spec", lambda _: None)
    for tool, extra in ((MlflowMirror, "mlflow"), (WandbMirror, "wandb")):
        with pytest.raises(ModuleNotFoundError, match=rf'pip install "ampcore\[{extra}\]"'):
            tool()


def test_nested_settings_have_dotted_names():
    assert flat_params({"a": {"b": {"c": 1}}, "d": [1, {"e": 2}], "f": None}) == {
        "a.b.c": 1,
        "d": '[1, {"e": 2}]',
    }
