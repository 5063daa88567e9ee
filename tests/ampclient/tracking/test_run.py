"""A tracked run against the real API: nothing is lost or doubled, and no error reaches a loop."""

import json
import logging
import math
import os
import subprocess
import sys

import httpx
import numpy as np
import pytest
from sqlalchemy import select

from ampclient import Client, ConnectionFailed, QuotaExceeded, TrackedRun
from ampclient.tracking import sender
from ampclient.tracking.row_values import MAX_EXTRAS
from ampspec.jobs import Reason, State
from ampspec.telemetry.scale_health import ScaleBounds
from store.clock import from_now
from store.jobs import jobs, lease_expiry, tracked_runs
from store.tables import EventRow, Job, LogRow, StepBlockRow
from tests.waiting import DEADLINE_S, join, wait_until


def events_of(api, run, kind):
    with api.database.read() as session:
        query = select(EventRow).where(EventRow.job_id == run.id, EventRow.type == kind)
        return session.scalars(query.order_by(EventRow.seq)).all()


def test_every_step_of_a_loop_arrives_once_and_the_run_succeeds(track, stored, job_of):
    with track(
        "baseline", labels={"a": "b"}, policy="amp-fp16", model="net", config={"lr": 1}
    ) as run:
        for step in range(10_000):
            run.log(step, loss=float(step), loss_scale=1024.0, examples=32, step_time_s=0.5)
    block, job = stored(run), job_of(run)
    assert block["loss"].tolist() == [float(step) for step in range(10_000)]
    assert (block["examples"] == 32).all()
    assert "logged_step" not in block
    assert (job.state, job.policy, job.model) == (State.SUCCEEDED, "amp-fp16", "net")
    assert (job.spec["config"], job.labels) == ({"lr": 1}, {"a": "b"})
    assert job.totals["median_examples_per_s"] == 64.0
    assert job.totals["scale_health"] == "fixed"


def test_a_run_has_the_address_of_its_page(track, client):
    run = track()
    assert run.url == f"{client.url}/#/jobs/{run.id}"
    assert isinstance(run, TrackedRun)


def test_a_server_that_is_away_for_a_moment_at_the_start_is_asked_again(
    track, network, job_of, monkeypatch
):
    send = network.handle_request

    def fail_once(request):
        monkeypatch.setattr(network, "handle_request", send)
        raise httpx.ConnectError("restarting")

    monkeypatch.setattr(network, "handle_request", fail_once)
    with track("patient") as run:
        run.log(loss=1.0)
    assert (job_of(run).name, job_of(run).state) == ("patient", State.SUCCEEDED)


def test_steps_arrive_while_the_run_goes_on(track, stored):
    run = track()
    run.log(loss=1.0)
    wait_until(lambda: len(stored(run)) == 1, "the first step is stored")
    run.log(loss=2.0)
    wait_until(lambda: len(stored(run)) == 2, "the second step is stored")


def test_values_of_any_numeric_type_are_stored(track, stored):
    with track() as run:
        run.log(loss=np.float16(0.5), grad_norm=np.array(2.0), learning_rate=1, accuracy=0.25)
        run.log(loss=math.nan, skipped=np.bool_(True), loss_scale=np.float32(512))
    block = stored(run)
    assert (block["loss"][0], block["grad_norm"][0], block["accuracy"][0]) == (0.5, 2.0, 0.25)
    assert np.isnan(block["accuracy"][1])
    assert block["skipped"].tolist() == [False, True]
    assert block["loss_scale"].tolist() == [1.0, 512.0]


def test_the_time_of_a_step_is_that_between_two_calls(track, stored):
    with track() as run:
        for _ in range(3):
            run.log(loss=1.0)
    times = stored(run)["step_time_s"]
    assert times[0] == 0.0
    assert (times[1:] > 0).all()


def test_a_run_that_continues_another_begins_at_its_step(track, stored):
    with track() as run:
        for step in range(500, 505):
            run.log(step, loss=float(step))
    assert stored(run, start=500)["loss"].tolist() == [500.0, 501.0, 502.0, 503.0, 504.0]


def test_events_follow_the_rows_before_them(api, track):
    with track() as run:
        run.log(loss=1.0)
        run.event("epoch", {"epoch": 0, "loss": math.nan})
        run.log(loss=1.0)
        run.log_text("hello\n" * 10_000)
    [event] = events_of(api, run, "epoch")
    assert (event.step, event.data) == (0, {"epoch": 0, "loss": "NaN"})
    with api.database.read() as session:
        texts = session.scalars(select(LogRow.text).order_by(LogRow.seq)).all()
        seqs = session.scalars(select(StepBlockRow.seq).order_by(StepBlockRow.seq)).all()
    assert "".join(texts) == "hello\n" * 10_000
    assert seqs[0] < event.seq < seqs[1]


def test_results_and_the_expected_number_of_steps_are_stored(track, job_of):
    with track(total_steps=4) as run:
        run.log(loss=1.0)
        run.result(val_loss=0.5, parameters=np.int64(10))
        run.result(val_accuracy=math.nan)
    job = job_of(run)
    assert job.total_steps == 4
    assert job.summary == {"val_loss": 0.5, "parameters": 10, "val_accuracy": "NaN"}


@pytest.mark.parametrize(
    ("bounds", "scale", "expected"),
    [
        (ScaleBounds(minimum=1.0, maximum=1024.0), 1024.0, "pinned at the cap"),
        (ScaleBounds(minimum=1.0, maximum=2048.0), 1024.0, "steady"),
        (None, 1024.0, "fixed"),
    ],
)
def test_the_health_of_the_loss_scale_is_judged_by_its_bounds(
    track, job_of, bounds, scale, expected
):
    with track() as run:
        run.use_scale_bounds(bounds)
        for _ in range(600):
            run.log(loss=1.0, loss_scale=scale)
    assert job_of(run).totals["scale_health"] == expected


def test_a_scale_that_changes_is_judged_without_known_bounds(track, job_of):
    with track() as run:
        for step in range(200):
            run.log(loss=1.0, loss_scale=1024.0 if step % 4 < 2 else 2048.0, skipped=step % 4 == 3)
    assert job_of(run).totals["scale_health"] == "oscillating"


# ---- The end of a run


def test_an_exception_ends_the_run_as_failed_with_its_message(track, job_of):
    run = track()
    run.log(loss=1.0)
    with pytest.raises(ValueError, match="no data"), run:
        raise ValueError("no data")
    job = job_of(run)
    assert (job.state, job.reason) == (State.FAILED, Reason.RUN_FAILED)
    assert (job.message, job.step) == ("ValueError: no data", 1)


def test_ctrl_c_ends_the_run_as_cancelled(track, job_of):
    with pytest.raises(KeyboardInterrupt), track() as run:
        raise KeyboardInterrupt
    assert job_of(run).state == State.CANCELLED


def test_a_run_cancelled_by_a_user_learns_it_and_ends_as_cancelled(api, track, job_of):
    with track() as run:
        assert not run.cancel_requested
        with api.database.write() as session:
            jobs.request_cancel(session, run.id)
        run.log(loss=1.0)
        wait_until(lambda: run.cancel_requested, "the run learns that it is cancelled")
    assert job_of(run).state == State.CANCELLED


def test_calls_after_the_end_do_nothing(track, job_of, stored):
    run = track()
    run.log(loss=1.0)
    run.finish()
    run.log(loss=2.0)
    run.finish("failed")
    assert job_of(run).state == State.SUCCEEDED
    assert len(stored(run)) == 1


def run_program(api, code):
    environment = {**os.environ, "AMPCORE_URL": api.url, "AMPCORE_TOKEN": api.token}
    done = subprocess.run(
        [sys.executable, "-c", f"import ampclient, os\nclient = ampclient.Client()\n{code}"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_S,
    )
    return json.loads(done.stdout)


def test_a_program_that_ends_without_finish_still_sends_its_steps(api):
    code = "run = client.runs.track()\nrun.log(loss=1.0)\nprint(f'\"{run.id}\"')"
    run_id = run_program(api, code)
    with api.database.read() as session:
        job = jobs.get(session, run_id)
    assert (job.state, job.step) == (State.FAILED, 1)
    assert job.message == "The program ended without calling finish()."


def test_a_forked_child_ends_no_run_of_its_parent(api):
    code = (
        "with client.runs.track() as run:\n"
        "    if (child := os.fork()) == 0:\n"
        "        run.finish('failed')\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
        "print(f'\"{run.id}\"')"
    )
    with api.database.read() as session:
        assert jobs.get(session, run_program(api, code)).state == State.SUCCEEDED


def test_a_client_that_is_closed_before_the_run_is_only_a_warning(api, caplog):
    with Client(api.url, api.token) as client:
        run = client.runs.track()
    run.log(loss=1.0)
    run.finish()
    assert "tracking has stopped: " in caplog.text
    assert "Traceback" not in caplog.text


# ---- The server is away


def test_the_steps_of_an_outage_are_sent_after_it(track, stored, job_of, network, caplog):
    with track() as run:
        run.log(loss=0.0)
        wait_until(lambda: len(stored(run)) == 1, "the first step is stored")
        network.is_down = True
        for step in range(1, 50):
            run.log(loss=float(step))
            run.event("warning", {"code": "c", "message": f"step {step}"})
        wait_until(lambda: "cannot be reached" in caplog.text, "the outage is noticed")
        network.is_down = False
    assert stored(run)["loss"].tolist() == [float(step) for step in range(50)]
    assert job_of(run).state == State.SUCCEEDED
    assert caplog.text.count("cannot be reached") == 1


def test_lost_responses_neither_lose_nor_double_entries(api, track, stored, network):
    with track() as run:
        for epoch in range(6):
            network.lost_responses = 2
            run.log(loss=float(epoch))
            run.event("epoch", {"epoch": epoch})
            wait_until(lambda: not network.lost_responses, "two responses are lost")
            run.log(loss=float(epoch))
    assert [event.data["epoch"] for event in events_of(api, run, "epoch")] == list(range(6))
    assert stored(run)["loss"].tolist() == [epoch for epoch in range(6) for _ in range(2)]


def test_an_outage_longer_than_the_buffer_keeps_the_newest_steps(
    *, api, track, network, job_of, caplog, monkeypatch
):
    monkeypatch.setattr("ampclient.tracking.outbox.MAX_BATCH_BYTES", 1000)
    with track(buffer_bytes=4000) as run:
        network.is_down = True
        for step in range(500):
            run.log(loss=float(step))
            if step % 10 == 9:
                run.event("epoch", {"epoch": step})
        wait_until(lambda: "cannot be reached;" in caplog.text, "the outage is noticed")
        network.is_down = False
    job = job_of(run)
    assert (job.state, job.step, job.latest["loss"]) == (State.SUCCEEDED, 500, 499.0)
    [warning] = events_of(api, run, "warning")
    assert warning.data["code"] == "telemetry_dropped"
    lost = 500 - job.totals["steps"]
    assert 0 < lost < 500
    dropped = 50 - len(events_of(api, run, "epoch"))
    assert warning.data["message"].startswith(f"{lost} steps between step ")
    assert f" and {dropped} events and log entries were dropped" in warning.data["message"]
    assert caplog.text.count("the buffer is full") == 1


def test_a_program_does_not_wait_for_an_upload(track, network, stored):
    with track() as run:
        with network.held() as wait_for_request:
            run.log(loss=0.0)
            assert wait_for_request()
            for step in range(1, 500):
                run.log(loss=float(step))
            assert run.next_step == 500
        wait_until(lambda: len(stored(run)) == 500, "all steps are stored")


def test_a_run_that_was_lost_meanwhile_continues(api, track, network, stored, job_of):
    with track() as run:
        run.log(loss=0.0)
        wait_until(lambda: len(stored(run)) == 1, "the first step is stored")
        with api.database.write() as session:
            session.get_one(Job, run.id).lease_expires_at = from_now(-1)
        with api.database.write() as session:
            [lost] = lease_expiry.expire(session)
        assert lost.reason == Reason.RUN_LOST
        run.log(loss=1.0)
    assert stored(run)["loss"].tolist() == [0.0, 1.0]
    assert job_of(run).state == State.SUCCEEDED


def test_a_server_that_does_not_come_back_delays_the_end_only_for_a_limited_time(
    track, network, caplog
):
    run = track(flush_timeout_s=0.1)
    network.is_down = True
    run.log(loss=1.0)
    run.finish()
    assert "could not be sent completely" in caplog.text
    network.is_down = False
    join(run._sender._thread)


def test_a_server_that_cannot_be_reached_at_the_start_is_an_error(client, network, monkeypatch):
    for delay in ("FIRST_DELAY_S", "MAX_DELAY_S"):
        monkeypatch.setattr(f"ampclient._http.retry.{delay}", math.inf)  # one attempt is enough
    network.is_down = True
    with pytest.raises(ConnectionFailed):
        client.runs.track()


def test_too_many_runs_are_an_error_at_the_start(track, client, monkeypatch):
    monkeypatch.setattr(tracked_runs, "MAX_RUNNING", 1)
    track()
    with pytest.raises(QuotaExceeded):
        client.runs.track()


def test_a_quiet_run_sends_heartbeats(track, network, monkeypatch):
    monkeypatch.setattr(sender, "HEARTBEAT_S", 0.01)
    track()
    wait_until(lambda: network.paths.count(network.paths[-1]) > 2, "several heartbeats are sent")
    assert network.paths[-1].endswith("/steps")


@pytest.mark.parametrize("end", ["deleted", "cancelled"])
def test_tracking_stops_when_the_run_has_ended_on_the_server(api, track, caplog, end):
    run = track()
    with api.database.write() as session:
        jobs.request_cancel(session, run.id)
        tracked_runs.finish(session, run.id, State.CANCELLED, entries=0, message=None, summary={})
        if end == "deleted":
            jobs.delete_job(session, run.id)
    run.log(loss=1.0)
    wait_until(lambda: run._sender.has_stopped, "the sender stops")
    run.log(loss=1.0)
    run.finish()
    assert run.cancel_requested == (end == "cancelled")
    assert caplog.text.count("tracking has stopped") == 1


def test_entries_that_a_restored_database_lacks_do_not_stop_the_run(api, track, stored, job_of):
    with track() as run:
        run.log(loss=0.0)
        wait_until(lambda: len(stored(run)) == 1, "the first step is stored")
        with api.database.write() as session:  # as a backup from before the upload
            job = session.get_one(Job, run.id)
            job.entries_written, job.step = 0, 0
            session.delete(session.scalars(select(StepBlockRow)).one())
        run.log(loss=1.0)
    assert stored(run, start=1)["loss"].tolist() == [1.0]
    assert job_of(run).state == State.SUCCEEDED


# ---- Values that cannot be stored


def test_columns_with_other_names_and_too_many_columns_are_left_out(track, stored, caplog):
    with track() as run:
        run.log(loss=1.0, **{"a b": 1.0, "~cell": 2.0, "loss/part": 3.0})
        run.log(loss=1.0, **{f"c{index}": 1.0 for index in range(MAX_EXTRAS + 5)})
    names = set(stored(run).names)
    assert "loss/part" in names
    assert not names & {"a b", "~cell"}
    assert len([name for name in names if name.startswith("c")]) == MAX_EXTRAS - 1
    assert caplog.text.count("is left out") == 2 + 6


@pytest.mark.parametrize("data", [{"x": object()}, {"x": "y" * 100_000}])
def test_an_event_that_cannot_be_stored_is_left_out(api, track, job_of, data, caplog):
    with track() as run:
        run.event("warning", data)
        run.event("warning", {"code": "c", "message": "m"})
    dropped, kept = (event.data for event in reversed(events_of(api, run, "warning")))
    assert kept == {"code": "c", "message": "m"}
    message = "1 events and log entries were dropped: they cannot be stored."
    assert dropped == {"code": "telemetry_dropped", "message": message}
    assert job_of(run).summary["dropped"]["events_and_logs"] == 1
    assert "is left out" in caplog.text


def test_unusual_numbers_are_stored_within_their_limits(track, stored, job_of):
    with track() as run:
        run.log(loss=1e300, examples=-5, step_time_s=-1.0)
        run.log(loss=1.0, examples=2**40, step_time_s=math.inf)
    block = stored(run)
    assert block["loss"].tolist() == [math.inf, 1.0]
    assert block["examples"].tolist() == [0, 0]
    assert job_of(run).summary["dropped"]["values"] == 4
    assert block["step_time_s"][0] == 0.0
    assert 0 < block["step_time_s"][1] < DEADLINE_S


def test_a_bug_in_the_sender_does_not_reach_the_loop(track, monkeypatch, caplog):
    run = track()
    monkeypatch.setattr(run._outbox, "take_batch", lambda: 1 / 0)
    run.log(loss=1.0)
    wait_until(lambda: run._sender.has_stopped, "the sender stops")
    run.log(loss=1.0)
    run.finish()
    assert "unexpected error" in caplog.text
    assert caplog.records[0].levelno >= logging.WARNING


def test_rows_that_cannot_be_encoded_do_not_end_the_loop(track, monkeypatch, caplog):
    run = track()
    monkeypatch.setattr(run._rows, "encode", lambda: 1 / 0)
    run.log(loss=1.0)
    run.event("epoch", {})
    run.finish()
    assert caplog.text.count("are lost") == 1


# ---- Skips and the growth of the scale


def test_each_skip_and_growth_is_an_event_whatever_the_blocks(api, track, stored):
    scales = [8.0, 8.0, 4.0, 4.0, 8.0, 8.0, 4.0]
    skips = [False, True, False, False, False, True, True]
    with track() as run:
        for scale, skipped in zip(scales, skips, strict=True):
            run.log(loss=1.0, loss_scale=scale, skipped=skipped)
            wait_until(lambda: len(stored(run)) == run.next_step, "the step is stored")
    events_by_kind = {kind: events_of(api, run, kind) for kind in ("overflow", "scale_growth")}
    changes = {
        kind: [(e.step, e.data["scale_before"], e.data["scale_after"]) for e in events]
        for kind, events in events_by_kind.items()
    }
    assert changes == {
        "overflow": [(1, 8.0, 4.0), (5, 8.0, 4.0), (6, 4.0, 4.0)],
        "scale_growth": [(3, 4.0, 8.0)],
    }
