import json

import pytest

from ampclient.cli.output.compare_output import _fitting


@pytest.fixture
def comparison(server):
    """Two jobs; the second is faster, and its loss drift is unknown."""
    jobs = [
        server.add_job("a", name="cnn float32", state="succeeded"),
        server.add_job("b", name="cnn [red]bfloat16", state="failed"),
    ]
    measures = [{"speedup": 1.0, "loss_drift": 0.0}, {"speedup": 1.71, "loss_drift": None}]
    data = {"step": [0], "count": [4], "skipped": [0], "loss.mean": [0.5]}
    none = {"total": 0, "steps": []}
    compared = [
        {"job": job, **facts, "skipped_steps": none, "data": data}
        for job, facts in zip(jobs, measures, strict=True)
    ]
    return {
        "baseline": "a",
        "steps_per_point": 4,
        "jobs": compared,
        "spec": [
            {"pointer": "/name", "values": ["cnn float32", "cnn [red]bfloat16"]},
            {"pointer": "/precision/policy", "values": ["float32", "mixed_bfloat16"]},
            {"pointer": "/model/filters", "values": [[16, 32], None]},
        ],
        "results": [
            {"name": "state", "values": ["succeeded", "failed"]},
            {"name": "last_loss", "values": [0.25, "NaN"]},
            {"name": "final_loss", "values": [0.25, "NaN"]},
            {"name": "val_loss", "values": [None, None]},
            {"name": "skipped_share", "values": [0.0, 0.25]},
            {"name": "peak_memory_bytes", "values": [2**20, None]},
        ],
    }


def test_compare_prints_differences_results_and_measures(ampctl, server, respond, comparison):
    server.next_responses = [respond(200, json=comparison)]
    result = ampctl("compare", "a", "b", "--baseline", "a")
    assert result.code == 0
    assert [line.split("  ")[0] for line in result.out.splitlines()] == [
        "", "name", "/precision/policy", "/model/filters", "state", "final loss", "skipped",
        "peak memory", "speed-up", "loss of last tenth of steps vs. baseline",
    ]  # fmt: skip
    start = len("loss of last tenth of steps vs. baseline")
    rows = {line[:start].strip(): line[start:].split() for line in result.out.splitlines()}
    assert rows[""] == ["*a", "b"]
    assert rows["name"] == ["float32", "[red]bfloat16"]
    assert rows["/model/filters"] == ["[16,", "32]", "–"]
    assert rows["final loss"] == ["0.25", "NaN"]
    assert rows["speed-up"] == ["1", "×", "1.71", "×"]
    assert rows["loss of last tenth of steps vs. baseline"] == ["0", "%", "–"]
    assert result.err == "* baseline: a\n"
    params = server.requests[0].url.params
    assert (params["jobs"], params["baseline"]) == ("a,b", "a")


def test_compare_prints_every_metric(ampctl, server, respond, comparison):
    comparison["results"] += [
        {"name": "val_accuracy", "values": [0.5, None]},
        {"name": "val_auc", "values": ["NaN", 0.75]},
    ]
    server.next_responses = [respond(200, json=comparison)]
    lines = ampctl("compare", "a", "b").out.splitlines()
    rows = {line[:20].strip(): line[20:].split() for line in lines}
    assert rows["validation accuracy"] == ["50", "%", "–"]
    assert rows["validation auc"] == ["NaN", "0.75"]


def test_the_last_loss_is_shown_while_a_job_has_no_final_one(ampctl, server, respond, comparison):
    final = next(result for result in comparison["results"] if result["name"] == "final_loss")
    final["values"] = [0.25, None]
    server.next_responses = [respond(200, json=comparison)]
    rows = {
        line[:18].strip(): line[18:].split()
        for line in ampctl("compare", "a", "b").out.splitlines()
    }
    assert rows["last loss"] == ["0.25", "NaN"]
    assert rows["final loss"] == ["0.25", "–"]


def test_more_than_ten_jobs_have_a_row_each(ampctl, server, respond, comparison):
    for number in range(2, 11):
        job = server.add_job(f"j{number}", name=f"cnn seed{number}", state="succeeded")
        comparison["jobs"].append(comparison["jobs"][0] | {"job": job})
    for field in (*comparison["spec"], *comparison["results"]):
        field["values"] += [field["values"][0]] * 9
    server.next_responses = [respond(200, json=comparison)]
    heads, first, *others = ampctl("compare", *(f"j{i}" for i in range(11))).out.splitlines()
    assert "name" in heads.split()
    assert "final loss" in heads
    assert first.split()[:2] == ["*a", "float32"]
    assert len(others) == 10


def test_compare_as_json_is_what_the_server_sent(ampctl, server, respond, comparison):
    server.next_responses = [respond(200, json=comparison)]
    assert ampctl("compare", "a", "b", "--json").json() == json.loads(json.dumps(comparison))


def test_a_narrow_terminal_gets_several_tables_each_with_the_baseline(comparison):
    lines = [("", ["*a", "b", "c"]), ("word", ["x" * 10, "y" * 10, "z" * 10])]
    assert _fitting(lines, 30) == [[0, 1], [0, 2]]
    assert _fitting(lines, 45) == [[0, 1, 2]]
    assert _fitting(lines, None) == [[0, 1, 2]]
    assert _fitting(lines, 5) == [[0, 1], [0, 2]]


@pytest.mark.parametrize("ids", [["a"], ["a", "a"], [f"{number}" for number in range(101)]])
def test_fewer_than_two_jobs_or_more_than_100_are_wrong_usage(ampctl, server, ids):
    assert ampctl("compare", *ids).code == 2
    assert server.requests == []


def test_an_unknown_job_is_named(ampctl, server, respond):
    server.add_job("abcdef")
    detail = "There is no job 'abcdeg'."
    server.next_responses = [respond(404, json={"code": "not_found", "detail": detail})]
    result = ampctl("compare", "abcdef", "abcdeg")
    assert result.code == 4
    assert "Did you mean abcdef (digits-fp16, queued)?" in result.err


@pytest.fixture
def succeeded(comparison):
    comparison["jobs"][1]["job"]["state"] = "succeeded"
    comparison["results"] += [{"name": "val_accuracy", "values": [0.9, 0.896]}]
    return comparison


def test_assertions_that_hold_give_exit_status_0(ampctl, server, respond, succeeded):
    server.next_responses = [respond(200, json=succeeded)]
    result = ampctl(
        *("compare", "a", "b", "--assert", "val_accuracy within 0.5 points"),
        *("--assert", "speedup >= 0.95"),
    )
    assert result.code == 0, result.err
    assert [line.split()[0] for line in result.out.splitlines()[-4:]] == ["passed"] * 4


def test_an_assertion_that_does_not_hold_gives_exit_status_1_and_reports(
    ampctl, server, respond, succeeded, tmp_path
):
    junit, markdown = tmp_path / "junit.xml", tmp_path / "summary.md"
    markdown.write_text("before\n")
    server.next_responses = [respond(200, json=succeeded)]
    result = ampctl(
        *("compare", "a", "b", "--assert", "skipped_share <= 1 %"),
        *("--junit", str(junit), "--markdown", str(markdown)),
    )
    assert result.code == 1
    failed = "FAILED   b  skipped_share <= 1 %: expected <= 0.01; received 0.25"
    assert result.out.splitlines()[-1] == failed
    assert '<failure message="skipped_share &lt;= 1 %' in junit.read_text()
    assert markdown.read_text().startswith("before\n### Failed")


def test_a_job_that_has_failed_gives_exit_status_1(ampctl, server, respond, comparison):
    server.next_responses = [respond(200, json=comparison)]
    result = ampctl("compare", "a", "b", "--assert", "val_accuracy >= 0.5")
    assert result.code == 1
    assert "FAILED   b  expected state is succeeded; received failed" in result.out
    assert result.out.splitlines()[-1].startswith("skipped  b")


@pytest.fixture
def given(server, respond, succeeded):
    """The next response is the comparison of two jobs that have succeeded."""
    server.next_responses = [respond(200, json=succeeded)]


@pytest.mark.usefixtures("given")
@pytest.mark.parametrize(
    ("assertion", "message"),
    [
        (
            "val_acuracy >= 0.5",
            "it has last_loss, final_loss, skipped_share, val_accuracy, speedup",
        ),
        ("val_accuracy is good", "NAME >= 0.95x"),
    ],
)
def test_an_assertion_that_cannot_be_checked_gives_exit_status_2(ampctl, assertion, message):
    result = ampctl("compare", "a", "b", "--assert", assertion)
    assert result.code == 2
    assert message in " ".join(result.err.replace("│", " ").split())


def test_a_report_without_assertions_is_wrong_usage(ampctl, server):
    assert ampctl("compare", "a", "b", "--junit", "x.xml").code == 2
    assert server.requests == []


def test_assertions_are_in_the_json(ampctl, server, respond, succeeded):
    server.next_responses = [respond(200, json=succeeded)]
    result = ampctl("compare", "a", "b", "--json", "--assert", "final_loss <= 1")
    assert result.code == 1
    last = result.json()["assertions"][-1]
    assert (last["assertion"], last["outcome"], last["value"]) == (
        "final_loss <= 1",
        "failed",
        "NaN",
    )
