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
    found = ampctl("list", "--state", "running", "--state", "failed", "--json").json()
    assert [job["id"] for job in found] == ["a", "c"]


def test_list_of_a_state_that_is_none_is_wrong_usage(ampctl):
    result = ampctl("list", "--state", "asleep")
    assert result.code == 2
    assert "succeeded" in result.err
    assert "Did you mean 'running'?" in ampctl("list", "--state", "runnning").err


def test_list_says_when_there_are_more_jobs_than_it_shows(ampctl, server):
    for number in range(3):
        server.add_job(f"{number}")
    result = ampctl("list", "--limit", "2")
    assert [line.split()[0] for line in result.out.splitlines()] == ["ID", "0", "1"]
    assert result.err == "Only the newest are shown (2); --limit N shows more.\n"
    assert ampctl("list", "--limit", "3").err == ""


def test_get_shows_a_job(ampctl, server, summary):
    server.add_job("a", state="succeeded", summary=summary, labels={"team": "vision"})
    result = ampctl("get", "a")
    assert result.code == 0
    for line in ("state", "succeeded", "team=vision", "0.125", "2^12", "95.0%", "12,346"):
        assert line in result.out


def test_get_tells_where_the_model_is(ampctl, server, summary):
    server.add_job("a", state="succeeded", attempt=2, summary=summary)
    place = "jobs/a/attempt-2/model.keras (in the server's data folder)"
    assert f"model file           {place}\n" in ampctl("get", "a").out
    server.add_job("b", state="succeeded", summary={**summary, "model_file": None})
    assert "model file" not in ampctl("get", "b").out


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
    assert ["loss", "nan"] in [line.split() for line in ampctl("get", "a").out.splitlines()]


def test_cancel_says_what_became_of_the_job(ampctl, server):
    server.add_job("q")
    server.add_job("r", state="running")
    assert ampctl("cancel", "q").out == "q is cancelled\n"
    assert ampctl("cancel", "r").out == "r is stopping\n"


def test_cancel_of_a_job_that_has_ended_is_an_error(ampctl, server):
    server.add_job("a", state="succeeded")
    result = ampctl("cancel", "a")
    assert result.code == 1
    assert "(conflict, HTTP 409)" in result.err


def test_cancel_can_wait_until_the_job_is_gone(ampctl, server):
    server.add_job("r", state="running")
    server.change("r")
    server.change("r", state="cancelled")
    result = ampctl("cancel", "r", "--wait")
    assert (result.code, result.out) == (0, "r is cancelled\n")
    assert result.err == "r is stopping; waiting for its process to end …\n"


def test_cancel_that_came_too_late_exits_1(ampctl, server):
    server.add_job("r", state="running")
    server.change("r")
    server.change("r", state="succeeded")
    result = ampctl("cancel", "r", "--wait", "--json")
    assert (result.code, result.json()["state"]) == (1, "succeeded")
