import base64
import json
from datetime import UTC, datetime

import pytest
from sqlalchemy import event, update

from ampspec.jobs import State
from server.jobs import listing
from store.clock import from_now
from store.jobs import attempts
from store.listing import search
from store.listing.job_order import Sort
from store.tables import Job, JobMetric
from tests.databases import ON_SQLITE
from tests.tables import every_row


def listed(client, **query):
    answer = client.get("/api/v1/jobs", params=query)
    assert answer.status_code == 200, answer.text
    return [job["id"] for job in answer.json()["items"]]


def page(api, **query):
    answer = api.client.get("/api/v1/jobs", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def namesakes(api, make_job):
    """The ids of five jobs with two names, unchanged for long before the first page."""
    job_ids = [make_job(name=f"Grüße {n % 2}").id for n in range(5)]
    with api.database.write() as session:
        session.execute(update(Job).values(updated_at=from_now(-3600), changed_at=from_now(-3600)))
    return job_ids


@every_row("sort", [None, *Sort])
def test_pages_list_every_job_once(api, namesakes, sort):
    query = {"limit": 2} | ({"sort": sort} if sort else {})
    seen, cursor = [], {}
    while cursor is not None:
        found = page(api, **query, **cursor)
        seen += [job["id"] for job in found["items"]]
        cursor = {"cursor": found["next_cursor"]} if found["next_cursor"] else None
    assert sorted(seen) == sorted(namesakes)


def test_the_newest_jobs_come_first_by_default(api, make_job):
    first, second = (make_job(name=name).id for name in ("b", "a"))
    assert listed(api.client) == listed(api.client, sort="name") == [second, first]
    assert listed(api.client, sort="created_at") == listed(api.client, sort="-name")


def test_a_list_can_be_filtered(api, make_job):
    one = make_job(name="Digits in half", labels={"team": "a=b"}).id
    two = make_job(State.FAILED, precision={"policy": "mixed_float16"}, model={"kind": "cnn"}).id
    make_job(State.RUNNING)
    assert set(listed(api.client, state=["queued", "failed"])) == {one, two}
    assert listed(api.client, label="team") == listed(api.client, label="team=a=b") == [one]
    assert listed(api.client, label=["team", "other"]) == []
    assert listed(api.client, q="IN HALF") == listed(api.client, q=one[:8]) == [one]
    assert listed(api.client, policy="mixed_float16") == listed(api.client, model="cnn") == [two]
    assert len(listed(api.client, q="")) == 3


@pytest.fixture
def evaluated(api, make_job):
    """Ids of jobs by their accuracy; None has none."""
    made = {}
    for accuracy in (0.5, 0.875, None, 0.75):
        job = make_job(State.RUNNING)
        result = {"val_loss": 1.0} if accuracy is None else {"metrics": {"val_accuracy": accuracy}}
        with api.database.write() as session:
            attempts.mark_succeeded(session, job.id, 1, result)
        made[accuracy] = job.id
    return made


def test_a_list_is_sorted_by_a_metric(api, evaluated):
    best = [evaluated[accuracy] for accuracy in (0.875, 0.75, 0.5, None)]
    assert listed(api.client, sort="-val_accuracy") == best
    assert listed(api.client, sort="val_accuracy") == [*best[2::-1], best[3]]


def test_a_list_is_filtered_by_metrics(api, evaluated):
    assert set(listed(api.client, metric="val_accuracy>=0.75")) == {
        evaluated[0.75],
        evaluated[0.875],
    }
    both = ["val_accuracy > 0.5", "val_accuracy<8e-1"]
    assert listed(api.client, metric=both) == [evaluated[0.75]]
    assert listed(api.client, metric="val_loss==1") == [evaluated[None]]
    assert listed(api.client, metric="val_accuracy<0") == []
    assert listed(api.client, metric="val_top 5 < 1", sort="val_top 5") == []


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_sorted_by_a_metric_list_every_job(api, evaluated, limit):
    with api.database.write() as session:
        session.execute(update(JobMetric).values(updated_at=from_now(-3600)))
    query = {"sort": "-val_accuracy", "limit": limit}
    seen, cursor = [], {}
    while cursor is not None:
        found = page(api, **query, **cursor)
        seen += [job["id"] for job in found["items"]]
        cursor = {"cursor": found["next_cursor"]} if found["next_cursor"] else None
    assert seen == [evaluated[accuracy] for accuracy in (0.875, 0.75, 0.5, None)]


@ON_SQLITE
def test_a_mistyped_sort_key_gets_a_suggestion(api):
    [error] = api.client.get("/api/v1/jobs?sort=-prority").json()["errors"]
    assert error["suggestion"] == "-priority"
    assert "val_loss" in error["expected"]


def test_created_after_accepts_any_time_zone(api, make_job):
    job = make_job()
    assert listed(api.client, created_after="2020-01-01T00:00:00+14:00") == [job.id]
    assert listed(api.client, created_after=datetime.now(UTC).isoformat()) == []


def test_jobs_are_listed_up_to_a_time(api, database, make_job):
    jobs = [make_job() for _ in range(3)]
    with database.write() as session:
        for job, day in zip(jobs, (1, 2, 3), strict=True):
            moment = datetime(2030, 1, day, tzinfo=UTC)
            session.execute(update(Job).where(Job.id == job.id).values(created_at=moment))
    between = {
        "created_after": "2030-01-01T00:00:00Z",
        "created_before": "2030-01-03T01:00:00+01:00",
    }
    assert listed(api.client, **between) == [jobs[1].id]


def test_a_member_lists_only_the_jobs_of_its_project(api, make_job, client_with_role):
    own, theirs = make_job(project="ours").id, make_job(project="theirs").id
    viewer = client_with_role("viewer", "ours")
    assert listed(viewer) == listed(viewer, project="ours") == [own]
    refused = viewer.get("/api/v1/jobs?project=theirs")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert set(listed(api.client)) == {own, theirs}
    assert listed(api.client, project="theirs") == [theirs]
    assert listed(api.client, project="nobody's") == []


@pytest.fixture
def cursor(api, make_job):
    """The cursor of a list of two jobs, sorted by name."""
    for _ in range(2):
        make_job()
    return page(api, limit=1, sort="name", state="queued")["next_cursor"]


@ON_SQLITE
@every_row(
    "other",
    [
        {},
        {"sort": "-name", "state": "queued"},
        {"sort": "name"},
        {"sort": "name", "state": "failed"},
        {"sort": "name", "state": "queued", "label": "a"},
        {"sort": "name", "state": "queued", "project": "default"},
    ],
)
def test_a_cursor_is_valid_only_for_its_own_list(api, cursor, other):
    answer = api.client.get("/api/v1/jobs", params={**other, "cursor": cursor})
    assert answer.status_code == 422
    [error] = answer.json()["errors"]
    assert error["pointer"] == "/query/cursor"
    assert "the same sort" in error["expected"]


def test_a_cursor_is_valid_with_another_limit(api, cursor):
    assert len(page(api, sort="name", state="queued", limit=100, cursor=cursor)["items"]) == 1


def decoded(cursor):
    return json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))


def encoded(parts):
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


ID = "0123456789ab"


@ON_SQLITE
@every_row(
    ("sort", "value", "job_id"),
    [
        ("name", 3, ID),
        ("name", "a\0", ID),
        ("name", "\ud800", ID),
        ("name", "a", "../x"),
        ("name", "a", None),
        ("priority", 10**30, ID),
        ("priority", True, ID),
        ("priority", [], ID),
        ("created_at", "2020-01-01T00:00:00", ID),
        ("created_at", "0001-01-01T00:00:00+14:00", ID),
        ("created_at", 7, ID),
        ("created_at", "m", ID),
    ],
)
def test_a_cursor_with_another_position_is_refused(api, make_job, sort, value, job_id):
    make_job()
    make_job()
    real = decoded(page(api, limit=1, sort=sort)["next_cursor"])
    list_digest, _, _, started_at, section = real
    cursor = encoded([list_digest, value, job_id, started_at, section])
    answer = api.client.get("/api/v1/jobs", params={"sort": sort, "cursor": cursor})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/query/cursor")
    assert "earlier response" in answer.json()["detail"]
    assert page(api, sort=sort, cursor=encoded(real))["items"]


@ON_SQLITE
@every_row("parts", [0, 3, 4, 6])
def test_a_cursor_with_too_few_or_too_many_parts_is_refused(api, make_job, parts):
    make_job()
    make_job()
    real = decoded(page(api, limit=1, sort="name")["next_cursor"])
    cursor = encoded([*real, "more"][:parts])
    answer = api.client.get("/api/v1/jobs", params={"sort": "name", "cursor": cursor})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/query/cursor")


TIME = "2020-01-01T00:00:00+00:00"


@ON_SQLITE
@every_row(
    ("sort", "parts"),
    [
        ("val_accuracy", [True, ID, TIME, "in_order"]),
        ("val_accuracy", ["0.5", ID, TIME, "in_order"]),
        ("val_accuracy", [float("nan"), ID, TIME, "in_order"]),
        ("val_accuracy", [None, ID, TIME, "in_order"]),
        ("val_accuracy", [10**400, ID, TIME, "in_order"]),
        ("val_accuracy", [0.5, ID, TIME, "without_metric"]),
        ("val_accuracy", [0.5, ID, TIME, "moved"]),
        ("val_accuracy", [0.5, ID, None, "in_order"]),
        ("val_accuracy", [0.5, ID, TIME, "other"]),
        ("val_accuracy", [0.5, ID, TIME, []]),
        ("name", ["a", ID, TIME, "without_metric"]),
        ("name", [None, ID, TIME, "in_order"]),
        ("name", ["a", ID, TIME, True]),
        ("-created_at", [TIME, ID, None, "moved"]),
    ],
)
def test_a_forged_position_is_refused(api, evaluated, sort, parts):
    list_digest, *_ = decoded(page(api, limit=1, sort=sort)["next_cursor"])
    cursor = encoded([list_digest, *parts])
    answer = api.client.get("/api/v1/jobs", params={"sort": sort, "cursor": cursor})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/query/cursor")


@ON_SQLITE
@every_row("cursor", ["x", "A" * 40, "W10", "e30", "MQ", "W1tbW1tbW1s", "ä", "%"])
def test_a_malformed_cursor_is_refused(api, cursor):
    answer = api.client.get("/api/v1/jobs", params={"cursor": cursor})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/query/cursor")


@ON_SQLITE
@every_row(
    "query",
    [
        "limit=0",
        "limit=101",
        "limit=ten",
        "state=asleep",
        "stat=queued",
        "sort=size",
        "sort=--name",
        "sort=val_",
        "sort=-val_a>b",
        "metric=val_loss",
        "metric=loss<1",
        "metric=val_loss<",
        "metric=val_loss<nan",
        "metric=val_loss<1e999",
        "metric=val_loss<1<2",
        "metric=val_loss=>1",
        "metric=val_loss%00<1",
        "label==x",
        "label=",
        "q=%00",
        "label=a%00",
        "policy=%00",
        "model=%00",
        "project=%00",
        "cursor=%00",
        "created_after=yesterday",
        "created_after=2020-01-01T00:00:00",
        "created_after=0001-01-01T00:00:00%2B14:00",
        "created_after=1e400",
        "created_before=tomorrow",
        "created_before=0001-01-01T00:00:00%2B14:00",
        "q=" + "x" * 201,
        "cursor=" + "x" * 2001,
    ],
)
def test_an_invalid_list_query_is_refused(api, query):
    answer = api.client.get(f"/api/v1/jobs?{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    pointer = answer.json()["errors"][0]["pointer"]
    assert pointer.startswith(f"/query/{query.partition('=')[0]}")


def large(number):
    """A job with a spec of about 50 kB."""
    overrides = [{"layers": f"{i:03}" + "x" * 170, "dtype": "float32"} for i in range(250)]
    precision = {"policy": "mixed_bfloat16", "overrides": overrides}
    return {"name": f"large {number}", "precision": precision}


def test_a_list_has_specs_only_on_request(api, make_job):
    job = make_job(
        train={"accumulate": 3},
        data={"kind": "digits", "batch_size": 8},
        runtime={"workers": 2, "devices": 5},
    )
    [short] = page(api)["items"]
    whole = api.client.get(f"/api/v1/jobs/{job.id}").json()
    assert "spec" not in short
    assert (short["examples_per_step"], short["loss_scale_mode"]) == (240, "none")
    [long] = page(api, fields="spec")["items"]
    assert long == {**short, "spec": whole["spec"]}
    assert {**whole, "waiting": None} == long


@ON_SQLITE
def test_an_unknown_field_is_refused(api):
    answer = api.client.get("/api/v1/jobs?fields=steps")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"].startswith("/query/fields")


@ON_SQLITE
def test_a_page_of_large_jobs_is_shorter_and_the_next_pages_continue(api, make_job, monkeypatch):
    made = [make_job(**large(number)).id for number in range(7)]
    whole = len(api.client.get("/api/v1/jobs?fields=spec&limit=1").content)
    assert whole > 40_000
    monkeypatch.setattr(listing, "MAX_PAGE_BYTES", 3 * whole)
    seen, sizes, cursor = [], [], {}
    while cursor is not None:
        answer = api.client.get("/api/v1/jobs", params={"fields": "spec", **cursor})
        found = answer.json()
        seen += [job["id"] for job in found["items"]]
        sizes.append(len(answer.content))
        cursor = {"cursor": found["next_cursor"]} if found["next_cursor"] else None
    assert sorted(seen) == sorted(made)
    assert max(sizes) < 3.5 * whole
    monkeypatch.setattr(listing, "MAX_PAGE_BYTES", 1)
    assert len(page(api, fields="spec")["items"]) == 1


@ON_SQLITE
def test_labels_count_towards_the_size_of_a_page(api, make_job, monkeypatch):
    for _ in range(4):
        make_job(labels={f"key {number}": "v" * 200 for number in range(30)})
    monkeypatch.setattr(listing, "MAX_PAGE_BYTES", 16_000)
    found = page(api)
    assert 1 <= len(found["items"]) < 4
    assert found["next_cursor"]


def test_specs_are_read_in_small_batches_and_only_on_request(api, make_job, monkeypatch):
    made = [make_job(**large(number)) for number in range(9)]
    with api.database.read() as session:
        specs = search.specs(session, [job.id for job in made])
        statements = []
        for one in (api.database, api.app.state.services.database):
            event.listen(one.engine, "before_cursor_execute", _recorder(statements))
        assert next(specs)["name"] == "large 0"
        assert len(statements) == 1
        assert [spec["name"] for spec in specs] == [f"large {number}" for number in range(1, 9)]
        assert len(statements) == 3
    statements.clear()
    page(api)
    ids, listing_statement = [one for one in statements if "FROM jobs" in one]
    assert ids.partition(" \n")[0] == "SELECT jobs.id, jobs.created_at AS sort_key"
    columns = listing_statement.removeprefix("SELECT ").split(", ")
    assert "jobs.name" in columns
    assert "jobs.spec" not in columns


def _recorder(statements):
    def record(_connection, _cursor, statement, *_):
        if statement.startswith("SELECT"):
            statements.append(statement)

    return record
