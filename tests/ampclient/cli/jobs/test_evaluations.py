import pytest


@pytest.fixture
def job(server):
    server.add_job("a")
    server.evaluations["a"] = [
        {"epoch": 0, "step": 9, "val_loss": 0.5, "val_top-5": 0.25},
        {"epoch": None, "step": 19, "val_loss": "NaN"},
    ]
    return "a"


def test_a_table_has_a_row_for_each_evaluation(ampctl, job):
    lines = ampctl("evaluations", job).out.splitlines()
    assert [line.split() for line in lines] == [
        ["EPOCH", "STEP", "val_loss", "val_top-5"],
        ["0", "9", "0.5", "0.25"],
        ["–", "19", "NaN", "–"],
    ]


def test_the_best_evaluation_is_marked(ampctl, job, server):
    server.evaluations[job][0]["best"] = True
    lines = ampctl("evaluations", job).out.splitlines()
    assert [line.split()[-1] for line in lines] == ["BEST", "best", "–"]
    assert [row.get("best") for row in ampctl("evaluations", job, "--json").json()] == [True, None]


def test_csv_has_empty_cells_where_a_value_is_missing(ampctl, job):
    assert ampctl("evaluations", job, "--csv").out == (
        "epoch,step,val_loss,val_top-5\n0,9,0.5,0.25\n,19,nan,\n"
    )


def test_json_has_the_rows(ampctl, job, server):
    assert ampctl("evaluations", job, "--json").json() == server.evaluations[job]


def test_csv_and_json_exclude_each_other(ampctl, job):
    result = ampctl("evaluations", job, "--csv", "--json")
    assert (result.code, result.out) == (2, "")
    assert "--csv or --json" in result.err


def test_a_job_without_evaluations_prints_a_note(ampctl, server):
    server.add_job("new")
    result = ampctl("evaluations", "new")
    assert (result.code, result.out) == (0, "")
    assert "has not been evaluated" in result.err
