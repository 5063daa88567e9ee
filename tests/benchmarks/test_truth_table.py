"""A sample of the truth table: planted faults are named, and healthy runs are not blamed."""

import importlib

import pytest

MODULES = ["steps", "ends", "layers", "policies", "limits"]


@pytest.fixture
def truth_table(monkeypatch, request):
    """The module benchmarks/truth_table.py."""
    monkeypatch.syspath_prepend(request.config.rootpath / "benchmarks")
    return importlib.import_module("truth_table")


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_no_answer_of_the_sample_is_wrong(truth_table, module):
    faults = [
        fault for fault in importlib.import_module(f"truth.{module}").FAULTS if fault.is_quick
    ]
    assert faults
    answers = {
        f"{fault.question}: {fault.name}": truth_table.outcomes(fault, seeds=1)[0]
        for fault in faults
    }
    wrong = {name: one.answer for name, one in answers.items() if one.verdict == "wrong"}
    assert wrong == {}
    assert any(one.verdict == "right" for one in answers.values())


def test_the_table_has_at_least_forty_faults_with_names_of_their_own(truth_table):
    names = [(fault.question, fault.name) for fault in truth_table.planted_faults()]
    assert len(names) == len(set(names))
    assert len({name for _, name in names}) >= 40
