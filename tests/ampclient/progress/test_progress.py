import io

import pytest
from rich.console import Console

from ampclient._job.view import JobView
from ampclient.progress import show_progress
from ampclient.progress.job_progress import JobProgress, StepRate
from ampclient.progress.lines import progress_line
from ampclient.progress.live_table import progress_table


@pytest.fixture
def view(server, latest):
    def make(**fields):
        values = {"state": "running", "step": 10, "total_steps": 40, "latest": latest, **fields}
        return JobView.from_json(server.add_job("a", **values))

    return make


def drawn(job, remaining_s=None, width=120):
    stream = io.StringIO()
    Console(file=stream, width=width).print(progress_table([JobProgress(job, remaining_s)], width))
    return stream.getvalue()


def test_lines_are_written_when_the_state_changes_and_every_few_seconds(view, clock):
    stream = io.StringIO()
    with show_progress(stream) as show:
        show(view(state="queued", step=0, latest=None))
        for step in range(1, 13):
            clock.sleep(1)
            show(view(step=step))
        show(view(state="succeeded", step=40))
    lines = stream.getvalue().splitlines()
    assert [line.split("  ")[:2] for line in lines[1:]] == [
        ["digits-fp16: running", "step 1/40"],
        ["digits-fp16: running", "step 6/40"],
        ["digits-fp16: running", "step 11/40"],
        ["digits-fp16: succeeded", "step 40/40"],
    ]
    assert lines[0] == "digits-fp16: queued  waiting for a free worker"
    assert "loss 0.25  loss scale 2^15  skipped 3  12,345 examples/s  34 s left" in lines[2]


def test_a_line_says_why_a_job_failed(view):
    stream = io.StringIO()
    with show_progress(stream) as show:
        show(view(state="failed", message="Use a smaller batch."))
    assert "Use a smaller batch." in stream.getvalue()


METRICS = {"val_loss": 0.5, "val_accuracy": 0.875, "val_auc": 0.75, "val_mae": 2, "val_f1": 1}


def test_a_line_has_the_first_metrics_of_the_last_evaluation(view):
    line = progress_line(JobProgress(view(metrics=METRICS)))
    shown = "validation loss 0.5  validation accuracy 87.5 %  validation auc 0.75  validation mae 2"
    assert f"  {shown}  and 1 more" in line
    assert "validation" not in progress_line(JobProgress(view()))


def test_on_a_terminal_the_metrics_are_below_the_table(view, terminal):
    with show_progress(terminal) as show:
        show(view(metrics={"val_accuracy": 0.875}))
    assert "validation accuracy 87.5 %" in terminal.getvalue()


def test_the_table_shows_every_fact_of_a_job(view):
    text = drawn(view(), remaining_s=90)
    for fact in ("digits-fp16", "running", "10/40", "0.25", "2^15", "3", "12,345", "1 min 30 s"):
        assert fact in text


def test_a_narrow_terminal_truncates_names_but_no_numbers(view):
    text = drawn(view(name="a-name-that-is-much-too-long"), remaining_s=90, width=80)
    assert max(map(len, text.splitlines())) <= 80
    for fact in ("a-name", "…", "running", "10/40", "0.25", "2^15", "12,345", "1 min 30 s"):
        assert fact in text


def test_a_very_narrow_terminal_drops_columns_and_keeps_the_name_readable(view):
    text = drawn(view(name="a-name-that-is-much-too-long"), remaining_s=90, width=60)
    assert max(map(len, text.splitlines())) <= 60
    assert len(text.splitlines()) == 2
    for fact in ("a-name-that", "running", "10/40", "0.25", "2^15"):
        assert fact in text
    assert "examples/s" not in text


def test_a_job_shows_the_median_throughput_of_its_summary(view, summary):
    job = view(state="succeeded", summary={**summary, "median_examples_per_s": 777.0})
    assert "777" in drawn(job)
    assert "777 examples/s" in progress_line(JobProgress(job))


def test_the_table_shows_a_queued_job(view):
    text = drawn(view(state="queued", step=0, total_steps=None, latest=None))
    assert "queued" in text
    assert "–" in text


def test_non_finite_values_are_shown_by_name(view, latest):
    assert "NaN" in drawn(view(latest={**latest, "loss": "NaN"}))


def test_markup_and_control_characters_in_names_have_no_effect(view):
    text = drawn(view(name="[red]\x1b[2Jx"))
    assert "[red]" in text
    assert "\x1b" not in text


def test_a_queued_job_shows_why_it_waits_and_changes_once_a_minute(view, clock):
    stream = io.StringIO()
    with show_progress(stream) as show:
        for ahead in (3, 3, 2, 1):
            show(view(state="queued", step=0, latest=None, waiting=f"{ahead} waiting before it"))
            clock.sleep(31)
    assert stream.getvalue().splitlines() == [
        "digits-fp16: queued  3 waiting before it",
        "digits-fp16: queued  2 waiting before it",
    ]


def test_a_new_attempt_is_shown_with_the_step_at_which_it_resumed(view, clock):
    stream, requested_attempts = io.StringIO(), []

    def first_step_of(job):
        requested_attempts.append(job.attempt)
        return {2: 1200, 3: 0}[job.attempt]

    with show_progress(stream, first_step_of=first_step_of) as show:
        show(view(attempt=1))
        show(view(attempt=2, state="starting"))
        show(view(attempt=2, step=1205))
        show(view(attempt=2, step=1206))
        clock.sleep(6)
        show(view(attempt=2, step=1207))
        show(view(attempt=3, step=2))
    shown = [line.split("  ")[1] for line in stream.getvalue().splitlines()]
    assert shown == [
        "step 10/40",
        "attempt 2",
        "attempt 2, resumed at step 1200",
        "attempt 2",
        "attempt 3, restarted at step 0",
    ]
    assert requested_attempts == [2, 3]


def test_a_paused_job_says_that_it_waits_to_be_resumed(view):
    assert "paused  waiting to be resumed" in progress_line(JobProgress(view(state="paused")))
    line = progress_line(JobProgress(view(state="paused", message="Paused on request.")))
    assert line.endswith("Paused on request.")
    assert "waiting" not in line


@pytest.fixture
def terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def test_on_a_terminal_the_last_table_stays(view, terminal):
    with show_progress(terminal) as show:
        show(view(state="failed", message="Use a smaller batch."))
    text = terminal.getvalue()
    assert "examples/s" in text
    assert "Use a smaller batch." in text
    assert "waiting" not in text


def test_on_a_terminal_a_queued_job_says_what_it_waits_for(view, terminal):
    with show_progress(terminal) as show:
        show(view(state="queued", step=0, total_steps=None, latest=None))
    assert "waiting for a free worker" in terminal.getvalue()


def test_of_several_waiting_jobs_only_the_first_shows_its_reason(view, server, terminal):
    with show_progress(terminal) as show:
        for number in range(3):
            job = server.add_job(f"{number}", name=f"n{number}", waiting=f"{number} before it")
            show(JobView.from_json(job))
    assert "n0: 0 before it" in terminal.getvalue()
    assert "1 before it" not in terminal.getvalue()


def test_on_a_terminal_an_attempt_is_shown_below_the_table(view, terminal):
    with show_progress(terminal, first_step_of=lambda job: 1200) as show:
        show(view(attempt=2))
    assert "attempt 2, resumed at step 1200" in terminal.getvalue()


def test_the_step_rate_excludes_the_compilation(view, clock):
    step_rate = StepRate()
    step_rate.update(view(step=0))
    clock.sleep(100)
    step_rate.update(view(step=10))
    assert step_rate.remaining_s(view(step=10)) is None
    clock.sleep(2)
    step_rate.update(view(step=20))
    assert step_rate.remaining_s(view(step=20)) == pytest.approx(4.0)


def test_an_ended_job_has_no_time_left(view, clock):
    step_rate = StepRate()
    for step in (10, 20):
        step_rate.update(view(step=step))
        clock.sleep(1)
    assert step_rate.remaining_s(view(step=20)) is not None
    ended = view(step=20, state="succeeded")
    assert step_rate.remaining_s(ended) is None
    assert "0 ms" not in drawn(ended, step_rate.remaining_s(ended))


def test_the_step_rate_restarts_with_a_new_attempt(view, clock):
    step_rate = StepRate()
    for step in (30, 5):
        step_rate.update(view(step=step))
        clock.sleep(1)
    assert step_rate.remaining_s(view(step=5)) is None
    step_rate.update(view(step=6))
    assert step_rate.remaining_s(view(step=6)) == pytest.approx(34.0)
