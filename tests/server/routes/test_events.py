import pytest

from ampspec.jobs import State
from ampspec.telemetry import Event, EventType
from store.telemetry import ingest
from tests.databases import ON_SQLITE
from tests.tables import every_row


@pytest.fixture
def job_id(api, make_job):
    """A running job whose event log has three state changes and an overflow."""
    job = make_job(State.RUNNING)
    with api.database.write() as session:
        facts = {"before": 65536.0, "norm": float("nan")}
        ingest.append(session, job.id, 1, [Event(EventType.OVERFLOW, 7, facts)], entries_written=0)
    return job.id


def test_events_are_returned_in_order(api, job_id):
    page = api.client.get(f"/api/v1/jobs/{job_id}/events").json()
    assert [event["seq"] for event in page["items"]] == [1, 2, 3, 4]
    assert [event["type"] for event in page["items"]] == ["state", "state", "state", "overflow"]
    last = page["items"][-1]
    assert (last["step"], last["attempt"]) == (7, 1)
    assert last["data"] == {"before": 65536.0, "norm": "NaN"}
    assert last["created_at"].endswith("Z")
    assert (page["next"], page["more"]) == (4, False)


def test_polling_with_next_returns_every_event_once(api, job_id):
    seen, after, more = [], 0, True
    while more:
        query = {"after": after, "limit": 3}
        page = api.client.get(f"/api/v1/jobs/{job_id}/events", params=query).json()
        seen += [event["seq"] for event in page["items"]]
        after, more = page["next"], page["more"]
    assert seen == [1, 2, 3, 4]


def test_an_empty_page_keeps_next(api, job_id):
    page = api.client.get(f"/api/v1/jobs/{job_id}/events?after=4").json()
    assert page == {"items": [], "next": 4, "more": False}


def test_the_event_log_is_read_backwards_from_any_seq(api, job_id):
    def seqs(query):
        page = api.client.get(f"/api/v1/jobs/{job_id}/events?{query}").json()
        return [event["seq"] for event in page["items"]], page["more"]

    assert seqs(f"before={2**53}&limit=3") == ([2, 3, 4], True)
    assert seqs("before=2&limit=3") == ([1], False)
    assert seqs("before=4&after=1") == ([2, 3], False)


@every_row(
    ("query", "seqs"),
    [
        ("type=overflow", [4]),
        ("type=overflow&type=state", [1, 2, 3, 4]),
        ("type=warning", []),
        ("start=7&end=8", [4]),
        ("type=overflow&end=7", []),
        ("start=8", []),
    ],
)
def test_the_event_log_is_filtered_by_type_and_step(api, job_id, query, seqs):
    page = api.client.get(f"/api/v1/jobs/{job_id}/events?{query}").json()
    assert [event["seq"] for event in page["items"]] == seqs


@ON_SQLITE
def test_an_unchanged_event_log_gets_304(api, job_id):
    path = f"/api/v1/jobs/{job_id}/events?after=2"
    etag = api.client.get(path).headers["ETag"]
    assert api.client.get(path, headers={"If-None-Match": etag}).status_code == 304


@ON_SQLITE
@every_row(
    "query",
    ["before=-1", "type=nothing", "start=-1", "after=-1", "limit=0", "limit=1001", "since=1"],
)
def test_an_invalid_events_query_is_refused(api, job_id, query):
    answer = api.client.get(f"/api/v1/jobs/{job_id}/events?{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
