import math

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampclient import ConnectionFailed, StepBlock, StepsMissing, UnexpectedResponse
from ampclient._telemetry.arrow_stream import MEDIA_TYPE
from ampclient.errors import InvalidRequest
from tests.tables import every_row


@pytest.fixture
def job(client, server):
    server.add_job("a", state="running")
    return client.jobs.get("a")


def requests(server):
    return [request for request in server.requests if request.url.path.endswith("/steps")]


def joined(blocks):
    return StepBlock.concat(list(blocks))


def test_all_steps_are_read_in_one_response(job, server):
    server.add_steps("a", 25)
    server.steps_per_page = 10
    block = job.steps()
    assert isinstance(block, StepBlock)
    assert block["step"].tolist() == list(range(25))
    assert block["loss"][24] == np.float32(1 / 25)
    assert block["skipped"].dtype == np.bool_
    assert len(requests(server)) == 1


def test_iter_steps_yields_blocks_of_writable_arrays(job, server):
    server.add_steps("a", 25)
    server.steps_per_page = 10
    blocks = list(job.iter_steps())
    assert [len(block) for block in blocks] == [10, 10, 5]
    blocks[0]["loss"][0] = 7.0


def test_steps_can_be_read_for_a_range_and_some_columns(job, server):
    server.add_steps("a", 25)
    server.steps_per_page = 4
    block = job.steps(start=5, end=15, columns=["loss"])
    assert block["step"].tolist() == list(range(5, 15))
    assert block.names == ("loss",)
    assert job.steps(after=22).first_step == 23


def test_steps_that_do_not_exist_are_an_empty_block(job, server):
    assert len(job.steps()) == 0
    assert job.steps(columns=["loss"]).names == ("loss",)
    server.add_steps("a", 3)
    assert len(job.steps(after=2)) == 0
    assert job.steps(after=2).first_step == 3


def test_non_finite_values_are_preserved(job, server):
    server.add_steps("a", 1, loss="Infinity", skipped=True)
    server.add_steps("a", 1, loss="NaN")
    block = job.steps()
    assert block["loss"][0] == math.inf
    assert math.isnan(block["loss"][1])
    assert block["skipped"].tolist() == [True, False]


def test_an_unknown_column_is_an_invalid_request(job, server):
    server.add_steps("a", 1)
    with pytest.raises(InvalidRequest, match="lossy"):
        job.steps(columns=["lossy"])


def test_a_request_without_columns_is_a_value_error(job):
    with pytest.raises(ValueError, match="at least one column"):
        job.steps(columns=["step"])


def page(*steps):
    return {"step": [*steps], "loss": [float(step) for step in steps]}


@every_row("pages", [[page(0, 1, 4, 5)], [page(0, 1), page(4, 5)]])
def test_missing_steps_are_a_gap_in_a_block_or_between_two(job, server, arrow, pages):
    server.next_responses = [arrow(*pages)] * 2
    blocks = list(job.iter_steps())
    assert len(blocks) == len(pages)
    assert [step for block in blocks for step in block["step"].tolist()] == [0, 1, 4, 5]
    assert [loss for block in blocks for loss in block["loss"].tolist()] == [0, 1, 4, 5]
    with pytest.raises(StepsMissing, match="Steps 2 to 3 are missing"):
        job.steps()


@every_row(
    "pages", [[page(3, 3)], [page(3, 2)], [page(3, 4), page(4)], [page(3), page(0)], [page(2)]]
)
def test_a_repeated_step_is_unexpected(job, server, arrow, pages):
    server.next_responses = [arrow(*pages)]
    with pytest.raises(
        UnexpectedResponse, match=r"again; expected step|ascending numbers of steps"
    ):
        job.steps(start=3)


@every_row(
    "options",
    [
        {"json": {"data": {}}},
        {"html": "<html>", "headers": {"content-type": "text/html"}},
        {"content": b"\xff" * 100, "headers": {"content-type": MEDIA_TYPE}},
    ],
)
def test_a_response_that_is_no_arrow_stream_is_unexpected(job, server, respond, options):
    server.next_responses = [respond(200, **options)]
    with pytest.raises(UnexpectedResponse, match="Expected"):
        job.steps()


@every_row("columns", [{"loss": [1.0]}, {"step": [-1], "loss": [1.0]}])
def test_columns_without_valid_steps_are_unexpected(job, server, arrow, columns):
    server.next_responses = [arrow(columns)]
    with pytest.raises(UnexpectedResponse, match="Expected an Arrow stream of steps"):
        job.steps()


@pytest.mark.parametrize("hidden", [False, True])
def test_reading_resumes_after_a_broken_connection(job, server, cut_response, hidden):
    server.add_steps("a", 25)
    server.steps_per_page = 5
    server.next_responses = [cut_response(-100, hidden=hidden)]  # within the last page
    assert joined(job.iter_steps(end=24))["step"].tolist() == list(range(24))
    first, second = (request.url.params for request in requests(server))
    assert ("after" in first, second["after"], second["end"]) == (False, "19", "24")


def test_a_slow_reader_resumes_after_interruptions(job, server, cut_response, clock):
    server.add_steps("a", 25)
    server.steps_per_page = 5
    server.next_responses = [cut_response(-100), cut_response(-100)]
    steps = []
    for block in job.iter_steps():
        steps += block["step"].tolist()
        clock.sleep(1000)
    assert steps == list(range(25))


@pytest.mark.parametrize("status", [429, 502, 503])
def test_a_temporary_error_response_is_retried(job, server, respond, clock, status):
    server.add_steps("a", 3)
    server.next_responses = [respond(status, headers={"retry-after": "2"})]
    assert len(job.steps()) == 3
    assert len(clock.slept) == 1


def test_a_response_that_makes_no_progress_is_given_up(job, server, cut_response, clock):
    server.add_steps("a", 3)
    server.next_responses = [cut_response(100)] * 100
    with pytest.raises(ConnectionFailed):
        job.steps()
    assert sum(clock.slept) < 10


@settings(
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    sizes=st.lists(st.integers(0, 3000), max_size=5),
    steps_per_page=st.integers(1, 30),
    hidden=st.booleans(),
    columns=st.sampled_from([None, ["skipped"], ["skipped", "step", "loss"]]),
    start=st.none() | st.integers(0, 24),
)
def test_each_step_is_read_once_after_any_interruptions(
    client, server, cut_response, *, sizes, steps_per_page, hidden, columns, start
):
    server.steps = {}
    server.add_job("h", state="succeeded")
    server.add_steps("h", 25, loss="NaN")
    server.steps_per_page = steps_per_page
    job = client.jobs.get("h")
    whole = job.steps(columns=columns, start=start)
    server.next_responses = [cut_response(size, hidden=hidden) for size in sizes]
    broken = job.steps(columns=columns, start=start)
    assert broken == whole
    assert broken.names == tuple(n for n in columns or ["loss", "skipped"] if n != "step")
    assert whole["step"].tolist() == list(range(start or 0, 25))
    server.next_responses = []


def test_follow_gives_each_step_once_until_the_job_has_ended(job, server, clock):
    server.steps_per_page = 3
    server.add_steps("a", 4)
    server.change("a", steps=5)
    server.change("a", steps=0)
    server.change("a", steps=2, state="succeeded")
    blocks = list(job.follow_steps(poll_s=0.5))
    assert StepBlock.concat(blocks)["step"].tolist() == list(range(11))
    assert all(len(block) for block in blocks)
    assert clock.slept == [0.5, 0.5]


def test_follow_reads_steps_written_just_before_the_end(job, server):
    server.change("a", steps=3)
    server.change("a", steps=4, state="failed")
    assert sum(len(block) for block in job.follow_steps()) == 7


def test_follow_can_start_after_a_step(job, server):
    server.add_steps("a", 10)
    server.change("a", state="succeeded")
    [block] = job.follow_steps(after=6, columns=["loss"])
    assert block["step"].tolist() == [7, 8, 9]


def test_follow_reads_the_stored_steps_of_an_ended_job(client, server):
    server.add_job("z", state="succeeded")
    server.add_steps("z", 3)
    [block] = client.jobs.get("z").follow_steps()
    assert len(block) == 3


def test_follow_continues_after_a_server_restart(job, server, respond):
    server.add_steps("a", 2)
    server.change("a")
    server.change("a", steps=2, state="succeeded")
    follower = job.follow_steps()
    first = next(follower)
    server.next_responses = [respond(httpx.ConnectError("refused"))] * 10
    remaining_blocks = list(follower)
    assert StepBlock.concat([first, *remaining_blocks])["step"].tolist() == [0, 1, 2, 3]


@settings(
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    arrivals=st.lists(st.integers(0, 7), max_size=8),
    steps_per_page=st.integers(1, 9),
    after=st.none() | st.integers(0, 12),
)
def test_follow_reads_each_step_once(client, server, *, arrivals, steps_per_page, after):
    server.steps, server.changes = {"h": []}, {}
    server.steps_per_page = steps_per_page
    server.add_job("h", state="running")
    for count in arrivals:
        server.change("h", steps=count)
    server.change("h", state="succeeded")
    job = client.jobs.get("h")
    followed = [step for block in job.follow_steps(after=after) for step in block["step"]]
    assert followed == list(range(0 if after is None else after + 1, sum(arrivals)))
