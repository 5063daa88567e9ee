import math

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampclient import StepBlock, UnexpectedAnswer
from ampclient.errors import InvalidRequest


@pytest.fixture
def job(client, server):
    server.add_job("a", state="running")
    return client.jobs.get("a")


def requests(server):
    return [request for request in server.requests if request.url.path.endswith("/steps")]


def test_steps_follow_every_page(job, server):
    server.add_steps("a", 25)
    server.steps_per_page = 10
    block = job.steps()
    assert isinstance(block, StepBlock)
    assert block["step"].tolist() == list(range(25))
    assert block["loss"][24] == np.float32(1 / 25)
    assert block["skipped"].dtype == np.bool_
    assert len(requests(server)) == 3


def test_steps_of_a_range_and_some_columns(job, server):
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


def test_non_finite_values_survive(job, server):
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


def test_no_column_at_all_is_refused_at_once(job):
    with pytest.raises(ValueError, match="at least one column"):
        job.steps(columns=["step"])


@pytest.mark.parametrize("steps", [[0, 2], [1, 1], [3, 2]])
def test_an_answer_with_gaps_or_repeats_is_unexpected(job, server, answer, steps):
    page = {"data": {"step": steps, "loss": [1.0, 1.0]}, "next": steps[-1], "more": False}
    server.next_answers = [answer(200, json=page)]
    with pytest.raises(UnexpectedAnswer, match="gaps or repeats"):
        job.steps()


def test_pages_with_a_gap_between_them_are_unexpected(job, server, answer):
    pages = [
        {"data": {"step": [0], "loss": [1.0]}, "next": 0, "more": True},
        {"data": {"step": [2], "loss": [1.0]}, "next": 2, "more": False},
    ]
    server.next_answers = [answer(200, json=page) for page in pages]
    with pytest.raises(UnexpectedAnswer, match="Expected step 1 next, received step 2"):
        job.steps()


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


def test_follow_reads_what_came_just_before_the_end(job, server):
    server.change("a", steps=3)
    server.change("a", steps=4, state="failed")
    assert sum(len(block) for block in job.follow_steps()) == 7


def test_follow_goes_on_behind_a_step(job, server):
    server.add_steps("a", 10)
    server.change("a", state="succeeded")
    [block] = job.follow_steps(after=6, columns=["loss"])
    assert block["step"].tolist() == [7, 8, 9]


def test_follow_reads_the_history_of_a_job_that_has_ended(client, server):
    server.add_job("z", state="succeeded")
    server.add_steps("z", 3)
    [block] = client.jobs.get("z").follow_steps()
    assert len(block) == 3


def test_follow_bears_with_a_server_that_restarts(job, server, answer):
    server.add_steps("a", 2)
    server.change("a")
    server.change("a", steps=2, state="succeeded")
    follower = job.follow_steps()
    first = next(follower)
    server.next_answers = [answer(httpx.ConnectError("refused"))] * 10
    rest = list(follower)
    assert StepBlock.concat([first, *rest])["step"].tolist() == [0, 1, 2, 3]


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    arrivals=st.lists(st.integers(0, 7), max_size=8),
    steps_per_page=st.integers(1, 9),
    after=st.none() | st.integers(0, 12),
)
def test_follow_neither_repeats_nor_loses_a_step(
    client, server, *, arrivals, steps_per_page, after
):
    server.steps, server.changes = {"h": []}, {}
    server.steps_per_page = steps_per_page
    server.add_job("h", state="running")
    for count in arrivals:
        server.change("h", steps=count)
    server.change("h", state="succeeded")
    job = client.jobs.get("h")
    followed = [step for block in job.follow_steps(after=after) for step in block["step"]]
    assert followed == list(range(0 if after is None else after + 1, sum(arrivals)))
