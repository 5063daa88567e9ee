from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

import ampclient
from ampclient import (
    AmpcoreError,
    ConnectionFailed,
    OutcomeUnknown,
    QuotaExceeded,
    ServerError,
    StatusError,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnexpectedResponse,
)
from tests.tables import every_row

SPEC = {"model": {"kind": "cnn", "filters": [8]}, "data": {"kind": "digits"}}


@every_row(
    ("status", "name"),
    [
        (400, "BadRequest"),
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (405, "StatusError"),
        (409, "Conflict"),
        (413, "PayloadTooLarge"),
        (422, "InvalidRequest"),
        (429, "TooManyRequests"),
        (500, "ServerError"),
        (503, "Unavailable"),
        (504, "ServerError"),
    ],
)
def test_each_status_raises_its_error(client, server, respond, status, name):
    document = {"code": "a_code", "detail": "One sentence.", "status": status}
    server.next_responses = [respond(status, json=document)] * 50
    with pytest.raises(AmpcoreError) as caught:
        client.version()
    error = caught.value
    assert type(error) is getattr(ampclient, name)
    assert (error.code, error.status, error.detail) == ("a_code", status, "One sentence.")
    assert str(error) == "One sentence."


def test_a_wrong_token_is_unauthorized(server, respond):
    http_client = httpx.Client(transport=httpx.MockTransport(server))
    with pytest.raises(Unauthorized, match="bearer token"):
        ampclient.Client("http://host", "wrong", http_client=http_client).version()


def test_each_error_of_a_problem_document_is_printed_once_on_its_own_line(client, server, respond):
    errors = [{"pointer": "/limit", "code": "too_large", "detail": "Expected at most 100."}]
    document = {
        "code": "invalid_request",
        "title": "The request is invalid",
        "detail": "/limit: Expected at most 100.",
        "errors": errors,
    }
    server.next_responses = [respond(422, json=document)]
    with pytest.raises(ampclient.InvalidRequest) as caught:
        client.version()
    assert str(caught.value) == "The request is invalid\n  /limit: Expected at most 100."
    assert caught.value.detail == "/limit: Expected at most 100."


def test_an_error_without_a_problem_document_shows_the_response_body(client, server, respond):
    server.next_responses = [respond(418, text="<h1>short and\nstout</h1>")]
    with pytest.raises(StatusError, match=r"418 .*short and stout"):
        client.version()


@every_row(
    ("status", "options"),
    [
        (200, {"html": "<!doctype html>"}),
        (404, {"html": "<!doctype html>"}),
        (404, {"json": {"detail": "Not Found"}}),
    ],
)
def test_a_server_that_is_not_ampcore_is_reported(client, server, respond, status, options):
    server.next_responses = [respond(status, **options)]
    with pytest.raises(AmpcoreError, match=r"not look like an ampcore server. Check AMPCORE_URL"):
        client.version()


@every_row("status", [413, 500])
def test_an_error_page_of_a_proxy_is_not_reported_as_a_wrong_server(
    client, server, respond, status
):
    server.next_responses = [respond(status, html="<!doctype html>")]
    with pytest.raises(StatusError, match=f"or a proxy in front of it, returned {status}"):
        client.version()


@every_row("content", [b"<html>", b"[]", b"{}", b'{"version": 1}', b"\xff"])
def test_a_response_with_an_invalid_body_is_unexpected(client, server, respond, content):
    server.next_responses = [respond(200, content=content)]
    with pytest.raises(UnexpectedResponse, match="GET /api/v1/version"):
        client.version()


def test_a_redirect_is_unexpected(client, server, respond):
    server.next_responses = [respond(307, headers={"location": "https://elsewhere/"})]
    with pytest.raises(UnexpectedResponse, match="redirected to https://elsewhere/"):
        client.version()


def test_a_get_is_retried_after_connection_errors_and_502(client, server, clock, respond):
    server.next_responses = [
        respond(httpx.ConnectError("refused")),
        respond(httpx.ReadError("reset")),
        respond(502, text="bad gateway"),
    ]
    assert client.version().version == "9.8.7"
    assert len(server.requests) == 4
    assert clock.slept == sorted(clock.slept)


def test_the_time_of_retries_is_bounded(client, server, clock, respond):
    server.next_responses = [respond(httpx.ConnectError("refused"))] * 1000
    with pytest.raises(ConnectionFailed, match=r"http://ampcore\.test:8000: refused") as caught:
        client.version()
    assert caught.value.code == "connection_failed"
    assert sum(clock.slept) <= 5


def test_a_submission_whose_response_is_lost_is_retried_and_queues_one_job(
    client, server, clock, lose_response
):
    server.next_responses = [lose_response]
    job = client.jobs.submit(SPEC)
    assert list(server.jobs) == [job.id]
    keys = {request.headers["idempotency-key"] for request in server.requests}
    assert len(keys) == 1


def test_a_clone_whose_response_is_lost_queues_one_job(client, server, clock, lose_response):
    original = client.jobs.submit(SPEC)
    server.next_responses = [lose_response]
    copy = original.clone()
    assert list(server.jobs) == [original.id, copy.id]


def test_each_submission_has_its_own_idempotency_key_unless_one_is_given(client, server):
    assert client.jobs.submit(SPEC).id != client.jobs.submit(SPEC).id
    first, second = (client.jobs.submit(SPEC, idempotency_key="mine") for _ in range(2))
    assert first.id == second.id
    keys = [request.headers["idempotency-key"] for request in server.requests]
    assert len(set(keys)) == 3
    assert keys[2:] == ["mine", "mine"]


def test_a_retry_waits_while_the_first_request_is_in_flight(client, server, clock, respond):
    document = {"code": "request_in_flight", "detail": "It is in progress."}
    server.next_responses = [respond(httpx.ReadError("reset")), respond(409, json=document)]
    assert client.jobs.submit(SPEC).id in server.jobs


def test_the_error_of_a_submission_without_a_response_has_its_key(client, server, clock, respond):
    server.next_responses = [respond(httpx.ReadError("reset"))] * 100
    with pytest.raises(ConnectionFailed) as caught:
        client.jobs.submit(SPEC, idempotency_key="mine")
    assert (caught.value.sent, caught.value.idempotency_key) == (True, "mine")


@pytest.mark.parametrize(
    ("state", "verb"),
    [("paused", "resume"), ("failed", "retry"), ("failed", "delete"), ("queued", "cancel")],
)
def test_an_action_whose_response_is_lost_is_retried_with_the_same_key(
    *, client, server, clock, lose_response, state, verb
):
    """Fails without a key: the retry gets a conflict, because the state has changed."""
    server.add_job("a", state=state)
    job = client.jobs.get("a")
    server.next_responses = [lose_response]
    getattr(job, verb)()
    first, second = (r.headers["idempotency-key"] for r in server.requests[1:])
    assert first == second


def test_every_change_has_its_own_idempotency_key(client, server, worker):
    server.workers = [worker(id="w")]
    server.add_job("a", state="failed")
    job = client.jobs.get("a")
    job.edit(name="b")
    job.retry().cancel()
    token = client.tokens.create("ci")
    client.tokens.revoke(token.id)
    client.projects.update("p", max_queued=1, max_running=None)
    client.workers.drain("w")
    job.clone()
    job.delete()
    changes = [request for request in server.requests if request.method != "GET"]
    assert len({request.headers["idempotency-key"] for request in changes}) == len(changes) == 9


def test_an_unknown_outcome_is_raised_after_the_retries(client, server, clock, respond):
    document = {"code": "outcome_unknown", "detail": "Look whether it was made."}
    server.next_responses = [respond(504, json=document)] * 100
    with pytest.raises(OutcomeUnknown, match="Look whether it was made"):
        client.tokens.create("ci")
    assert len({r.headers["idempotency-key"] for r in server.requests}) == 1
    server.next_responses = [respond(504, json=document)]
    assert client.tokens.create("ci").name == "ci"


def test_an_exceeded_quota_is_raised_without_a_retry(client, server, clock, respond):
    document = {"code": "quota_exceeded", "detail": "The project has 10 jobs in the queue."}
    server.next_responses = [respond(429, json=document, headers={"retry-after": "5"})]
    with pytest.raises(QuotaExceeded, match="10 jobs") as caught:
        client.jobs.submit(SPEC)
    assert isinstance(caught.value, TooManyRequests)
    assert (caught.value.retry_after_s, clock.slept) == (5.0, [])


@every_row(
    ("status", "options"), [(500, {"json": {"code": "internal_error", "detail": "Sorry."}}),
                            (404, {"json": {"code": "not_found", "detail": "No."}}),
                            (200, {"html": "<!doctype html>"}), (302, {})],
)  # fmt: skip
def test_an_error_has_the_id_of_its_request(client, server, respond, status, options):
    server.next_responses = [respond(status, headers={"x-request-id": "4f1c"}, **options)]
    with pytest.raises(AmpcoreError) as caught:
        client.version()
    assert caught.value.request_id == "4f1c"


def test_an_error_without_a_response_has_no_request_id(client, server, clock, respond):
    server.next_responses = [respond(httpx.ConnectError("refused"))] * 100
    with pytest.raises(ConnectionFailed) as caught:
        client.version()
    assert caught.value.request_id is None


def test_a_submission_that_was_not_sent_is_retried(client, server, respond):
    server.next_responses = [respond(httpx.ConnectError("refused"))]
    client.jobs.submit(SPEC)
    assert len(server.jobs) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_of_429_and_503_is_honoured(client, server, clock, respond, status):
    server.next_responses = [respond(status, headers={"retry-after": "7"})]
    client.jobs.submit(SPEC)
    assert clock.slept == [7.0]


def test_retry_after_may_be_a_date(client, server, clock, respond):
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    server.next_responses = [respond(503, headers={"retry-after": moment})]
    client.version()
    assert 17 < clock.slept[0] <= 20


def test_a_long_retry_after_is_raised_instead_of_waiting(client, server, clock, respond):
    server.next_responses = [respond(429, headers={"retry-after": "3600"})]
    with pytest.raises(TooManyRequests) as caught:
        client.version()
    assert caught.value.retry_after_s == 3600
    assert clock.slept == []


def test_an_invalid_retry_after_is_ignored(client, server, clock, respond):
    server.next_responses = [respond(503, headers={"retry-after": "soon"})] * 100
    with pytest.raises(Unavailable):
        client.tokens.create("ci")
    assert sum(clock.slept) <= 5


def test_other_errors_are_not_retried(client, server, respond):
    server.next_responses = [respond(500, json={"code": "internal_error", "detail": "Sorry."})]
    with pytest.raises(ServerError, match="Sorry"):
        client.version()
    assert len(server.requests) == 1
