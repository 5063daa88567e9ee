"""`client.studies` and `ampctl study` against the real API; tests call the background thread."""

import json

import numpy as np
import pytest

from ampclient import AsyncClient, Client, InvalidRequest, InvalidSpec
from ampclient.cli import main
from tests.server.studies.conftest import SPEC, StudyDriver
from tests.tables import every_row
from tests.waiting import DEADLINE_S

SPACE = {"optimizer.learning_rate": {"log_uniform": [1e-4, 0.1]}, "data.batch_size": [32, 64]}


@pytest.fixture
def database_url(sqlite_url):
    """One database is enough: the routes are tested on both."""
    return sqlite_url


@pytest.fixture
def driver(api):
    return StudyDriver(api)


@pytest.fixture
def client(api):
    with Client(api.url, api.token) as client:
        yield client


@pytest.fixture
def end_jobs(driver):
    """Queue the jobs of a study, and let them succeed with the same accuracy for a seed."""

    def end(study):
        driver.progress.advance(study)
        for key, job in driver.jobs(study).items():
            seed = int(key.rpartition("-")[2])
            speed = 100.0 if key.startswith("float32") else 250.0
            driver.succeed(job, val_accuracy=0.9 + seed / 100, median_examples_per_s=speed)
        driver.progress.advance(study)

    return end


def test_a_study_of_precision_is_created_waited_for_and_answered(client, end_jobs):
    study = client.studies.precision(
        SPEC, seeds=2, policies=["mixed_float16"], steps=7, name="mine"
    )
    assert (study.state, study.name, study.jobs_planned) == ("running", "mine", 4)
    seen = []
    end_jobs(study.id)
    ended = client.studies.wait(study, on_progress=seen.append)
    assert ended.state == "succeeded"
    assert ended.answer.recommended == "mixed_float16"
    assert ended.answer.policies[1].speedup == pytest.approx(2.5)
    assert seen[-1] == ended
    assert ended.to_json()["answer"]["policies"][1]["verdict"] == "equal"
    assert [entry.id for entry in client.studies.list()] == [study.id]


def test_the_same_key_returns_the_same_study(client):
    first, again = (client.studies.capacity(SPEC, idempotency_key="k") for _ in range(2))
    assert first.id == again.id
    assert client.studies.cancel(first).state == "stopping"


def test_an_estimate_creates_nothing(client):
    estimate = client.studies.estimate("precision", SPEC, {"seeds": 2})
    assert (estimate.jobs, estimate.policies) == (6, ["mixed_bfloat16", "mixed_float16"])
    assert list(client.studies.list()) == []


def test_mistakes_are_raised_with_their_field(client):
    with pytest.raises(InvalidRequest, match="/options/seeds"):
        client.studies.precision(SPEC, seeds=1)
    with pytest.raises(InvalidSpec, match="/spec/model/kind"):
        client.studies.precision({**SPEC, "model": {"kind": "mpl"}})


def test_the_old_name_of_the_time_limit_is_no_option_of_the_study(client):
    with pytest.warns(DeprecationWarning, match="timeout= is now timeout_s="):
        study = client.studies.precision(SPEC, seeds=2, timeout=DEADLINE_S)
    assert study.options["seeds"] == 2


def test_none_is_sent_only_where_it_is_a_value(client):
    study = client.studies.bisect(SPEC, seeds=None, steps=None, margin=None)
    assert (study.options["seeds"], study.options["steps"]) == (3, None)
    with pytest.raises(InvalidRequest, match="/options/sed"):
        client.studies.bisect(SPEC, sed=None)


@every_row("policies", [{"float32": 1, "mixed_float16": 2}.keys(), ("float32", "mixed_float16")])
def test_the_policies_may_be_any_iterable(client, policies):
    study = client.studies.capacity(SPEC, policies=policies)
    assert study.options["policies"] == ["float32", "mixed_float16"]


BUNDLE = {"model": {"kind": "bundle", "options": {}}, "data": {"kind": "digits"}}


@pytest.fixture
def code(tmp_path):
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "net.py").write_text("def build(options, signature):\n    return None\n")
    return folder


def test_the_spec_may_be_sections_with_code_and_weights_which_are_uploaded(client, code):
    study = client.studies.precision(
        model=BUNDLE["model"],
        data={"kind": "digits"},
        code=code,
        weights={"a": np.zeros(2, "float32")},
        seeds=2,
    )
    bundle, weights = study.spec["model"]["bundle"], study.spec["init"]["weights"]
    assert [entry.name for entry in client.files.get(bundle, kind="bundle").contents] == ["net.py"]
    assert client.files.get(weights, kind="weights").size_bytes > 0
    estimate = client.studies.search(None, SPACE, model={"kind": "mlp"}, data={"kind": "digits"})
    assert estimate.spec["model"] == {"kind": "mlp"}


def test_an_estimate_uploads_no_code(client, code):
    estimate = client.studies.estimate("precision", BUNDLE, {"seeds": 2}, code=code)
    assert estimate.jobs == 6
    assert list(client.files.list()) == []


async def _created(api):
    async with AsyncClient(api.url, api.token) as client:
        study = await client.studies.run("precision", SPEC)
        return study, [entry async for entry in client.studies.list()]


def test_the_async_client_has_the_same_operations(api):
    import asyncio

    study, listed = asyncio.run(_created(api))
    assert [entry.id for entry in listed] == [study.id]


@pytest.fixture
def ampctl(api, tmp_path, monkeypatch, capsys):
    """Run `ampctl lab` in this process; returns exit status and output."""
    connection = tmp_path / "connection.json"
    connection.write_text(json.dumps({"url": api.url, "token": api.token}))
    monkeypatch.setenv("AMPCORE_CONNECTION", str(connection))
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "job.json").write_text(json.dumps(SPEC))

    def run(*arguments):
        capsys.readouterr()
        words = [str(tmp_path / "job.json") if entry == "SPEC" else entry for entry in arguments]
        with pytest.raises(SystemExit) as ended:
            main(["study", *words])
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    return run


def test_ampctl_creates_a_study_and_prints_its_id(ampctl, client):
    code, out, err = ampctl("precision", "SPEC", "--seeds", "2", "--policies", "mixed_float16")
    assert code == 0
    study = client.studies.get(out.strip())
    assert study.policies == ["mixed_float16"]
    assert err.startswith("4 jobs, 88 steps; how long they train is known once a job")
    assert f"ampctl study get {study.id} --wait" in err


def test_ampctl_sends_the_code_of_a_model(ampctl, client, code, tmp_path):
    (tmp_path / "own.yaml").write_text(json.dumps(BUNDLE))
    options = (str(tmp_path / "own.yaml"), "--code", str(code), "--seeds", "2")
    assert ampctl("precision", *options, "--dry-run")[0] == 0
    assert list(client.files.list()) == []
    _, out, _ = ampctl("precision", *options)
    bundle = client.studies.get(out.strip()).spec["model"]["bundle"]
    assert [entry.name for entry in client.files.get(bundle, kind="bundle").contents] == ["net.py"]
    (code / "link.py").symlink_to("net.py")
    status, _, err = ampctl("precision", *options)
    assert (status, "--code" in err) == (2, True)


def test_ampctl_prints_the_answer(ampctl, end_jobs):
    _, out, _ = ampctl("precision", "SPEC", "--seeds", "2", "--policies", "mixed_float16")
    study = out.strip()
    code, out, _ = ampctl("get", study)
    assert code == 0
    assert "planned" in out
    end_jobs(study)
    code, out, err = ampctl("get", study, "--wait")
    assert (code, "2.5 ×" in out, "equal" in out) == (0, True, True)
    assert "4 of 4 jobs, 100 %" in err
    assert "Use mixed_float16" in out
    assert 'In the spec:\n  precision: {"policy": "mixed_float16"}' in out
    _, out, _ = ampctl("get", study, "--markdown")
    assert out.startswith("# mlp-float32\n")
    _, out, _ = ampctl("get", study, "--json")
    [_, other] = json.loads(out)["answer"]["policies"]
    assert {"verdict", "difference", "interval", "speedup", "memory", "largest_batch",
            "skipped_share", "jobs"} <= set(other)  # fmt: skip
    _, out, _ = ampctl("list")
    assert study in out
    assert "4/4" in out


def test_ampctl_estimates_cancels_and_deletes(ampctl, client, driver):
    code, out, err = ampctl("capacity", "SPEC", "--dry-run")
    assert (code, "Nothing was created" in err) == (0, True)
    assert "as the results decide" in out
    _, out, _ = ampctl("search", "SPEC", "--space", "train.seed=1,2,3,4,5,6,7", "--dry-run")
    assert "4, at most 7" in out
    _, out, _ = ampctl("capacity", "SPEC", "--policies", "float32")
    code, out, _ = ampctl("cancel", out.strip())
    assert (code, "stopping" in out) == (0, True)
    study = next(iter(client.studies.list())).id
    code, _, err = ampctl("delete", study)
    assert (code, "Cancel it first" in err) == (3, True)
    driver.progress.advance(study)
    assert ampctl("delete", study)[:2] == (0, f"{study} deleted\n")
    assert list(client.studies.list()) == []
    code, _, err = ampctl("precision", "SPEC", "--policies", "float12")
    assert code == 3
    assert "/options/policies/0" in err


def end_search(driver, study):
    """Every run succeeds, with a better accuracy for a larger batch."""
    while driver.get(study)["state"] == "running":
        driver.progress.advance(study)
        for job in driver.get(study)["jobs"]:
            if job["job"] and job["state"] not in ("succeeded", "planned"):
                batch = job["changes"]["data.batch_size"]
                driver.succeed(job["job"], val_accuracy=0.8 + batch / 1000)
    return driver.get(study)


def test_a_search_is_created_with_a_list_as_a_choice(client, driver):
    study = client.studies.search(
        SPEC, SPACE, runs=3, method="random", steps=90, asha={"min_steps": 30}, seed=5
    )
    assert study.options["space"]["data.batch_size"]["choice"] == [32, 64]
    assert (study.options["seed"], study.options["asha"]["reduction_factor"]) == (5, 3)
    end_search(driver, study.id)
    answer = client.studies.get(study).answer
    assert answer.runs[answer.best - 1].state == "finished"
    with pytest.raises(InvalidRequest, match=r"/options/space/optimizer\.learning_rat"):
        client.studies.search(SPEC, {"optimizer.learning_rat": [0.1, 0.2]})


def test_ampctl_searches_and_prints_the_best_values(ampctl, driver, tmp_path):
    (tmp_path / "space.yaml").write_text("data.batch_size: {choice: [32, 64]}")
    code, out, _ = ampctl(
        "search", "SPEC", "--method", "grid", "--space", str(tmp_path / "space.yaml"),
        "--space", "optimizer.learning_rate=log_uniform:1e-3,0.1,3",
        "--space", "model.hidden=[8],[8, 16]", "--set", "train.steps=30",
    )  # fmt: skip
    assert code == 0
    study = end_search(driver, out.strip())
    assert study["spec"]["train"]["steps"] == 30
    assert study["jobs_ended"] == 12
    code, out, _ = ampctl("get", study["id"])
    assert "best: --set data.batch_size=64 --set model.hidden=" in out
    assert "importance: data.batch_size" in out
    assert study["answer"]["summary"] in out
    assert [8, 16] in [entry["values"]["model.hidden"] for entry in study["answer"]["runs"]]


@every_row(
    ("options", "message"),
    [
        (["--space", "data.batch_size"], "PATH=RANGE:LOW,HIGH[,POINTS]"),
        (["--space", "data.batch_size="], "received data.batch_size="),
        (["--space", "data.batch_size=uniform:1"], "received data.batch_size=uniform:1"),
        (["--space", "a=1", "--space", "a=2"], "a is given twice"),
        (["--space", "data.batch_size=8", "--asha", "3,x"], "expected MIN_STEPS or"),
    ],
)
def test_ampctl_says_what_it_expected_of_a_space(ampctl, options, message):
    code, _, err = ampctl("search", "SPEC", *options)
    assert code == 2
    assert message in " ".join(err.replace("│", " ").split())
