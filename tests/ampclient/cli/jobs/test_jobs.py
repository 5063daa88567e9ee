def test_list_shows_a_row_for_each_job(ampctl, server, latest):
    server.add_job("a", state="running", step=3, total_steps=30, latest=latest)
    server.add_job("b", name="[red]other")
    result = ampctl("list")
    assert result.code == 0
    head, first, second = (line.split() for line in result.out.splitlines())
    assert head == ["ID", "NAME", "STATE", "POLICY", "STEP", "LOSS", "SKIPPED", "CREATED"]
    assert first[:7] == ["a", "digits-fp16", "running", "mixed_float16", "3/30", "0.25", "3"]
    assert second[:3] == ["b", "[red]other", "queued"]


def test_list_filters_by_state_and_writes_json(ampctl, server):
    server.add_job("a", state="running")
    server.add_job("b")
    server.add_job("c", state="failed")
    listed = ampctl("list", "--state", "running", "--state", "failed", "--json").json()
    assert [job["id"] for job in listed] == ["a", "c"]


def test_list_of_an_unknown_state_is_wrong_usage(ampctl):
    result = ampctl("list", "--state", "asleep")
    assert result.code == 2
    assert "succeeded" in result.err
    assert "Did you mean 'running'?" in ampctl("list", "--state", "runnning").err


def test_list_says_when_there_are_more_jobs_than_it_shows(ampctl, server):
    for number in range(3):
        server.add_job(f"{number}")
    result = ampctl("list", "--limit", "2")
    assert [line.split()[0] for line in result.out.splitlines()] == ["ID", "0", "1"]
    assert result.err == "Showing the first 2; use --limit N or --all-pages for more.\n"
    assert ampctl("list", "--limit", "3").err == ""
    every = ampctl("list", "--limit", "2", "--all-pages")
    assert [line.split()[0] for line in every.out.splitlines()] == ["ID", "0", "1", "2"]
    assert every.err == ""


def test_list_sends_its_options_to_the_server(ampctl, server):
    ampctl(
        "list", "--label", "team=vision", "--label", "x", "--q", "digits", "--policy", "float32",
        "--model", "cnn", "--project", "vision", "--sort", "-priority", "--where", "val_loss<1",
        "--where", "val_auc>=0.5", "--explanations",
    )  # fmt: skip
    params = server.requests[0].url.params
    assert params.get_list("label") == ["team=vision", "x"]
    assert params.get_list("metric") == ["val_loss<1", "val_auc>=0.5"]
    assert params["explanations"] == "true"
    names = ("q", "policy", "model", "project", "sort")
    assert [params[name] for name in names] == ["digits", "float32", "cnn", "vision", "-priority"]


def test_list_shows_the_metrics_that_it_is_sorted_and_filtered_by(ampctl, server):
    server.add_job("a", metrics={"val_loss": 0.5, "val_accuracy": 0.875, "val_auc": 0.25})
    server.add_job("b")

    def columns(*options):
        rows = [line.split() for line in ampctl("list", *options).out.splitlines()]
        return rows[1][6:-4], rows[0][6:-2], rows[2][6:-4]

    assert columns() == (["0.5"], ["val_loss"], ["–"])
    assert columns("--sort", "-val_accuracy", "--where", "val_auc <= 0.5") == (
        ["87.5", "%", "0.25"],
        ["val_accuracy", "val_auc"],
        ["–", "–"],
    )


def test_list_that_finds_nothing_says_so(ampctl):
    result = ampctl("list")
    assert (result.code, result.out, result.err) == (0, "", "No matching jobs.\n")
    assert ampctl("list", "--json").json() == []


def test_list_shows_the_projects_if_there_are_several(ampctl, server):
    server.add_job("a", project="vision")
    assert "PROJECT" not in ampctl("list").out
    server.add_job("b", project="speech")
    head, first, _ = (line.split() for line in ampctl("list").out.splitlines())
    assert (head[2], first[2]) == ("PROJECT", "vision")


def test_get_shows_a_job(ampctl, server, summary):
    server.add_job("a", state="succeeded", summary=summary, labels={"team": "vision"})
    result = ampctl("get", "a")
    assert result.code == 0
    for line in ("state", "succeeded", "team=vision", "0.125", "2^12", "95 %", "12,346"):
        assert line in result.out


def test_get_shows_the_best_evaluation_and_an_early_end(ampctl, server, summary):
    best = {"metric": "val_loss", "value": 0.25, "epoch": 3, "steps": 40, "metrics": {}}
    stop = {"epoch": 6, "metric": "val_loss", "best": 0.25}
    listed = {**summary, "best": best, "stopped_early": stop, "best_model_file": "model-best.keras"}
    server.add_job("a", state="succeeded", attempt=2, summary=listed)
    shown = " ".join(ampctl("get", "a").out.split())
    assert "0.25 in epoch 3" in shown
    assert "stopped early after epoch 6, because" in shown
    assert "best model attempt-2/model-best.keras" in shown


def test_get_shows_the_path_of_the_model(ampctl, server, summary):
    server.add_job("a", state="succeeded", attempt=2, summary=summary)
    path = "attempt-2/model.keras (ampctl job download a attempt-2/model.keras)"
    assert f"model file           {path}\n" in ampctl("get", "a").out
    server.add_job("b", state="succeeded", summary={**summary, "model_file": None})
    assert "model file" not in ampctl("get", "b").out


def test_get_shows_which_weights_a_job_has_taken(ampctl, server, events):
    init = {"job": "0123456789ab", "weights": None}
    server.add_job("a", spec={"init": init})
    assert "starts from   job 0123456789ab\n" in ampctl("get", "a").out
    data = {
        "source": "job 0123456789ab",
        "matched": 1,
        "of": 2,
        "unmatched_in_model": ["head/kernel"],
        "shape_differs": [{"name": "c/bias", "model": [3], "source": [2]}],
        "unused_in_source": [],
        "counts": {"unmatched_in_model": 1},
        "sentence": "1 of 2 weights start from job 0123456789ab.",
    }
    server.events["a"] = [*events, {**events[0], "seq": 9, "type": "weights_loaded", "data": data}]
    assert "weights       1 of 2 weights start from job" in ampctl("get", "a").out


DATA = {
    "train": 1600,
    "validation": 400,
    "validation_rows": "random",
    "columns": [{"name": "wing (cm)", "role": "input", "dtype": "float64"}],
    "column_count": 1,
    "targets": {"output": {"kind": "numbers", "size": 1}},
}


def test_get_and_events_show_the_data_of_a_job(ampctl, server, events):
    server.add_job("a", attempt=1)
    started = {"total_steps": 8, "data": DATA}
    server.events["a"] = [{**events[0], "type": "started", "data": started}]
    for command, separator in (("get", " "), ("events", ": ")):
        shown = " ".join(ampctl(command, "a").out.split())
        assert f"data{separator}1,600 rows to train on, 400 for validation (chosen" in shown
        assert f"inputs{separator}wing (cm) (float64)" in shown


def test_get_shows_a_job_whose_data_have_another_form(ampctl, server, events):
    server.add_job("a", attempt=1)
    server.events["a"] = [{**events[0], "type": "started", "data": {"data": {"train": "many"}}}]
    assert ampctl("get", "a").code == 0


def test_get_says_why_a_job_failed(ampctl, server):
    server.add_job("a", state="failed", reason="out_of_memory", message="Use a smaller batch.")
    result = ampctl("get", "a")
    assert result.code == 0
    assert "failed (out_of_memory): Use a smaller batch." in result.out


def test_get_as_json_is_valid_json_with_names_for_non_finite_numbers(ampctl, server, latest):
    server.add_job("a", latest={**latest, "loss": "NaN"})
    assert ampctl("get", "a", "--json").json()["latest"]["loss"] == "NaN"


def test_get_names_non_finite_numbers(ampctl, server, latest):
    server.add_job("a", latest={**latest, "loss": "NaN"})
    assert ["loss", "NaN"] in [line.split() for line in ampctl("get", "a").out.splitlines()]


def test_get_shows_why_a_job_waits_and_its_origin(ampctl, server):
    server.add_job(
        "a",
        waiting="No online worker serves the queue 'gpu'.",
        queue="gpu",
        priority=7,
        attempt=2,
        failures=1,
        cloned_from="b",
    )
    lines = ampctl("get", "a").out.splitlines()
    for fact in (
        "waiting       No online worker serves the queue 'gpu'.",
        "queue         gpu, priority 7",
        "submitted by  anna",
        "cloned from   b",
        "attempt       2 (1 of at most 3 failed)",
    ):
        assert fact in lines


def test_a_job_of_a_newer_server_and_a_damaged_one_are_shown(ampctl, server):
    server.add_job("a", state="archived", reason="preempted")
    server.add_job("b", labels={}, unreadable=["labels"])
    listed = ampctl("list")
    assert "archived" in listed.out
    assert "queued, unreadable: labels" in listed.out
    assert "archived (preempted)" in ampctl("get", "a").out
    assert "labels; see the server's log" in ampctl("get", "b").out


def test_get_shows_the_policy_that_auto_chose(ampctl, server, summary):
    server.add_job("a", policy="auto", summary={**summary, "policy": "mixed_bfloat16"})
    assert "auto (mixed_bfloat16)" in ampctl("get", "a").out
    server.add_job("b", policy="auto")
    assert "(" not in ampctl("get", "b").out


def test_the_policy_of_a_running_job_is_shown_once_auto_has_chosen_it(ampctl, server):
    server.add_job("a", policy="auto", resolved_policy="mixed_float16", state="running")
    assert "auto (mixed_float16)" in ampctl("get", "a").out
    assert "auto (mixed_float16)" in ampctl("list").out


def test_get_shows_the_metrics_of_the_last_evaluation(ampctl, server, latest):
    metrics = {"val_loss": 0.5, "val_accuracy": 0.875, "val_top-5_error": "NaN"}
    server.add_job("a", state="running", latest=latest, metrics=metrics)
    lines = [line.split("  ") for line in ampctl("get", "a").out.splitlines()]
    listed = {line[0]: line[-1].strip() for line in lines}
    assert listed["validation loss"] == "0.5"
    assert listed["validation accuracy"] == "87.5 %"
    assert listed["validation top-5 error"] == "NaN"


def test_a_tracked_run_has_a_mark(ampctl, server):
    server.add_job("a1", state="running", source="tracked", queue="tracked")
    server.add_job("b2", state="running")
    rows = ampctl("list").out.splitlines()
    marks = {row.split()[0]: "running, tracked" in row for row in rows[1:]}
    assert marks == {"a1": True, "b2": False}
    shown = ampctl("get", "a1").out
    assert "elsewhere: a program sends its steps (tracked)" in shown
    assert "queue" not in shown


def test_the_jobs_of_a_study_are_one_row(ampctl, server):
    server.add_job("a", name="which policy float32-0")
    states = {"running": 1, "queued": 5}
    study = {"id": "s" * 12, "name": "which policy", "kind": "precision", "state": "running"}
    server.jobs["a"]["study"] = {**study, "jobs": 6, "states": states, "unreadable": []}
    [_, line] = ampctl("list").out.splitlines()
    assert line.startswith("s" * 12)
    assert "which policy (study: precision, 6 jobs)" in line
    assert "5 queued, 1 running" in line
    assert server.requests[-1].url.params["fold_studies"] == "true"
    for option in (["--all-jobs"], ["--study", "s" * 12]):
        ampctl("list", *option)
        assert "fold_studies" not in server.requests[-1].url.params
