import pytest

from ampcore.series import Event, EventType
from ampcore.spec import State
from store import ingest


@pytest.fixture
def job_id(api, make_job):
    """A running job whose ledger holds three changes of state and an overflow."""
    job = make_job(State.RUNNING)
    with api.database.write() as session:
        facts = {"before": 65536.0, "norm": float("nan")}
        ingest.append(session, job.id, 1, [Event(EventType.OVERFLOW, 7, facts)], told=0)
    return job.id


def test_the_ledger_is_told_in_order(api, job_id):
    page = api.client.get(f"/api/v1/jobs/{job_id}/events").json()
    assert [event["seq"] for event in page["items"]] == [1, 2, 3, 4]
    assert [event["type"] for event in page["items"]] == ["state", "state", "state", "overflow"]
    last = page["items"][-1]
    assert (last["step"], last["attempt"]) == (7, 1)
    assert last["data"] == {"before": 65536.0, "norm": "NaN"}
    assert last["created_at"].endswith("Z")
    assert (page["next"], page["more"]) == (4, False)


def test_polling_with_next_brings_every_event_once(api, job_id):
    seen, after, more = [], 0, True
    while more:
        query = {"after": after, "limit": 3}
        page = api.client.get(f"/api/v1/jobs/{job_id}/events", params=query).json()
        seen += [event["seq"] for event in page["items"]]
        after, more = page["next"], page["more"]
    assert seen == [1, 2, 3, 4]


def test_nothing_new_leaves_the_place_where_it_was(api, job_id):
    page = api.client.get(f"/api/v1/jobs/{job_id}/events?after=4").json()
    assert page == {"items": [], "next": 4, "more": False}


@pytest.mark.parametrize("query", ["after=-1", "limit=0", "limit=1001", "since=1"])
def test_events_asked_for_wrongly_are_refused(api, job_id, query):
    answer = api.client.get(f"/api/v1/jobs/{job_id}/events?{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
