import asyncio
import json
import math
from datetime import UTC, datetime

import httpx
import numpy as np
import pytest

from ampclient import (
    AsyncClient,
    Conflict,
    InvalidSpec,
    JobSpec,
    NotFound,
    SpecNotLoaded,
    State,
    UnexpectedResponse,
)
from ampclient._spec.spec_input import split_options
from ampspec.jobs import SpecValidationError
from tests.tables import every_row

SPEC = {"model": {"kind": "cnn", "filters": [8]}, "data": {"kind": "digits"}}


def test_a_job_can_be_submitted_as_a_spec_a_mapping_and_a_file(client, tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text("model: {kind: cnn, filters: [8]}\ndata: {kind: digits}\n")
    jobs = [client.jobs.submit(spec) for spec in (JobSpec.parse(SPEC), SPEC, path, str(path))]
    assert [job.state for job in jobs] == [State.QUEUED] * 4
    assert jobs[0].spec == jobs[1].spec == jobs[2].spec == jobs[3].spec
    assert len({job.id for job in jobs}) == 4


def test_every_request_has_the_token_and_the_user_agent(client, server):
    client.jobs.submit(SPEC)
    [request] = server.requests
    assert request.headers["authorization"] == "Bearer a-secret-token"
    assert request.headers["user-agent"].startswith("ampclient/")
    assert request.headers["content-type"] == "application/json"
    assert request.url == "http://ampcore.test:8000/api/v1/jobs"


def test_an_invalid_spec_lists_every_problem(client):
    broken = {**SPEC, "modle": 1, "precision": {"policy": "mixed_flaot16"}}
    with pytest.raises(InvalidSpec) as caught:
        client.jobs.submit(broken)
    problems = {problem.pointer: problem for problem in caught.value.problems}
    assert set(problems) == {"/modle", "/precision/policy"}
    assert problems["/precision/policy"].suggestion == "mixed_float16"
    assert caught.value.status == 422
    assert "/modle: Expected one of the fields" in str(caught.value)


def test_a_file_that_is_not_yaml_is_an_invalid_spec_and_is_not_sent(client, server, tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text("model: {kind")
    with pytest.raises(InvalidSpec, match="YAML"):
        client.jobs.submit(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidSpec, match="UTF-8"):
        client.jobs.submit(path)
    assert server.requests == []


@every_row("document", [None, [], 3])
def test_a_document_that_is_not_an_object_has_the_problems_of_the_spec_parser(
    client, server, document
):
    with pytest.raises(SpecValidationError) as expected:
        JobSpec.parse(document)
    with pytest.raises(InvalidSpec) as caught:
        client.jobs.submit(document)
    assert caught.value.problems == expected.value.problems
    assert server.requests == []


def test_numpy_numbers_are_sent_as_numbers(client, server):
    spec = {
        **SPEC,
        "model": {"kind": "cnn", "filters": [np.int64(8), np.int16(4)]},
        "optimizer": {"kind": "adam", "learning_rate": np.float32(0.5)},
        "train": {"epochs": np.int32(2)},
    }
    sent = client.jobs.submit(spec).spec
    assert sent["model"]["filters"] == [8, 4]
    assert (sent["optimizer"]["learning_rate"], sent["train"]["epochs"]) == (0.5, 2)


def test_values_that_json_cannot_represent_are_reported_by_field(client, server):
    spec = {**SPEC, "labels": {"a/b": b"x"}, "train": {"epochs": np.arange(2)}}
    with pytest.raises(InvalidSpec) as caught:
        client.jobs.submit(spec)
    assert {problem.pointer for problem in caught.value.problems} == {
        "/labels/a~1b",
        "/train/epochs",
    }
    assert server.requests == []


def test_a_spec_that_contains_itself_is_refused(client):
    spec = {**SPEC}
    spec["labels"] = spec
    with pytest.raises(InvalidSpec, match="nested too deeply"):
        client.jobs.submit(spec)


def test_a_missing_file_is_an_os_error(client, tmp_path):
    with pytest.raises(FileNotFoundError):
        client.jobs.submit(tmp_path / "job.yaml")


def test_a_non_finite_number_is_sent_by_name_and_refused_by_the_server(client, server):
    with pytest.raises(InvalidSpec, match="/optimizer/learning_rate"):
        client.jobs.submit({**SPEC, "optimizer": {"kind": "adam", "learning_rate": math.nan}})
    assert json.loads(server.requests[0].content)["optimizer"]["learning_rate"] == "NaN"


def test_validate_returns_the_spec_with_its_defaults(client, server):
    valid = client.jobs.validate(SPEC)
    assert valid.spec["optimizer"]["kind"] == "adam"
    assert valid.findings == []
    assert server.jobs == {}
    with pytest.raises(InvalidSpec):
        client.jobs.validate({})


def test_validate_returns_the_findings_of_the_preflight(client, server):
    finding = {"code": "no_gpu", "severity": "warning", "pointer": "/runtime/device"}
    finding |= {"message": "No GPU.", "data": {"share": 0.5}}
    server.report = {"findings": [finding], "figures": None, "layers": []}
    valid = client.jobs.validate(SPEC)
    assert [reported.to_json() for reported in valid.findings] == [finding]
    assert (valid.findings[0].code, valid.findings[0].severity) == ("no_gpu", "warning")
    assert (valid.figures, valid.layers) == (None, [])


def test_a_job_has_typed_fields(client, server, latest, summary):
    server.add_job("a", state="running", step=30, total_steps=60, progress=0.5, latest=latest)
    job = client.jobs.get("a")
    assert (job.state, job.step, job.total_steps, job.skipped) == (State.RUNNING, 30, 60, 3)
    assert job.created_at == datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert job.latest.loss_scale == 32768.0
    assert (job.summary, job.finished_at) == (None, None)
    server.add_job("b", state="succeeded", summary={**summary, "skipped": 5})
    assert client.jobs.get("b").summary.val_accuracy == 0.95
    assert client.jobs.get("b").skipped == 5


def test_non_finite_numbers_are_parsed(client, server, latest, summary):
    server.add_job(
        "a",
        latest={**latest, "loss": "NaN", "grad_norm": "Infinity"},
        summary={**summary, "final_loss": "-Infinity", "val_loss": None, "val_accuracy": None},
    )
    job = client.jobs.get("a")
    assert math.isnan(job.latest.loss)
    assert job.latest.grad_norm == math.inf
    assert job.summary.final_loss == -math.inf
    assert job.summary.val_loss is None
    json.dumps(job.to_json(), allow_nan=False)


def test_fields_of_a_newer_server_are_kept(client, server, latest):
    server.add_job("a", tomorrow=1, latest={**latest, "loss": "NaN", "entropy": 2.5})
    for job in (client.jobs.get("a"), *client.jobs.list(fields="spec")):
        assert job.to_json() == server.jobs["a"]


def test_a_missing_field_is_named_unless_servers_of_0_5_lack_it(client, server):
    del server.add_job("a")["request_id"]
    server.jobs["a"].pop("loss_scale_mode", None)
    with pytest.raises(UnexpectedResponse, match=r"request_id: Field required"):
        client.jobs.get("a")
    server.add_job("a")
    assert client.jobs.get("a").loss_scale_mode is None


def test_null_in_a_response_is_none(client, server, latest, summary):
    server.add_job("a", latest={**latest, "loss": None}, summary={**summary, "skipped": None})
    job = client.jobs.get("a")
    assert (job.latest.loss, job.summary.skipped, job.skipped) == (None, None, 0)


def test_unknown_states_and_reasons_of_a_newer_server_are_kept(client, server):
    server.add_job("a", state="archived", reason="preempted")
    job = client.jobs.get("a")
    assert (job.state, job.reason) == ("archived", "preempted")
    assert not job.state.is_terminal
    assert not job.state.is_active
    assert [listed.state for listed in client.jobs.list()] == ["archived"]


def test_wait_returns_a_job_that_has_ended_in_an_unknown_state(client, server):
    """Fails if only known states count as terminal: `wait` would not return."""
    server.add_job("a", state="archived", finished_at="2026-11-22T10:00:00+00:00")
    assert client.jobs.get("a").wait(timeout_s=0).state == "archived"


def test_unreadable_fields_are_listed(client, server):
    server.add_job("a", labels={}, unreadable=["labels"])
    job = client.jobs.get("a")
    assert job.unreadable == ["labels"]
    assert "unreadable: labels" in job._repr_html_()


def test_a_job_that_is_listed_twice_is_returned_once(client, server):
    """The server lists a job again that changed while the pages were read."""
    server.jobs_per_page = 2
    for number in range(3):
        server.add_job(f"{number}")
    server.jobs["again"] = server.jobs["0"]
    server.add_job("3")
    assert [job.id for job in client.jobs.list()] == ["0", "1", "2", "3"]
    assert [job.id for job in client.jobs.list(limit=4)] == ["0", "1", "2", "3"]


def test_an_unknown_job_is_not_found(client):
    with pytest.raises(NotFound) as caught:
        client.jobs.get("nobody")
    assert (caught.value.status, caught.value.code) == (404, "not_found")


def test_a_job_id_is_quoted_in_the_path(client, server):
    with pytest.raises(NotFound):
        client.jobs.get("../workers?x=1")
    assert server.requests[0].url.raw_path == b"/api/v1/jobs/..%2Fworkers%3Fx%3D1"


def test_list_reads_every_page(client, server):
    server.jobs_per_page = 2
    for number in range(5):
        server.add_job(f"{number}")
    assert [job.id for job in client.jobs.list()] == ["0", "1", "2", "3", "4"]


def test_list_stops_at_its_limit(client, server):
    for number in range(5):
        server.add_job(f"{number}")
    assert [job.id for job in client.jobs.list(limit=2)] == ["0", "1"]
    assert len(server.requests) == 1
    assert server.requests[0].url.params["limit"] == "2"


def test_list_sends_no_request_before_its_first_job_is_read(client, server):
    jobs = client.jobs.list()
    assert server.requests == []
    assert list(jobs) == []


def test_list_filters_by_one_state_or_several(client, server):
    server.add_job("q")
    server.add_job("r", state="running")
    server.add_job("f", state="failed")
    assert [job.id for job in client.jobs.list(state="queued")] == ["q"]
    assert [job.id for job in client.jobs.list(state=[State.RUNNING, "failed"])] == ["r", "f"]


@pytest.mark.parametrize(
    ("label", "sent"),
    [
        ("team=vision", ["team=vision"]),
        (["team=vision", "x"], ["team=vision", "x"]),
        ({"team": "vision", "run": "1"}, ["team=vision", "run=1"]),
    ],
)
def test_list_filters_by_labels(client, server, label, sent):
    assert list(client.jobs.list(label=label)) == []
    assert server.requests[0].url.params.get_list("label") == sent


def test_list_sends_only_the_given_filters(client, server):
    first, last = datetime(2030, 1, 2, tzinfo=UTC), datetime(2030, 2, 3, tzinfo=UTC)
    list(
        client.jobs.list(
            q="x",
            policy="float32",
            model="cnn",
            project="p",
            created_after=first,
            created_before=last,
            sort="-name",
        )
    )
    params = dict(server.requests[0].url.params)
    assert datetime.fromisoformat(params.pop("created_after")) == first
    assert datetime.fromisoformat(params.pop("created_before")) == last
    assert params == {
        "q": "x", "policy": "float32", "model": "cnn", "project": "p", "sort": "-name",
        "limit": "100",
    }  # fmt: skip


def test_list_includes_explanations_on_request(client, server):
    list(client.jobs.list(explanations=True))
    assert server.requests[0].url.params["explanations"] == "true"


def test_a_naive_datetime_is_local_time(client, server):
    moment = datetime(2030, 1, 2, 3, 4)
    list(client.jobs.list(created_after=moment))
    sent = datetime.fromisoformat(server.requests[0].url.params["created_after"])
    assert sent.tzinfo is not None
    assert sent == moment.astimezone()


def test_refresh_returns_a_new_job_and_keeps_the_old_one(client, server):
    server.add_job("a")
    before = client.jobs.get("a")
    server.jobs["a"]["state"] = "running"
    after = before.refresh()
    assert (before.state, after.state) == (State.QUEUED, State.RUNNING)
    assert before != after


def test_cancel_returns_the_job(client, server):
    server.add_job("q")
    server.add_job("r", state="running")
    assert client.jobs.get("q").cancel().state is State.CANCELLED
    assert client.jobs.get("r").cancel().state is State.STOPPING


def test_cancelling_a_job_that_has_ended_is_a_conflict(client, server):
    server.add_job("a", state="succeeded")
    with pytest.raises(Conflict, match="succeeded"):
        client.jobs.get("a").cancel()


def test_events_are_read_in_order_over_all_pages(client, server, events):
    server.add_job("a")
    server.events["a"] = events
    listed = list(client.jobs.get("a").events())
    assert [event.seq for event in listed] == [1, 2, 3, 4, 5]
    assert math.isnan(listed[-1].data["val_loss"])
    assert [event.seq for event in client.jobs.get("a").events(limit=3)] == [1, 2, 3]
    assert [event.seq for event in client.jobs.get("a").events(after=3)] == [4, 5]


def test_the_spec_of_a_listed_job_is_requested_when_it_is_read(sync_client, server):
    posted = sync_client.jobs.submit(SPEC)
    [job] = sync_client.jobs.list()
    requests_before = len(server.requests)
    assert "spec" not in job.to_json()
    assert len(server.requests) == requests_before
    assert job.spec == posted.spec
    assert job.spec["model"]["filters"] == [8]
    assert len(server.requests) == requests_before + 1


def test_a_list_can_include_specs(client, server):
    posted = client.jobs.submit(SPEC)
    [job] = client.jobs.list(fields="spec")
    assert server.requests[-1].url.params["fields"] == "spec"
    requests_before = len(server.requests)
    assert job.spec == posted.spec == job.to_json()["spec"]
    assert len(server.requests) == requests_before


def test_async_code_gets_an_error_that_says_how_to_load_a_spec(sync_client, server):
    sync_client.jobs.submit(SPEC)
    http_client = httpx.AsyncClient(transport=httpx.MockTransport(server))

    async def read():
        async with AsyncClient("http://h", "a-secret-token", http_client=http_client) as awaiting:
            [job] = [job async for job in awaiting.jobs.list()]
            with pytest.raises(SpecNotLoaded, match=r"list\(fields='spec'\)"):
                _ = job.spec
            return (await job.refresh()).spec

    assert asyncio.run(read())["model"]["filters"] == [8]


def test_a_number_with_too_many_digits_is_refused_before_sending(client, server):
    with pytest.raises(InvalidSpec) as refused:
        client.jobs.submit({**SPEC, "train": {"seed": 10**5000}})
    [problem] = refused.value.problems
    assert (problem.pointer, problem.expected) == ("/train/seed", "a number of at most 1000 digits")
    assert server.requests == []


DIGITS = {"kind": "digits", "batch_size": 64}


def keras_model(*layers):
    import keras

    return keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten(name="flatten"), *layers])


def test_sections_can_be_given_as_keyword_arguments(client):
    job = client.jobs.submit(model={"kind": "mlp"}, data=DIGITS, train={"steps": 3}, timeout_s=60.0)
    assert job.spec["train"]["steps"] == 3
    changed = client.jobs.submit({"model": {"kind": "mlp"}, "data": DIGITS}, name="other")
    assert (changed.spec["data"]["kind"], changed.spec["name"]) == ("digits", "other")


def test_a_keras_model_is_sent_as_layers_without_the_softmax_at_its_end(client):
    import keras

    model = keras_model(keras.layers.Dense(10, activation="softmax", name="logits"))
    section = client.jobs.submit({"model": model, "data": DIGITS}, weights=False).spec["model"]
    assert section["kind"] == "layers"
    assert section["layers"][-1] == {
        "layer": "Dense",
        "name": "logits",
        "inputs": ["flatten"],
        "units": 10,
    }
    document, options = split_options(None, {"model": model, "data": DIGITS, "timeout": 3.0})
    assert (document["model"]["layers"], options) == (section["layers"], {"timeout": 3.0})


def test_a_keras_layer_without_a_place_in_a_spec_is_named_before_anything_is_sent(client):
    import keras

    model = keras_model(keras.layers.Lambda(lambda x: x, name="own"), keras.layers.Dense(10))
    with pytest.raises(InvalidSpec) as raised:
        client.jobs.submit({"model": model, "data": DIGITS})
    [problem] = raised.value.problems
    assert (problem.pointer, problem.code) == ("/model", "not_convertible")
    assert "'own'" in problem.received


def test_a_subclassed_model_is_refused_with_the_two_ways_to_train_it(client):
    import keras

    class OwnModel(keras.Model):
        def call(self, inputs):
            return inputs

    for submit in (client.jobs.submit, client.jobs.validate):
        with pytest.raises(InvalidSpec) as raised:
            submit({"model": OwnModel(), "data": DIGITS})
        [problem] = raised.value.problems
        assert problem.received.startswith("the class OwnModel has no graph of layers")
        assert "`model: {kind: bundle}` with `code=FOLDER`" in problem.expected
        assert "ampcore.Trainer.from_keras" in problem.expected


def test_a_succeeded_job_is_extended(client, server):
    server.add_job("a", state="succeeded")
    job = client.jobs.get("a")
    extensions = [
        job.extend(2),
        client.jobs.extend(job, epochs=2),
        client.jobs.extend("a", epochs=2),
    ]
    assert [extension.extends for extension in extensions] == ["a"] * 3
    assert len({extension.id for extension in extensions}) == 3
    server.add_job("b")
    with pytest.raises(Conflict):
        client.jobs.extend("b", epochs=1)


def test_an_extension_is_retried_with_its_key(client, server, lose_response):
    server.add_job("a", state="succeeded")
    server.next_responses = [lose_response]
    assert client.jobs.extend("a", epochs=2).extends == "a"
    assert len(server.jobs) == 2


def test_a_list_is_requested_by_metrics(client, server):
    list(client.jobs.list(sort="-val_accuracy", metric=["val_loss<1", "val_auc>=0.5"]))
    params = server.requests[0].url.params
    assert params["sort"] == "-val_accuracy"
    assert params.get_list("metric") == ["val_loss<1", "val_auc>=0.5"]


def test_the_report_of_loaded_weights_is_read_from_its_event(client, server, events):
    server.add_job("a")
    assert client.jobs.get("a").loaded_weights() is None
    report = {
        "source": "job b",
        "matched": 1,
        "of": 2,
        "unmatched_in_model": ["head/kernel"],
        "shape_differs": [{"name": "c/bias", "model": [3], "source": [2]}],
        "unused_in_source": [],
        "counts": {"unmatched_in_model": 1, "shape_differs": 1, "unused_in_source": 0},
        "sentence": "1 of 2 weights start from job b.",
    }
    server.events["a"] = [
        *events,
        {**events[0], "seq": 9, "type": "weights_loaded", "data": report},
    ]
    job = client.jobs.get("a")
    assert job.loaded_weights().to_json() == report
    assert [event.seq for event in job.events(type="weights_loaded")] == [9]
    assert server.requests[-1].url.params.get_list("type") == ["weights_loaded"]
