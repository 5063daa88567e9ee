"""The comparison of candidates in benchmarks/compare."""

import json
import statistics

import pytest

PROGRAM = """
import sys
from compare.serve import serve

turns = []


def counts(steps):
    print("output of a library is ignored")

    def trained():
        turns.append(steps)
        return steps

    return trained


def write_turns():
    print(turns, file=open(sys.argv[-1], "w"))
    return 1


serve(
    {
        "one": lambda: counts(1),
        "best": lambda: {"few": counts(1), "many": counts(1_000_000)},
        sys.argv[-1]: lambda: write_turns,
    },
    "pytest",
)
"""


@pytest.fixture
def compare(monkeypatch, tmp_path, request):
    """The package of the benchmarks, and beside it a program of candidates that take no time."""
    folder = request.config.rootpath / "benchmarks"
    monkeypatch.syspath_prepend(folder)
    import compare

    (tmp_path / "instant.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return compare


@pytest.fixture
def result(compare, tmp_path):
    program = compare.CandidateProgram("instant")
    variants = {"one": "one", "best": "best", "log": str(tmp_path / "turns")}
    candidates = [compare.Candidate(name, program, it) for name, it in variants.items()]
    return compare.compare(candidates, rounds=3)


def test_every_candidate_is_measured_in_every_round(result):
    assert {name: len(rounds) for name, rounds in result.rounds.items()} == {
        "one": 3,
        "best": 3,
        "log": 3,
    }
    assert all(value >= 0 for rounds in result.rounds.values() for value in rounds)
    assert "pytest" in result.versions


def test_the_fastest_option_is_compared_and_named(result):
    assert result.chosen == {"best": "many"}
    assert result.ratio("one", "best") > 1000


def test_candidates_of_one_program_share_a_process(result, tmp_path):
    turns = json.loads((tmp_path / "turns").read_text())
    assert turns[-4:].count(1) == turns[-4:].count(1_000_000) == 2


def test_a_program_that_ends_is_an_error(compare, tmp_path):
    (tmp_path / "instant.py").write_text("raise SystemExit(3)")
    one = compare.Candidate("one", compare.CandidateProgram("instant"), "one")
    with pytest.raises(RuntimeError, match="ended with 3"):
        compare.compare([one], rounds=1)


def test_ratios_are_those_of_the_medians(compare):
    rounds = {"ours": [1.0, 2.0, 90.0], "theirs": [5.0, 6.0, 7.0]}
    result = compare.Result(rounds, {}, {})
    assert result.ratio("theirs", "ours") == 3.0
    assert result.quartiles()["theirs"] == statistics.quantiles(rounds["theirs"], n=4)


def test_the_order_of_candidates_changes_between_rounds(compare):
    orders = [compare.rotated("abc", index) for index in range(4)]
    assert orders == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"], ["a", "b", "c"]]
