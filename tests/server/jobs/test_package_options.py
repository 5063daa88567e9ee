"""Submitting a job for a package: its options are checked by what workers announce."""

import pytest

from store import workers

JOBS = "/api/v1/jobs"
MODEL = {"kind": "package", "package": "custom-package", "name": "towers", "options": {"units": 8}}
LOSS = {"kind": "package", "package": "custom-package", "name": "quantile"}
DATA = {"kind": "digits"}


def entry(group, name, **properties):
    schema = {"type": "object", "additionalProperties": False, "properties": properties}
    return {
        **{"group": f"ampcore.{group}", "package": "custom-package", "version": "1.0"},
        **{"name": name, "description": "", "schema": schema},
    }


TOWERS = entry("models", "towers", units={"type": "integer", "minimum": 1})
QUANTILE = entry("losses", "quantile", quantile={"type": "number", "maximum": 1})


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: the query is that of tests/store/test_packages.py."""
    return sqlite_url


@pytest.fixture
def add_worker(api):
    """Register an online worker that has announced these entries of packages."""

    def add(name, entries, *, queue="default/custom-package"):
        with api.database.write() as session:
            workers.register(
                session, name, hostname="h", pid=1, slots=1, version="1", queues=[queue]
            )
            if entries is not None:
                workers.heartbeat(session, name, hardware={"packages": entries})

    return add


def submit(api, path=JOBS, **parts):
    return api.client.post(path, json={"model": MODEL, "data": DATA} | parts)


def with_options(**options):
    return MODEL | {"options": options}


@pytest.mark.parametrize("path", [JOBS, f"{JOBS}/validate"])
def test_options_are_checked_by_the_schema_that_workers_announce(api, add_worker, path):
    add_worker("a", [TOWERS])
    assert submit(api, path).status_code < 300
    answer = submit(api, path, model=with_options(units=0, unit=3))
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_spec")
    problems = {one["pointer"]: one for one in answer.json()["errors"]}
    assert sorted(problems) == ["/model/options/unit", "/model/options/units"]
    assert problems["/model/options/units"]["expected"] == "a number greater than or equal to 1"
    assert problems["/model/options/units"]["received"] == "0"
    assert problems["/model/options/unit"]["suggestion"] == "units"


def test_the_options_of_a_loss_have_the_pointer_of_the_loss(api, add_worker):
    add_worker("a", [TOWERS, QUANTILE])
    task = {"kind": "classification", "loss": LOSS | {"options": {"quantile": 2}}}
    answer = submit(api, model={"kind": "mlp"}, task=task)
    [problem] = answer.json()["errors"]
    assert problem["pointer"] == "/task/loss/options/quantile"


def test_a_clone_with_a_wrong_option_is_refused(api, add_worker):
    add_worker("a", [TOWERS])
    job = submit(api).json()["id"]
    answer = api.client.post(f"{JOBS}/{job}/clone", json={"set": {"model.options.units": -1}})
    assert answer.json()["errors"][0]["pointer"] == "/model/options/units"


def test_a_name_that_the_package_does_not_have_is_refused(api, add_worker):
    add_worker("a", [TOWERS, QUANTILE])
    [problem] = submit(api, model=MODEL | {"name": "tower"}).json()["errors"]
    assert (problem["pointer"], problem["suggestion"]) == ("/model/name", "towers")
    assert problem["expected"] == "one of the ampcore.models of custom-package: towers"


@pytest.mark.parametrize(
    ("entries", "queue"),
    [
        ([TOWERS], "gpu/custom-package"),  # of another queue
        ([TOWERS | {"package": "another"}], "default/custom-package"),
        (None, "default/custom-package"),  # it has not reported yet
    ],
)
def test_without_a_worker_that_has_the_package_the_job_waits(api, add_worker, entries, queue):
    assert submit(api, model=with_options(units=0)).status_code == 201
    add_worker("a", entries, queue=queue)
    assert submit(api, model=with_options(units=0)).status_code == 201


def test_nothing_is_refused_while_a_worker_has_not_reported_its_packages(api, add_worker):
    add_worker("a", [TOWERS])
    add_worker("new", None)
    assert submit(api, model=with_options(units=0)).status_code == 201
    assert submit(api, model=MODEL | {"name": "new_in_its_version"}).status_code == 201


def test_options_that_one_of_several_workers_accepts_are_accepted(api, add_worker):
    add_worker("old", [TOWERS])
    add_worker("new", [entry("models", "towers", units={"type": "integer"}, depth={})])
    assert submit(api, model=with_options(units=0, depth=2)).status_code == 201
    assert submit(api, model=with_options(units="a")).status_code == 422


def test_options_whose_schema_cannot_be_used_are_left_to_the_trainer(api, add_worker, caplog):
    add_worker("a", [TOWERS | {"schema": {"$ref": "#/missing"}}])
    assert submit(api, model=with_options(units=0)).status_code == 201
    assert "towers of custom-package 1.0 are left to the trainer" in caplog.text


def test_options_of_a_metric_and_an_optimizer_are_checked(api, add_worker):
    number = {"type": "number", "exclusiveMinimum": 0}
    add_worker("a", [entry("metrics", "within", tolerance=number), entry("optimizers", "signum")])
    part = {"kind": "package", "package": "custom-package"}
    within = part | {"name": "within", "options": {"tolerance": 0}}
    task = {"kind": "classification", "metrics": ["accuracy", within]}
    optimizer = part | {"name": "sign", "options": {}}
    answer = submit(api, model={"kind": "mlp"}, task=task, optimizer=optimizer)
    problems = {one["pointer"]: one for one in answer.json()["errors"]}
    assert set(problems) == {"/task/metrics/1/options/tolerance", "/optimizer/name"}
    assert problems["/optimizer/name"]["suggestion"] == "signum"
