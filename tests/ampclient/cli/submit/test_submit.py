import pytest

from ampclient._transfer.code_bundle import bundle_source
from tests.tables import every_row
from tests.waiting import DEADLINE_S


def test_submit_prints_only_the_id_to_standard_output(ampctl, spec_file, server):
    result = ampctl("submit", spec_file)
    assert result.code == 0
    assert result.out == "000000\n"
    assert "ampctl watch 000000" in result.err
    assert server.jobs["000000"]["policy"] == "mixed_float16"


def test_submit_as_json_prints_the_job(ampctl, spec_file):
    assert ampctl("submit", spec_file, "--json").json()["state"] == "queued"


def test_set_changes_fields_of_the_spec(ampctl, spec_file, server):
    result = ampctl(
        "submit", spec_file,
        "--set", "precision.policy=float32",
        "--set", "train.epochs=7",
        "--set", "model.filters=[4, 8]",
        "--set", "model.filters.1=16",
        "--set", "optimizer={kind: sgd, learning_rate: 1e-2}",
    )  # fmt: skip
    assert result.code == 0
    spec = server.jobs["000000"]["spec"]
    assert spec["precision"]["policy"] == "float32"
    assert spec["train"]["epochs"] == 7
    assert spec["model"]["filters"] == [4, 16]
    assert spec["optimizer"]["learning_rate"] == 0.01


@every_row(
    "assignment",
    ["name.x=1", "model.filters.9=1", "model.filters.a=1", "name={"],
)
def test_an_inapplicable_set_is_an_error_before_sending(ampctl, spec_file, server, assignment):
    result = ampctl("submit", spec_file, "--set", assignment)
    assert result.code == 3
    place = "/" + assignment.partition("=")[0].replace(".", "/")
    assert assignment in result.err or place in result.err
    assert server.requests == []


@pytest.mark.parametrize("assignment", ["train.epochs", "=1", "a..b=1"])
def test_a_set_without_a_field_or_a_value_is_wrong_usage(ampctl, spec_file, server, assignment):
    result = ampctl("submit", spec_file, "--set", assignment)
    assert result.code == 2
    assert "Invalid value for --set: Expected path=value" in result.err
    assert f"received {assignment}." in result.err
    assert server.requests == []


@pytest.mark.parametrize(
    ("text", "received"),
    [("", "null"), ("- a\n- b\n", '["a", "b"]'), ("/etc/hostname", '"/etc/hostname"')],
)
def test_a_file_whose_document_is_not_an_object_is_refused(
    ampctl, server, tmp_path, text, received
):
    path = tmp_path / "job.yaml"
    path.write_text(text)
    result = ampctl("submit", str(path))
    assert result.code == 3
    assert result.err.splitlines() == [
        "error: The job spec has 1 problem. (invalid_spec)",
        f"  /: Expected an object; received {received}.",
    ]
    assert server.requests == []


def test_an_invalid_spec_prints_each_problem_on_its_own_line(ampctl, spec_file):
    result = ampctl(
        "submit", spec_file, "--set", "precision.policy=mixed_flaot16", "--set", "modle=1"
    )
    assert result.code == 3
    assert result.out == ""
    first, *problems = result.err.splitlines()
    assert len(problems) == 2
    assert first == "error: The request is invalid_spec (invalid_spec, HTTP 422)"
    assert any(
        line.startswith("  /precision/policy: Expected 'float32', ")
        and "received \"mixed_flaot16\". Did you mean 'mixed_float16'?" in line
        for line in problems
    )
    assert any(line.startswith("  /modle: Expected one of the fields") for line in problems)


def test_a_file_that_is_not_yaml_is_refused(ampctl, tmp_path):
    path = tmp_path / "broken.yaml"
    path.write_text("a: [")
    result = ampctl("submit", str(path))
    assert result.code == 3
    assert "Expected a YAML or JSON document" in result.err


def test_a_missing_file_is_wrong_usage(ampctl):
    result = ampctl("submit", "nowhere.yaml")
    assert result.code == 2
    assert "nowhere.yaml" in result.err


def test_the_spec_can_come_from_standard_input(start_ampctl, spec_file, server):
    process = start_ampctl("submit", "-", "--set", "name=from-stdin")
    with open(spec_file, encoding="utf-8") as file:
        out, err = process.communicate(file.read(), timeout=DEADLINE_S)
    assert (process.returncode, out) == (0, "000000\n"), err
    assert server.jobs["000000"]["name"] == "from-stdin"


def test_submit_with_watch_follows_the_job_to_its_end(ampctl, spec_file, server, latest, summary):
    server.change("000000", state="running", step=3, total_steps=30, latest=latest)
    server.change("000000", state="succeeded", step=30, summary=summary)
    result = ampctl("submit", spec_file, "--watch")
    assert result.code == 0
    assert "digits-fp16: running  step 3/30" in result.err
    assert "validation accuracy  95 %" in result.out


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_submit_with_watch_fails_unless_the_job_succeeds(ampctl, spec_file, server, state):
    server.change("000000", state=state, reason="invalid_data", message="There is a NaN.")
    result = ampctl("submit", spec_file, "--watch", "--json")
    assert result.code == 1
    assert result.json()["state"] == state
    assert "There is a NaN." in result.err


def test_the_same_idempotency_key_queues_one_job(ampctl, spec_file, server):
    for _ in range(2):
        result = ampctl("submit", spec_file, "--idempotency-key", "mine")
        assert (result.code, result.out) == (0, "000000\n")
    assert list(server.jobs) == ["000000"]


def test_a_submission_without_a_response_says_how_to_repeat_it(
    ampctl, spec_file, server, clock, monkeypatch
):
    def lose_response(self, request):
        server.handle(request)
        raise ConnectionAbortedError  # the connection is closed without a response

    monkeypatch.setattr(type(server), "__call__", lose_response)
    monkeypatch.setattr("socketserver.BaseServer.handle_error", lambda *of: None)
    result = ampctl("submit", spec_file, "--idempotency-key", "mine")
    assert result.code == 6
    assert (
        "--idempotency-key mine: it returns that job instead of queuing a second one." in result.err
    )
    assert len(server.jobs) == 1


def test_an_exceeded_quota_is_shown_without_a_retry(ampctl, spec_file, server, respond):
    document = {"code": "quota_exceeded", "detail": "The project has 10 jobs in the queue."}
    server.next_responses = [respond(429, json=document, headers={"retry-after": "5"})]
    result = ampctl("submit", spec_file)
    assert (result.code, len(server.requests)) == (3, 1)
    assert "The project has 10 jobs in the queue." in result.err


@pytest.fixture
def other_file(tmp_path):
    path = tmp_path / "other.yaml"
    path.write_text("name: other\nmodel: {kind: mlp}\ndata: {kind: digits}\n")
    return str(path)


def test_several_files_are_queued_in_order(ampctl, spec_file, other_file, server):
    result = ampctl("submit", spec_file, other_file, "--set", "train.epochs=2")
    assert (result.code, result.out) == (0, "000000\n000001\n")
    assert [job["name"] for job in server.jobs.values()] == ["digits-fp16", "other"]
    assert {job["spec"]["train"]["epochs"] for job in server.jobs.values()} == {2}
    assert "ampctl watch 000000 000001" in result.err
    assert "ampctl compare 000000 000001" in result.err


def test_a_grid_queues_every_combination_under_its_own_name(ampctl, spec_file, server):
    result = ampctl(
        "submit", spec_file, "--json",
        "--grid", "precision.policy=float32,mixed_bfloat16", "--grid", "train.epochs=1,2",
    )  # fmt: skip
    assert [job["id"] for job in result.json()] == ["000000", "000001", "000002", "000003"]
    assert [job["name"] for job in server.jobs.values()] == [
        "digits-fp16 float32 epochs=1",
        "digits-fp16 float32 epochs=2",
        "digits-fp16 mixed_bfloat16 epochs=1",
        "digits-fp16 mixed_bfloat16 epochs=2",
    ]
    keys = [request.headers.get("idempotency-key") for request in server.requests]
    assert len(set(keys) - {None}) == 4


def test_an_error_in_one_file_queues_no_job(ampctl, spec_file, tmp_path, server):
    (tmp_path / "wrong.yaml").write_text("model: {kind: cnn}\ndata: {kind: digtis}\n")
    (tmp_path / "broken.yaml").write_text("a: [")
    wrong, broken = str(tmp_path / "wrong.yaml"), str(tmp_path / "broken.yaml")
    result = ampctl("submit", spec_file, wrong)
    assert (result.code, result.out, server.jobs) == (3, "", {})
    assert result.err.startswith(f"error: {wrong}: ")
    assert "Did you mean 'digits'?" in result.err
    assert result.err.endswith("Nothing was queued.\n")
    assert ampctl("submit", spec_file, broken).code == 3
    assert server.jobs == {}


def test_the_same_error_of_a_whole_grid_is_shown_once(ampctl, spec_file, server):
    result = ampctl(
        "submit", spec_file, "--set", "modle=1", "--grid", "precision.policy=float32,bfloat16"
    )
    assert result.err.count("/modle") == 1
    assert "precision.policy=float32 (and 1 more)" in result.err
    assert server.jobs == {}


@pytest.mark.parametrize(("end", "code"), [("succeeded", 0), ("failed", 1)])
def test_submit_can_wait_for_all_jobs_of_a_grid(ampctl, spec_file, server, end, code):
    server.change("000000", state="succeeded")
    server.change("000001", state=end)
    result = ampctl("submit", spec_file, "--grid", "precision.policy=float32,bfloat16", "--wait")
    assert result.code == code
    assert [line.split()[:3] for line in result.out.splitlines()[1:]] == [
        ["000000", "float32", "succeeded"],
        ["000001", "bfloat16", end],
    ]
    assert "ampctl compare 000000 000001" in result.err


def test_a_queue_that_fills_up_shows_the_queued_jobs_and_how_to_continue(
    ampctl, spec_file, other_file, server, respond
):
    full = respond(429, json={"code": "quota_exceeded", "detail": "The queue is full."})
    server.next_responses = [*[server.handle] * 3, full]
    result = ampctl("submit", spec_file, other_file, "--idempotency-key", "mine")
    assert (result.code, list(server.jobs)) == (3, ["000000"])
    assert "Already queued: 000000." in result.err
    assert "--idempotency-key mine" in result.err
    again = ampctl("submit", spec_file, other_file, "--idempotency-key", "mine")
    assert (again.code, again.out) == (0, "000000\n000001\n")


@every_row("digits", [1001, 100_000])
@every_row("place", ["file", "set"])
def test_a_number_with_too_many_digits_is_refused_with_its_line(
    ampctl, server, tmp_path, place, digits
):
    number = "9" * digits
    file = tmp_path / "job.yaml"
    seed = number if place == "file" else "1"
    file.write_text(f"model: {{kind: mlp}}\ndata: {{kind: digits}}\ntrain:\n  seed: {seed}\n")
    more = ["--set", f"train.seed={number}"] if place == "set" else []
    result = ampctl("submit", str(file), *more)
    assert result.code == 3
    assert f"a number must have at most 1000 digits, not {digits}" in result.err
    assert "line" in result.err
    assert len(result.err) < 1000
    assert server.jobs == {}


def test_a_grid_over_a_field_of_a_section_that_the_spec_does_not_have(ampctl, tmp_path, server):
    path = tmp_path / "job.yaml"
    path.write_text("model: {kind: mlp}\ndata: {kind: digits}\n")
    result = ampctl("submit", str(path), "--grid", "optimizer.learning_rate=1e-3,1e-2")
    assert result.code == 0, result.err
    rates = [job["spec"]["optimizer"]["learning_rate"] for job in server.jobs.values()]
    assert rates == [1e-3, 1e-2]


def test_a_dry_run_queues_nothing(ampctl, spec_file, server):
    result = ampctl("submit", spec_file, "--dry-run")
    assert result.code == 0
    assert "valid" in result.out
    assert "Nothing was queued." in result.err
    assert server.jobs == {}
    document = ampctl("submit", spec_file, "--dry-run", "--json").json()
    assert document["model"]["kind"]


def test_a_dry_run_names_the_code_without_sending_it(ampctl, server, tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code/net.py").write_text("x = 1\n")
    file = tmp_path / "job.yaml"
    file.write_text("model: {kind: bundle}\ndata: {kind: digits}\n")
    result = ampctl("submit", str(file), "--code", str(tmp_path / "code"), "--dry-run")
    sha256 = bundle_source(tmp_path / "code").sha256()
    assert (result.code, f"valid, sha256:{sha256}" in result.out) == (0, True), result.err


def test_an_unsuitable_folder_of_code_is_wrong_usage(ampctl, spec_file, server, tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code/link").symlink_to("/etc/hosts")
    result = ampctl("submit", spec_file, "--code", str(tmp_path / "code"))
    assert result.code == 2
    assert "'link'" in result.err.replace("\n", " ")
    assert ampctl("submit", spec_file, "--code", str(tmp_path / "missing")).code == 2
    assert server.jobs == {}


def test_code_for_another_kind_of_model_is_refused(ampctl, spec_file, server, tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code/net.py").write_text("x = 1\n")
    result = ampctl("submit", spec_file, "--code", str(tmp_path / "code"))
    assert result.code == 3
    assert "/model/kind" in result.err
    assert server.jobs == {}
