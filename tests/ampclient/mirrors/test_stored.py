"""Runs and jobs that are stored are mirrored as a whole, from the command line or the client."""

import pytest

from ampclient import MirrorFailed
from ampspec.jobs import State
from store.jobs import attempts
from store.telemetry import ingest
from tests.ampclient.mirrors.test_live import ListMirror


@pytest.fixture
def run_id(track):
    """A run with evaluations at, between and after its rows."""
    with track("stored", labels={"team": "vision"}, config={"rate": 0.1}) as run:
        run.watch(usage_every_s=None)
        for step in (0, 10, 20):
            run.log(step, loss=float(step), loss_scale=2.0, step_time_s=1.5)
        for step, loss in ((10, 0.5), (15, 0.25), (30, 0.125)):
            run.event("evaluation", {"epoch": step, "val_loss": loss}, step=step)
        run.result(final_loss=20.0)
    return run.id


def test_a_stored_run_is_mirrored_in_the_order_of_its_steps(client, run_id):
    mirror = ListMirror()
    mirrored = client.runs.mirror(run_id, mirror)
    assert (mirrored.id, mirrored.name, mirrored.place) == (run_id, "stored", "a list")
    assert (mirrored.steps, mirrored.evaluations) == (3, 3)
    assert "pictures" in mirrored.not_mirrored
    [start], [end] = mirror.starts, mirror.ends
    assert start.params["config.rate"] == 0.1
    assert [row.step for row in mirror.rows] == [0, 10, 15, 20, 30]
    assert mirror.values[10] == {
        "loss": 10.0,
        "loss_scale": 2.0,
        "skipped": 0.0,
        "step_time_s": 1.5,
        "val_loss": 0.5,
    }
    assert mirror.values[15] == {"val_loss": 0.25}
    times = [row.time_s - start.started_at_s for row in mirror.rows]
    assert times == pytest.approx([1.5, 3.0, 3.0, 4.5, 4.5], abs=1e-3)
    assert (end.state, end.results, end.run_id) == ("succeeded", {"final_loss": 20.0}, run_id)


def test_a_job_of_a_worker_is_mirrored_with_its_spec(api, client, make_job, make_block):
    job = make_job(State.RUNNING, labels={"team": "vision"})
    with api.database.write() as session:
        ingest.append(session, job.id, 1, [make_block(0, 4)], entries_written=0)
        attempts.mark_succeeded(session, job.id, 1, {"final_loss": 3.0, "parameters": 10})
    mirror = ListMirror()
    assert client.runs.mirror(job.id, mirror).steps == 4
    [start], [end] = mirror.starts, mirror.ends
    assert start.params["precision.policy"] == job.policy
    assert start.params["data.kind"] == "digits"
    assert start.labels == {"team": "vision"}
    assert mirror.values[3] == {
        "loss": 3.0,
        "loss_scale": 1024.0,
        "skipped": 0.0,
        "grad_norm": 1.0,
        "learning_rate": pytest.approx(0.001),
        "step_time_s": 0.5,
        "examples": 64.0,
    }
    assert (end.state, end.results) == ("succeeded", {"final_loss": 3.0, "parameters": 10.0})


def test_a_run_that_goes_on_is_mirrored_up_to_now(client, track):
    run = track()
    mirror = ListMirror()
    client.runs.mirror(run.id, mirror)
    assert [end.state for end in mirror.ends] == ["running"]


def test_a_mirror_that_fails_names_the_error(client, run_id):
    with pytest.raises(MirrorFailed, match=f"{run_id}.*a list: OSError: cannot write"):
        client.runs.mirror(run_id, ListMirror("write"))
