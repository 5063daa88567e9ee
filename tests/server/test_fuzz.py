"""Fuzzing: requests generated from the OpenAPI document, and responses checked against it.

Every operation gets valid and invalid requests, the same ones on every run; half of the paths have
the ids of existing jobs.
"""

import itertools
from collections import Counter
from contextlib import suppress

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from ampspec.jobs import State
from ampspec.jobs.tracked import TrackedSpec
from store.jobs import jobs, tracked_runs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("fuzz"),
    pytest.mark.usefixtures("_describe_in_this_process"),
]

CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
"""The checks of every response; an invalid request may get any documented 4xx."""

BOUNDED = settings(
    max_examples=10,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough for so many requests."""
    return sqlite_url


def operations(app):
    document = schemathesis.openapi.from_dict(app.openapi())
    for found in document.get_all_operations():
        operation = found.ok()
        if not operation.path.endswith("/session"):  # signing out would end the test
            yield operation


def is_refused_by_the_http_parser(response):
    """Whether it was not valid HTTP, such as an empty Content-Length: the API never saw it."""
    return response.status_code == 400 and response.text == "Invalid HTTP request received."


def test_every_response_matches_the_openapi_document(api, make_job, subtests):
    with api.database.write() as session:
        run = tracked_runs.create(session, TrackedSpec(), jobs.Origin("default"))
    ids = itertools.cycle([*(make_job(state).id for state in State), run.id])
    ended = make_job(State.SUCCEEDED).id
    headers = {"Authorization": f"Bearer {api.token}"}
    responses = []
    for operation, mode in itertools.product(operations(api.app), GenerationMode):
        with subtests.test(operation=operation.label, mode=mode.value):

            @BOUNDED
            @given(case=operation.as_strategy(generation_mode=mode), real=...)
            def send(case, real: bool):
                if real:  # the same key with another request is refused before anything else
                    case.headers.pop("Idempotency-Key", None)
                if real and "job_id" in case.path_parameters:
                    # A stream ends only with its job.
                    streams = case.operation.path.endswith("/stream")
                    case.path_parameters["job_id"] = ended if streams else next(ids)
                case.query.pop("follow", None)
                wait = case.query.get("wait")
                if isinstance(wait, int | float) and 1 < wait <= 60:
                    case.query["wait"] = 1
                response = case.call(base_url=api.url, headers=headers)
                if not is_refused_by_the_http_parser(response):
                    case.validate_response(response, checks=CHECKS)
                    responses.append(response)

            with suppress(Unsatisfiable):  # a request without parameters cannot be invalid
                send()
    statuses = Counter(answer.status_code for answer in responses)
    assert len(responses) > 500
    assert {200, 201, 204, 404, 409, 422} < set(statuses)
