import pytest
from sqlalchemy import update

from store import workers
from store.clock import from_now
from store.tables import Worker

MIXED = {
    "model": {"kind": "mlp", "hidden": [63]},
    "data": {"kind": "digits", "batch_size": 256},
    "precision": {"policy": "mixed_float16"},
}
GPU = {"kind": "gpu", "name": "a GPU", "compute_capability": [6, 1], "memory_bytes": 2**34}
HARDWARE = {"devices": [{"kind": "cpu", "name": "a CPU", "cores": 2}, GPU], "cpu_features": []}


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: its query is tested in tests/store/test_workers.py."""
    return sqlite_url


@pytest.fixture
def validate(api):
    """The response of the server to a valid spec."""

    def ask(**parts):
        answer = api.client.post("/api/v1/jobs/validate", json=MIXED | parts)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return ask


@pytest.fixture
def codes(validate):
    """The codes of the findings about a spec."""
    return lambda **parts: {finding["code"] for finding in validate(**parts)["findings"]}


@pytest.fixture
def add_worker(api):
    """Register a worker, with its hardware if given."""

    def add(name, hardware=None):
        with api.database.write() as session:
            workers.register(
                session, name, hostname="h", pid=1, slots=1, version="1", queues=["default"]
            )
            workers.heartbeat(session, name, hardware=hardware)

    return add


def test_a_valid_spec_is_returned_with_its_defaults_and_no_job_is_created(api, validate):
    answer = validate(precision={"policy": "float32"})
    assert answer["findings"] == []
    assert answer["spec"]["optimizer"]["kind"] == "adam"
    assert api.client.get("/api/v1/jobs").json()["items"] == []
    assert api.dispatcher.sent == []


def test_validation_returns_the_size_and_every_layer(validate):
    answer = validate()
    assert answer["figures"]["parameters"] == 64 * 63 + 63 + 63 * 10 + 10
    assert answer["figures"]["memory"]["mixed_float16"]["optimizer"] == 2 * 4 * 4735
    dtypes = {layer["path"]: layer["compute_dtype"] for layer in answer["layers"]}
    assert dtypes == {"flatten": "float16", "dense_1": "float16", "predictions": "float32"}


def test_a_finding_has_a_code_a_severity_a_pointer_and_a_message(validate):
    findings = {finding["code"]: finding for finding in validate()["findings"]}
    assert findings["dimension_not_multiple_of_8"] == {
        "code": "dimension_not_multiple_of_8",
        "severity": "info",
        "pointer": "/model/hidden/0",
        "message": "dense_1: units 63 is not a multiple of 8, which fast float16 matrix products "
        "need; use 56 or 64.",
        "data": {"layer": "dense_1", "dimension": "units", "size": 63, "nearest": [56, 64]},
    }


def test_findings_depend_on_the_hardware_of_online_workers(codes, add_worker):
    assert "no_tensor_cores" not in codes()
    add_worker("w", HARDWARE)
    assert "no_tensor_cores" in codes()
    assert "float16_on_cpu" in codes(runtime={"device": "cpu"})


def test_offline_workers_and_those_without_hardware_are_ignored(api, codes, add_worker):
    add_worker("new")
    add_worker("strange", {"devices": ["CPU"]})
    add_worker("old", HARDWARE)
    with api.database.write() as session:
        workers.stopped(session, "old")
    assert "no_tensor_cores" not in codes()
    add_worker("lost", HARDWARE)
    with api.database.write() as session:
        session.execute(update(Worker).values(last_seen_at=from_now(-3600)))
    assert "no_tensor_cores" not in codes()


def test_a_spec_with_unknown_layers_has_findings_without_figures(api, validate):
    folder = api.data_dir / "datasets"
    folder.mkdir(parents=True)
    (folder / "mnist.npz").write_bytes(b"")
    answer = validate(data={"kind": "npz", "path": "mnist.npz"})
    assert (answer["figures"], answer["layers"]) == (None, [])
    assert "layers_unknown" in {finding["code"] for finding in answer["findings"]}


def test_an_expression_that_matches_no_layer_is_an_error_among_the_findings(validate):
    overrides = [{"layers": "dens_", "dtype": "float32"}]
    findings = validate(precision={"policy": "mixed_float16", "overrides": overrides})["findings"]
    [error] = [finding for finding in findings if finding["severity"] == "error"]
    assert error["pointer"] == "/precision/overrides/0/layers"


def test_the_response_matches_the_openapi_document(api, validate):
    import jsonschema

    document = api.client.get("/api/v1/openapi.json").json()
    operation = document["paths"]["/api/v1/jobs/validate"]["post"]
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    jsonschema.validate(validate(), {**document, **schema})


CATASTROPHIC = [{"layers": "(a+)+$", "dtype": "float32"}]


@pytest.mark.parametrize("path", ["jobs/validate", "jobs", "jobs/{id}/clone"])
def test_a_pattern_with_catastrophic_backtracking_is_refused_by_every_route(api, make_job, path):
    spec = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}
    body = {**spec, "precision": {"overrides": CATASTROPHIC}}
    if path.endswith("clone"):
        body = {"set": {"precision.overrides": CATASTROPHIC}}
    answer = api.client.post(f"/api/v1/{path.format(id=make_job().id)}", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_spec")
    assert answer.json()["errors"][0]["pointer"] == "/precision/overrides/0/layers"
