import json

import httpx
import numpy as np
import pytest

from ampclient import ScaleChanges, SkippedSteps, StepSample
from ampclient.cli.output.step_output import write_steps
from ampspec.telemetry import COLUMN_DTYPES, StepBlock
from tests.ampclient.conftest import no_such_path
from tests.tables import every_row
from tests.waiting import DEADLINE_S


@pytest.fixture
def job(server):
    server.add_job("a")
    server.steps_per_page = 2
    server.add_steps("a", 1)
    server.add_steps("a", 1, loss="NaN", skipped=True)
    server.add_steps("a", 1, loss="Infinity")
    return "a"


def test_steps_as_a_table_of_some_columns_and_steps(ampctl, job):
    result = ampctl("steps", job, "--columns", "loss", "--start", "1", "--end", "3")
    assert [line.split() for line in result.out.splitlines()] == [
        ["step", "loss"],
        ["1", "nan"],
        ["2", "inf"],
    ]


def test_steps_as_json_are_columns(ampctl, job):
    document = ampctl("steps", job, "--json").json()
    assert document == {
        "step": [0, 1, 2],
        "loss": [1.0, "NaN", "Infinity"],
        "skipped": [False, True, False],
    }
    assert ampctl("steps", job, "--format", "json").json() == document


@pytest.fixture
def block():
    """A late step with every column and numbers of the maximum length."""
    values = {name: np.float32(1.2345678e-05) for name in COLUMN_DTYPES}
    values |= {"loss_scale": 2.0**24, "skipped": True, "examples": 65_536}
    return StepBlock(999_999, {name: [value] for name, value in values.items()})


def table(capsys, block, **options):
    write_steps([block], **options)
    captured = capsys.readouterr()
    return captured.out.splitlines(), captured.err


def test_a_table_of_steps_fits_into_100_columns(capsys, block):
    lines, note = table(capsys, block, width=100)
    assert max(map(len, lines)) <= 100
    assert lines[0].split() == ["step", *COLUMN_DTYPES]
    assert lines[1].split()[:4] == ["999999", "1.23457e-05", "2^24", "true"]
    assert note == ""


def test_a_narrow_table_of_steps_hides_columns_and_names_them(capsys, block):
    lines, note = table(capsys, block, width=80)
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["step", *COLUMN_DTYPES][:-1]
    assert note == (
        "Hidden (terminal too narrow): examples. Use --columns or --format csv to see them.\n"
    )


def test_a_narrow_table_of_points_keeps_the_means(capsys):
    columns = {name: np.array([1]) for name in ("step", "count", "skipped")}
    for name in COLUMN_DTYPES:
        columns |= {f"{name}.{part}": np.float32([0.5]) for part in ("min", "max", "first", "mean")}
    nothing = SkippedSteps(0, np.array([])), ScaleChanges(0, *[np.array([])] * 3, ()), ()
    lines, note = table(capsys, StepSample(columns, 8, *nothing), width=80)
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == [
        "step", "count", "skipped", "loss.mean", "loss_scale.mean", "skipped.mean"
    ]  # fmt: skip
    assert note == (
        "Hidden (terminal too narrow): 25 more columns. "
        "Use --columns or --format csv to see them.\n"
    )


def test_blocks_with_gaps_or_missing_columns_are_written(capsys):
    blocks = [StepBlock(0, {"loss": [1.0], "loss/x": [2.0]}), StepBlock(5, {"loss": [3.0]})]
    write_steps(blocks, as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert document == {"step": [0, 5], "loss": [1.0, 3.0], "loss/x": [2.0, "NaN"]}
    write_steps(blocks)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows == [["step", "loss", "loss/x"], ["0", "1", "2"], ["5", "3", "nan"]]


def test_a_table_of_steps_in_a_pipe_has_every_column(capsys, block):
    assert table(capsys, block)[0][0].split() == ["step", *COLUMN_DTYPES]


def test_a_job_without_steps_prints_nothing(ampctl, server):
    server.add_job("empty")
    result = ampctl("steps", "empty")
    assert (result.code, result.out) == (0, "")


def test_csv_output_is_the_response_of_the_server(ampctl, job, server):
    result = ampctl("steps", job, "--format", "csv", "--columns", "loss", "--end", "2")
    assert (result.code, result.out) == (0, "step,loss\n0,1.0\n1,NaN\n")
    params = server.requests[-1].url.params
    assert (params["format"], params["columns"], params["end"]) == ("csv", "loss", "2")


def test_an_unknown_column_is_refused_by_the_server(ampctl, job):
    result = ampctl("steps", job, "--columns", "lossy")
    assert result.code == 3
    assert "lossy" in result.err


@pytest.mark.parametrize("arguments", [["--format", "xml"], ["--columns", ","], ["--start", "-1"]])
def test_wrong_usage_exits_2(ampctl, job, arguments):
    assert ampctl("steps", job, *arguments).code == 2


def test_a_closed_pipe_gives_no_traceback(start_ampctl, server):
    server.add_job("long")
    server.add_steps("long", 50_000)
    server.steps_per_page = 1000
    process = start_ampctl("steps", "long", "--format", "csv")
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=DEADLINE_S) == 1


def test_near_equal_events_in_a_row_are_one_row_with_their_number(ampctl, server, events):
    server.add_job("a")
    overflow = next(event for event in events if event["type"] == "overflow")
    server.events["a"] = [{**overflow, "seq": n, "step": n} for n in range(10, 210)]
    [_, line] = ampctl("events", "a").out.splitlines()
    assert line.split()[3:8] == ["10–209", "overflow", "200", "like", "this"]
    assert len(ampctl("events", "a", "--all").out.splitlines()) == 201
    assert len(ampctl("events", "a", "--json").json()) == 200


def test_each_event_is_a_row(ampctl, server, events):
    server.add_job("a")
    server.events["a"] = events
    lines = ampctl("events", "a", "--all").out.splitlines()
    assert lines[0].split() == ["SEQ", "TIME", "STEP", "EVENT", "DATA"]
    assert lines[2].split()[3:] == ["7", "overflow", "scale_before=2"]
    assert lines[5].split()[3:] == ["29", "evaluation", "val_loss=nan"]


def test_events_as_json_are_what_the_server_sent(ampctl, server, events):
    server.add_job("a")
    server.events["a"] = events
    assert ampctl("events", "a", "--json").json() == events


def test_the_data_of_an_event_is_shortened_on_a_terminal_alone(ampctl, server, events, monkeypatch):
    server.add_job("a")
    server.events["a"] = [{**events[0], "data": {"note": "x" * 5000}}]
    assert "x" * 5000 in ampctl("events", "a").out
    assert ampctl("events", "a", "--json").json()[0]["data"] == {"note": "x" * 5000}
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    assert 100 < ampctl("events", "a").out.count("x") < 200
    assert ampctl("events", "a", "-o", "wide").out.count("x") == 5000


def test_each_attempt_is_a_row(ampctl, server):
    server.add_job("a")
    assert ampctl("attempts", "a").err == "No worker has started the job yet.\n"
    killed = {"outcome": "failed", "message": "Its process was killed."}
    server.add_attempt("a", **killed, finished_at="2030-01-02T03:05:10Z")
    server.add_attempt("a", first_step=1200)
    lines = ampctl("attempts", "a").out.splitlines()
    assert lines[0].split() == [
        "ATTEMPT", "STARTED", "DURATION", "WAITED", "FIRST", "STEP", "WORKER", "OUTCOME", "MESSAGE"
    ]  # fmt: skip
    assert lines[1].split()[3:] == [
        "1", "min", "05", "s", "1.5", "s", "0", "w1", "failed", "Its", "process", "was", "killed."
    ]  # fmt: skip
    assert lines[2].split()[7:] == ["1200", "w1", "running", "–"]
    assert [attempt["attempt"] for attempt in ampctl("attempts", "a", "--json").json()] == [1, 2]


def test_each_allocation_is_a_row(ampctl, server):
    server.add_job("a")
    assert ampctl("job", "allocations", "a").err == "No batch system was asked to run the job.\n"
    failed = {"state": "FAILED", "reason": "NonZeroExitCode", "nodes": "n1"}
    server.add_allocation("a", **failed, ended_at="2030-01-02T03:05:05Z")
    server.add_allocation("a", reason="Resources")
    head, first, second = ampctl("job", "allocations", "a").out.splitlines()
    assert head.split() == [
        "ATTEMPT", "ENGINE", "ID", "STATE", "NODES", "CREATED", "ENDED", "NAME", "REASON"
    ]  # fmt: skip
    assert first.split()[:5] == ["1", "slurm", "4711", "FAILED", "n1"]
    assert first.split()[-2:] == ["ampcore-a-1-1", "NonZeroExitCode"]
    assert second.split()[-3:] == ["–", "ampcore-a-1-2", "Resources"]
    server.add_allocation("a", expected_start_at="2030-01-02T14:30:00Z")
    assert "EXPECTED START" in ampctl("job", "allocations", "a").out


@pytest.mark.parametrize("form", ["json", "yaml", "name", "wide"])
def test_allocations_have_the_formats_of_every_list(ampctl, server, form):
    server.add_job("a")
    server.add_allocation("a", nodes="n[1-2]")
    result = ampctl("job", "allocations", "a", "-o", form)
    if form == "json":
        assert result.json() == server.allocations["a"]
    elif form == "name":
        assert result.out == "ampcore-a-1-1\n"
    else:
        assert "n[1-2]" in result.out


def test_get_shows_the_allocation_that_a_job_waits_for_or_runs_in(ampctl, server):
    ended = {"state": "NODE_FAIL", "ended_at": "2030-01-02T03:05:05Z"}
    for job_id, state in (("a", "running"), ("b", "succeeded")):
        server.add_job(job_id, state=state)
        server.add_allocation(job_id, **ended)
        server.add_allocation(job_id, state="RUNNING", nodes="n[1-2]")
    assert "allocation    Slurm job 4712 RUNNING on n[1-2]\n" in ampctl("get", "a").out
    assert "Slurm" not in ampctl("get", "b").out
    # One line is enough: the reason why a job waits names its allocation.
    server.add_job("c", waiting="Slurm job 4711 is PENDING (Resources).")
    server.add_allocation("c", reason="Resources")
    assert ampctl("get", "c").out.count("Slurm") == 1
    server.add_job("d", waiting="A worker for this job alone was started on n1.")
    server.add_allocation("d", state="RUNNING", nodes="n1")
    assert "Slurm job 4711 RUNNING on n1\n" in ampctl("get", "d").out


def test_get_shows_a_running_job_of_a_server_without_allocations(ampctl, server):
    job = server.add_job("a", state="running")
    server.next_responses = [lambda _: httpx.Response(200, json=job), no_such_path]
    result = ampctl("get", "a")
    assert (result.code, result.err) == (0, "")
    assert "running" in result.out
    assert server.next_responses == []


RANKS = [
    {"rank": 0, "worker_id": "w1", "device": "a CPU", "state": "running"},
    {"rank": 1, "worker_id": "w2", "device": None, "state": "failed"},
]


def test_attempts_show_how_many_ranks_are_in_which_state(ampctl, server):
    server.add_job("a")
    server.add_attempt("a", ranks=RANKS)
    head, row = ampctl("attempts", "a").out.splitlines()
    assert "RANKS" in head
    assert "1 running, 1 failed" in row


def test_get_shows_each_rank_of_a_job_with_several(ampctl, server):
    server.add_job("a", ranks=2, state="running", attempt=1)
    server.add_attempt("a", ranks=RANKS)
    lines = [line.split(maxsplit=2) for line in ampctl("get", "a").out.splitlines()]
    assert ["rank", "0", "running on w1, a CPU"] in lines
    assert ["rank", "1", "failed on w2, –"] in lines
    assert ["ranks", "2"] in lines
    assert "ranks" not in ampctl("get", server.add_job("b")["id"]).out


@pytest.mark.parametrize(("started", "shown"), [([], "at most 4"), (RANKS, "2 of at most 4")])
def test_get_shows_how_many_ranks_an_elastic_job_may_have(ampctl, server, started, shown):
    spec = {"runtime": {"workers": 4, "elastic": {"min": 2, "max": 4}}}
    server.add_job("a", ranks=4, spec=spec)
    server.add_attempt("a", ranks=started)
    lines = [line.split(maxsplit=1) for line in ampctl("get", "a").out.splitlines()]
    assert ["ranks", shown] in lines


ODD = "a\x7fb\x9b8mc\u202ed\u2028e\ufefff\x1b[8m\r\b名"


@every_row("words", [("logs", "a"), ("get", "a"), ("list",), ("events", "a")])
def test_json_is_exact_and_has_no_control_characters(ampctl, server, words):
    server.add_job("a", name=ODD, message=ODD)
    server.add_logs("a", ODD)
    out = ampctl(*words, "--json").out
    assert all(c.isprintable() or c == "\n" for c in out)
    if words != ("events", "a"):
        assert "名" in out
        assert json.dumps(ODD) in json.dumps(json.loads(out))
