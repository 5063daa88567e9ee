"""Telemetry that no trainer sends, in the database anyway: readers show what can be read.

Workers refuse it; a row may be older than that check, or damaged.
"""

import json

import pytest
from sqlalchemy import text

from ampspec.jobs import State
from ampspec.telemetry import Event, EventType
from server.background.compactor import Compactor
from store.jobs import attempts
from store.telemetry import ingest
from store.telemetry.compaction_queue import MIN_BLOCKS


@pytest.fixture
def trained_job(api, make_job):
    """Makes an ended job with these entries."""

    def make(*entries):
        job_id = make_job(State.RUNNING).id
        with api.database.write() as session:
            assert ingest.append(session, job_id, 1, entries, entries_written=0)
            assert attempts.mark_succeeded(session, job_id, 1, {})
        return job_id

    return make


def nested(levels):
    document = {}
    for _ in range(levels):
        document = {"x": document}
    return document


def get(api, path, **query):
    answer = api.client.get(f"/api/v1{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer


def test_events_that_cannot_be_written_as_json_are_listed_without_their_data(api, trained_job):
    """Before, `GET /events` answered 500, and the stream ended in the middle."""
    job_id = trained_job(
        Event(EventType.WARNING, 1, nested(300)),
        Event(EventType.WARNING, 2, {"x": 10**30}),
        Event(EventType.WARNING, 3, {"x": 1}),
    )
    listed = get(api, f"/jobs/{job_id}/events", type="warning").json()["items"]
    assert [(event["step"], event["data"]) for event in listed] == [(1, {}), (2, {}), (3, {"x": 1})]
    assert [event.get("unreadable") for event in listed] == [["data"], ["data"], None]
    stream = get(api, f"/jobs/{job_id}/stream", kinds="events").text
    events = [
        json.loads(line.removeprefix("data: "))
        for line in stream.splitlines()
        if line.startswith("data: {")
    ]
    assert [event["step"] for event in events if event.get("type") == "warning"] == [1, 2, 3]
    assert events[-1] == {"state": "succeeded"}


def test_overlapping_blocks_give_each_step_once(api, trained_job, make_block):
    """Before, `GET /steps` and `GET /compare` answered 500."""
    job_id = trained_job(make_block(0, 10), make_block(5, 10), make_block(12, 8))
    found = get(api, f"/jobs/{job_id}/steps").json()
    assert found["data"]["step"] == list(range(20))
    compared = get(api, "/compare", jobs=f"{job_id},{trained_job(make_block(0, 30))}").json()
    assert sum(compared["jobs"][0]["data"]["count"]) == 20
    for path, query in (
        ("steps", {"max_points": 5}),
        ("steps", {"format": "csv"}),
        ("stream", {"kinds": "steps"}),
    ):
        get(api, f"/jobs/{job_id}/{path}", **query)


def test_overlapping_blocks_are_not_merged_and_do_not_keep_others_from_it(
    api, trained_job, make_block
):
    first_steps = [*range(0, 10 * MIN_BLOCKS, 10), 10 * MIN_BLOCKS - 5]
    wrong = trained_job(*(make_block(first_step, 10) for first_step in first_steps))
    trained_job(*(make_block(first_step, 10) for first_step in first_steps[:-1]))
    compactor = Compactor(api.database)
    compactor.compact()
    assert compactor.merged == 1
    data = get(api, f"/jobs/{wrong}/steps").json()["data"]
    assert data["step"] == list(range(10 * MIN_BLOCKS + 5))


def test_a_block_with_other_bytes_costs_only_its_own_steps(api, trained_job, make_block):
    job_id = trained_job(make_block(0, 10), make_block(10, 10), make_block(20, 10))
    with api.database.write() as session:
        damage = text("UPDATE step_blocks SET payload = :other WHERE first_step = 10")
        session.execute(damage, {"other": b"other bytes"})
    steps = get(api, f"/jobs/{job_id}/steps").json()["data"]["step"]
    assert steps == [*range(10), *range(20, 30)]
    get(api, "/compare", jobs=f"{job_id},{trained_job(make_block(0, 30))}")
    get(api, f"/jobs/{job_id}/steps", max_points=5)
    stream = get(api, f"/jobs/{job_id}/stream", kinds="steps").text
    assert stream.count("event: steps") == 2
    assert "event: end" in stream


def test_damaged_levels_and_key_steps_of_merged_blocks_are_left_out(api, trained_job, make_block):
    blocks = [make_block(first_step, 10) for first_step in range(0, 10 * MIN_BLOCKS, 10)]
    job_id = trained_job(*blocks)
    compactor = Compactor(api.database)
    while compactor.compact():
        pass
    with api.database.write() as session:
        for table in ("step_levels", "step_points"):
            damage = text(f"UPDATE {table} SET payload = :other")  # noqa: S608
            assert session.execute(damage, {"other": b"other bytes"}).rowcount
        session.execute(text("UPDATE step_points SET skipped = 1"))
    get(api, f"/jobs/{job_id}/steps", max_points=5)
    get(api, "/compare", jobs=f"{job_id},{trained_job(make_block(0, 30))}")
    with api.database.write() as session:
        damage = text("UPDATE step_blocks SET merge_index = :other WHERE merge_index IS NOT NULL")
        assert session.execute(damage, {"other": b"other bytes"}).rowcount
    assert "event: end" in get(api, f"/jobs/{job_id}/stream").text


@pytest.mark.parametrize("value", [10**30, nested(33)], ids=["large", "deep"])
def test_a_tracked_run_cannot_send_what_readers_cannot_read(api, value):
    run = api.client.post("/api/v1/runs", json={"name": "x"}).json()["id"]
    entry = {"type": "event", "event": "warning", "data": {"x": value}}
    answer = api.client.post(f"/api/v1/runs/{run}/steps", json={"entries": [entry]})
    assert answer.status_code in (400, 422), answer.text
    assert get(api, f"/jobs/{run}/events", type="warning").json()["items"] == []
    answer = api.client.post("/api/v1/runs", json={"name": "x", "config": {"x": value}})
    assert answer.status_code in (400, 422), answer.text


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        ({"attribution": 5, "sentence": ["x"]}, {"attribution": 5, "sentence": ["x"]}),
        (nested(300), None),
        ({"attribution": 10**30}, None),
    ],
    ids=["types", "deep", "large"],
)
def test_an_explanation_that_is_none_is_shown_without_it(api, make_job, data, answer):
    explained = make_job(State.SUCCEEDED)
    job = make_job(State.RUNNING)
    with api.database.write() as session:
        session.execute(
            text("UPDATE jobs SET explains = :explained, explain_step = 3 WHERE id = :id"),
            {"explained": explained.id, "id": job.id},
        )
    with api.database.write() as session:
        event = Event(EventType.EXPLANATION, 3, data)
        assert ingest.append(session, job.id, 1, [event], entries_written=0)
    path = f"/jobs/{explained.id}/explanations"
    [listed] = get(api, path).json()["items"]
    assert (listed["attribution"], listed["sentence"]) == (None, None)
    assert get(api, f"{path}/{job.id}").json()["answer"] == answer
