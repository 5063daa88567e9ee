"""A program that is started again from a checkpoint: what its steps become in the continued run."""

import logging

import pytest

from ampclient import RunFolderUnusable
from ampclient.tracking.entries import LoggedSteps, attempt_entry
from ampclient.tracking.outbox import Outbox
from ampspec.jobs import State
from tests.ampclient.tracking.test_run_folder import entry
from tests.waiting import wait_until


@pytest.fixture
def path(tmp_path):
    return tmp_path / "restarted"


def log_steps(run, begin, end, offset=0.0, **columns):
    for step in range(begin, end):
        run.log(step, loss=step + offset, **columns)


def losses(stored, run):
    block = stored(run)
    return dict(zip(block["step"].tolist(), block["loss"].tolist(), strict=True))


def expected(*parts):
    return {step: step + offset for begin, end, offset in parts for step in range(begin, end)}


def test_a_program_that_goes_on_at_its_checkpoint_replaces_the_steps_after_it(
    track, path, stored, job_of
):
    run = track(folder=path)
    log_steps(run, 0, 62)
    run.finish("failed", "it was interrupted")
    again = track(folder=path, resume=True)
    assert (again.id, again.next_step) == (run.id, 62)
    log_steps(again, 50, 70, 0.5)
    again.finish()
    assert losses(stored, run) == expected((0, 50, 0.0), (50, 70, 0.5))
    job = job_of(run)
    assert (job.attempt, job.state, job.step) == (2, State.SUCCEEDED, 70)
    assert (job.totals["steps"], job.totals["repeated_steps"]) == (70, 12)
    assert "renumbered_steps" not in job.summary


def test_the_same_without_a_folder(track, client, stored, job_of):
    run = track()
    log_steps(run, 0, 20)
    run.finish("failed")
    with client.runs.resume(run.id) as again:
        log_steps(again, 10, 15, 0.5)
    assert losses(stored, run) == expected((0, 10, 0.0), (10, 15, 0.5))
    assert job_of(run).attempt == 2


def test_a_program_that_is_restarted_offline_is_replayed_with_its_attempts(
    *, track, client, network, path, stored, job_of
):
    network.is_down = True
    for begin, end, offset in ((0, 30, 0.0), (20, 25, 0.25), (22, 40, 0.5)):
        run = track(folder=path, resume=True, flush_timeout_s=0.05)
        log_steps(run, begin, end, offset)
        run.finish("failed", "it was killed")
    network.is_down = False
    synced = client.runs.sync(path)
    assert synced.refused == ""
    assert job_of(_Id(synced.run_id)).attempt == 3
    assert losses(stored, _Id(synced.run_id)) == expected(
        (0, 20, 0.0), (20, 22, 0.25), (22, 40, 0.5)
    )


class _Id:
    def __init__(self, run_id):
        self.id = run_id


def test_a_run_that_was_sent_goes_on_offline_at_its_step(
    *, track, client, network, path, stored, caplog
):
    with caplog.at_level(logging.WARNING):
        run = track(folder=path)
        log_steps(run, 0, 30)
        run.finish("failed")
        network.is_down = True
        again = track(folder=path, resume=True, flush_timeout_s=0.05)
        assert again.next_step == 30
        log_steps(again, 20, 35, 0.5)
        again.finish()
        network.is_down = False
        assert client.runs.sync(path).state == "succeeded"
    assert losses(stored, run) == expected((0, 20, 0.0), (20, 35, 0.5))
    assert "another program has sent" not in caplog.text


def test_a_program_that_counts_from_the_first_step_again_is_numbered_on_and_told(
    track, path, stored, job_of, caplog
):
    run = track(folder=path)
    log_steps(run, 0, 30)
    run.finish("failed")
    with caplog.at_level(logging.WARNING):
        again = track(folder=path, resume=True)
        log_steps(again, 0, 5, 0.5)
        again.finish()
    assert "counts from 0 again" in caplog.text
    assert "from_step=0" in caplog.text
    block = stored(run)
    assert block["step"].tolist() == list(range(35))
    assert block["logged_step"].tolist()[30:] == [0.0, 1.0, 2.0, 3.0, 4.0]
    job = job_of(run)
    assert (job.attempt, job.summary["renumbered_steps"]) == (1, 5)


def test_from_step_says_that_everything_is_trained_again(track, path, stored, job_of):
    run = track(folder=path)
    log_steps(run, 0, 30)
    run.finish("failed")
    again = track(folder=path, resume=True, from_step=0)
    assert again.next_step == 0
    log_steps(again, 0, 5, 0.5)
    again.finish()
    assert losses(stored, run) == expected((0, 5, 0.5))
    assert job_of(run).attempt == 2


def test_from_step_holds_for_rows_without_a_number(track, client, stored):
    run = track()
    for step in range(30):
        run.log(loss=float(step))
    run.finish("failed")
    with client.runs.resume(run.id, from_step=10) as again:
        again.log(loss=10.5)
        again.log(loss=11.5)
    assert losses(stored, run) == expected((0, 10, 0.0), (10, 12, 0.5))


def test_from_step_after_the_last_one_leaves_a_gap(track, client, stored, job_of):
    run = track()
    log_steps(run, 0, 3)
    run.finish("failed")
    with client.runs.resume(run.id, from_step=10) as again:
        again.log(loss=10.0)
    assert losses(stored, run) == expected((0, 3, 0.0), (10, 11, 0.0))
    assert job_of(run).attempt == 1


def test_every_tenth_step_goes_on_from_the_checkpoint(track, client, stored):
    run = track()
    for step in range(9, 100, 10):
        run.log(step, loss=float(step))
    run.finish("failed")
    with client.runs.resume(run.id) as again:
        for step in (69, 79):
            again.log(step, loss=step + 0.5)
    assert sorted(losses(stored, run)) == [9, 19, 29, 39, 49, 59, 69, 79]
    assert losses(stored, run)[69] == 69.5


def test_a_run_whose_program_was_lost_goes_on_while_it_counts_as_running(
    track, client, stored, network
):
    run = track()
    log_steps(run, 0, 10)
    run.log(10, loss=10.0)
    wait_until(lambda: len(losses(stored, run)) >= 10, "its steps are stored")
    again = client.runs.resume(run.id)
    log_steps(again, 5, 8, 0.5)
    again.finish()
    assert losses(stored, run) == expected((0, 5, 0.0), (5, 8, 0.5))


def test_a_run_that_must_be_continued_is_expected(track, path):
    with pytest.raises(RunFolderUnusable, match=r"resume='must'; it has no run"):
        track(folder=path, resume="must")
    track(folder=path).finish("failed")
    track(folder=path, resume="must").finish()
    with pytest.raises(RunFolderUnusable, match="which succeeded"):
        track(folder=path, resume="must")


def test_wrong_arguments_are_named(track, client, path):
    with pytest.raises(ValueError, match="'allow'"):
        track(folder=path, resume="allow")
    with pytest.raises(ValueError, match="resume=True"):
        track(folder=path, from_step=5)
    with pytest.raises(ValueError, match="-1"):
        client.runs.resume("1" * 12, from_step=-1)


def test_an_entry_that_begins_an_attempt_is_alone_in_its_upload_and_never_dropped():
    outbox = Outbox(235)
    outbox.put(entry(0))
    outbox.put(attempt_entry(0))
    assert len(outbox.take_batch()) == 1
    outbox.confirm_batch()
    for number in range(5):
        outbox.put(entry(number))
    assert [sent.begins_attempt for sent in outbox.take_batch()] == [True]
    outbox.confirm_batch()
    assert [sent.document["number"] for sent in outbox.take_batch()] == [2, 3, 4]


def test_the_steps_of_a_file_are_those_after_the_last_restart():
    steps = LoggedSteps()
    for logged in (entry(3, 7), attempt_entry(5), entry(5, 2)):
        steps = steps.with_entry(logged)
    assert steps == LoggedSteps(3, 7)
