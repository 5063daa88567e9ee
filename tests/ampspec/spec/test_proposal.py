"""The proposed job of a file fits its columns, and each decision has its reason."""

import pytest

from ampdata.description import describe
from ampspec.data.proposal import NoProposal, propose_job
from ampspec.documents.yaml_document import parse_yaml, yaml_text
from ampspec.jobs import JobSpec
from server.child.inspect_upload import describe_file
from tests.tables import every_row


def rows(make, count=120):
    return "".join(make(number) + "\n" for number in range(count))


def propose(tmp_path, text, target=None):
    (tmp_path / "it.csv").write_text(text)
    described = describe_file(tmp_path / "it.csv", describe)
    proposal = propose_job(
        "it@1",
        described["kind"],
        described["rows"],
        described["columns"],
        described["splits"],
        target=target,
    )
    assert JobSpec.parse(parse_yaml(yaml_text(proposal.spec))).data.dataset == "it@1"
    return proposal


@every_row(
    ("text", "data", "task", "reason"),
    [
        (
            "Id,Survived,Name,Age,Sex\n"
            + rows(lambda n: f"{n},{n % 2},Mr. Owen Harris Braund {n},{n or ''},{'mf'[n % 2]}"),
            {"target": "Survived", "inputs": ["Age", "Sex"], "missing": "keep"},
            "classification",
            "data.inputs: without Id: row numbers.",
        ),
        (
            "age,size,price\n" + rows(lambda n: f"{n % 50},1.{n * 7},{n * 3 if n % 4 else ''}"),
            {"target": "price", "inputs": ["age", "size"], "missing_targets": "leave_out"},
            "regression",
            "data.missing_targets: price has no value in 30 of 120 rows, which are left out.",
        ),
        (
            rows(lambda n: f"{n % 3 + 1},1.{n},2.{n * 7}"),
            {"target": "column_1", "inputs": ["column_2", "column_3"]},
            "classification",
            "data.target: column_1 is the first column and has few different whole numbers.",
        ),
        (
            "area,day,city,SalePrice\n"
            + rows(lambda n: f"{n}.5,2020-01-{n % 28 + 1:02},{'Ulm'},{1000 + n * 3}"),
            {"target": "SalePrice", "inputs": ["area"]},
            "regression",
            "data.inputs: without day: dates, which no layer reads directly.",
        ),
        (
            "kind,text\n" + rows(lambda n: f"{'ab'[n % 2]},a longer sentence of words {n}"),
            {"target": "kind", "inputs": ["text"]},
            "classification",
            "data.inputs: text is text of many words.",
        ),
        (
            "kind,size,country,note\n"
            + rows(lambda n: f"{'ab'[n % 2]},1.{n * 7},DE,{'late' if n % 9 == 2 else ''}"),
            {"target": "size", "inputs": ["kind", "note"]},
            "regression",
            "data.target: size is the last column with single values.",
        ),
    ],
)
def test_a_job_is_proposed_with_reasons(tmp_path, text, data, task, reason):
    proposal = propose(tmp_path, text)
    assert proposal.spec["data"].items() >= data.items()
    assert proposal.spec["task"] == {"kind": task}
    assert reason in proposal.reasons


def test_a_file_with_nothing_to_predict_from_has_no_proposal(tmp_path):
    with pytest.raises(NoProposal, match="no column to predict from"):
        propose(tmp_path, "id,y\n" + rows(lambda n: f"{n},{n % 2}"))
    with pytest.raises(NoProposal, match="no column to predict; all columns are inputs"):
        propose(tmp_path, "y1\n" + rows(str))


def test_a_target_that_a_person_names_is_taken_or_refused(tmp_path):
    table = "price,size,rooms\n" + rows(lambda n: f"{n * 3}.5,1.{n * 7},{n % 4}")
    assert propose(tmp_path, table).spec["data"]["target"] == "price"
    proposal = propose(tmp_path, table, "rooms")
    assert proposal.spec["data"] | {"split": None} == proposal.spec["data"] | {
        "target": "rooms",
        "inputs": ["price", "size"],
        "split": None,
    }
    assert "data.target: rooms is the target that you named." in proposal.reasons
    with pytest.raises(NoProposal, match=r"no column 'room'; there are price, size, rooms\."):
        propose(tmp_path, table, "room")


def test_what_is_written_as_yaml_is_read_back():
    document = {"a": ["1e3", "0", "yes", "2020-01-01", 1.5, None], "b": {"c: d": [{"x": 1}] * 2}}
    assert parse_yaml(yaml_text(document)) == document
