"""Assertions about a comparison: their grammar, what they allow, and the reports of checks."""

import math
from contextlib import suppress
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampclient._compare.comparison import Comparison
from ampspec.comparison.assertions import SUCCEEDED, Assertion, InvalidAssertion
from tests.tables import every_row

NAN = math.nan


@every_row(
    ("text", "base", "holding", "failing"),
    [
        ("val_accuracy within 0.5 points", 0.91, [0.905, 0.915, 0.91], [0.9049, 0.9151]),
        ("val_accuracy within 0.5 points", 0.03, [0.035], [0.0351]),  # 0.03 + 0.005 is less
        ("loss within 2 %", 0.5, [0.49, 0.51], [0.4899, 0.511]),
        ("loss within 2 %", -0.5, [-0.5, -0.49, -0.51], [-0.48, -0.52]),
        ("loss within 0.1", 0.5, [0.4, 0.6], [0.39, 0.61]),
        ("examples_per_s >= 0.95x", 1000, [950, 2000], [949]),
        ("examples_per_s>=0.95x", 1000, [950], [949]),
        ("skipped_share <= 1 %", 5, [0, 0.01], [0.011]),
        ("skipped_share <= 1%", 5, [0.01], [0.02]),
        ("loss < 1", 5, [0.99], [1, 1.1]),
        ("loss > -1e-1", 5, [0, -0.09], [-0.1, -1]),
        ("val_accuracy >= base - 0.5 points", 0.91, [0.905, 1], [0.9]),
        ("loss <= base + 2 %", 0.5, [0.51, 0.1], [0.52]),
        ("loss <= base", 0.5, [0.5], [0.51]),
        ("loss <= base + 0.25", 0.5, [0.75], [0.76]),
        ("peak_memory <= 8 GiB", 5, [8 * 2**30], [8 * 2**30 + 100]),
        ("peak_memory <= base + 1 MB", 1e9, [1.001e9], [1.002e9]),
    ],
)
def test_an_assertion_holds_for_what_it_allows(text, base, holding, failing):
    assertion = Assertion.parse(text)
    assert [assertion.holds(value, base) for value in holding] == [True] * len(holding)
    assert [assertion.holds(value, base) for value in failing] == [False] * len(failing)


@every_row("operator", ["within 5", "<= 5", ">= -5", "<= 2x", ">= base - 3"])
def test_no_assertion_holds_for_a_value_that_is_not_finite(operator):
    assertion = Assertion.parse(f"loss {operator}")
    assert not any(assertion.holds(value, 1.0) for value in (NAN, math.inf, -math.inf))
    if assertion.needs_base:
        assert not any(assertion.holds(1.0, base) for base in (NAN, math.inf, -math.inf))


@every_row(
    ("text", "name"),
    [
        ("loss < 1", "final_loss"),
        ("examples_per_s >= 1x", "median_examples_per_s"),
        ("peak_memory <= 1x", "peak_memory_bytes"),
        ("val_f1 (micro, 3) >= 1x", "val_f1 (micro, 3)"),
        ("val_recall@0.5 within 1 points", "val_recall@0.5"),
    ],
)
def test_an_assertion_names_a_result(text, name):
    assert Assertion.parse(text).name == name


@every_row(
    "text",
    [
        *("", "loss", "loss 5", "loss <=", "<= 5", "loss = 5", "loss <= five", "loss <= 5 apples"),
        *("loss within 5x", "loss <= 5 points", "loss within -5", "loss <= base * 2", "within 5"),
        *("loss <= base - 5x", "loss <= 1 2", "loss => 5", "loss <= inf", "loss <= nan"),
    ],
)
def test_a_malformed_assertion_is_refused_with_the_forms(text):
    with pytest.raises(InvalidAssertion, match=r"expected 'NAME within 0\.5 points'"):
        Assertion.parse(text)


@given(st.text(max_size=40))
def test_any_text_is_an_assertion_or_refused(text):
    with suppress(InvalidAssertion):
        assert Assertion.parse(text).text == text.strip()


@pytest.fixture
def comparison(server):
    """A baseline `a`, a job `b` that has succeeded, and `c`, which has failed."""
    states = {"a": "succeeded", "b": "succeeded", "c": "failed"}
    jobs = [server.add_job(name, name=f"<{name}>|x", state=state) for name, state in states.items()]
    none = {"total": 0, "steps": []}
    facts = {"skipped_steps": none, "data": {}, "loss_drift": None}
    results = {
        "state": list(states.values()),
        "final_loss": [0.5, "NaN", None],
        "val_accuracy": [0.9, 0.8, None],
        "median_examples_per_s": [1000.0, 2000.0, 5.0],
        "peak_memory_bytes": [None, None, None],
    }

    def make(count):
        return Comparison.from_json(
            {
                "baseline": "a",
                "steps_per_point": 1,
                "jobs": [{"job": job, "speedup": 2.0, **facts} for job in jobs[:count]],
                "spec": [],
                "results": [
                    {"name": name, "values": values[:count]} for name, values in results.items()
                ],
            }
        )

    return make


def test_every_job_but_the_baseline_is_checked(comparison):
    checks = comparison(2).check(["val_accuracy >= 0.5", "speedup >= 3", "loss < 1"])
    assert [(check.job.id, check.assertion, check.outcome) for check in checks] == [
        ("a", SUCCEEDED, "passed"),
        ("b", SUCCEEDED, "passed"),
        ("b", "val_accuracy >= 0.5", "passed"),
        ("b", "speedup >= 3", "failed"),
        ("b", "loss < 1", "failed"),
    ]
    assert not checks.passed
    assert [check.message for check in checks.failures] == [
        "speedup >= 3: expected >= 3; received 2",
        "loss < 1: expected < 1; received nan",
    ]
    assert comparison(2).check(["val_accuracy within 20 points"]).passed


def test_the_value_of_the_baseline_is_in_the_message(comparison):
    [failed] = comparison(2).check(["val_accuracy within 0.5 points"]).failures
    assert failed.message == (
        "val_accuracy within 0.5 points: expected 0.895 to 0.905 (the baseline has 0.9); "
        "received 0.8"
    )
    assert failed.to_json()["base"] == 0.9


def test_a_job_that_has_not_succeeded_fails_and_is_not_checked_further(comparison):
    checks = comparison(3).check(["speedup >= 1"])
    assert [(check.job.id, check.outcome) for check in checks][2:] == [
        ("c", "failed"),
        ("b", "passed"),
        ("c", "skipped"),
    ]
    assert checks.failures[0].message == "expected state is succeeded; received failed"


def test_a_missing_value_is_refused_with_those_that_exist(comparison):
    with pytest.raises(InvalidAssertion) as caught:
        comparison(2).check(["val_acuracy >= 0.5"])
    assert str(caught.value) == (
        "the job b has no value 'val_acuracy'; it has final_loss, val_accuracy, "
        "median_examples_per_s, speedup. Did you mean 'val_accuracy'?"
    )
    with pytest.raises(InvalidAssertion, match="no value 'peak_memory_bytes'"):
        comparison(2).check(["peak_memory <= 1 GB"])


def test_the_junit_report_has_a_test_case_for_each_check(comparison):
    checks = comparison(3).check(["speedup >= 3", "val_accuracy < 0.85"])
    [suite] = ElementTree.fromstring(checks.to_junit())  # noqa: S314 - it is our own
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "7", "failures": "2", "errors": "0", "skipped": "2"}
    cases = {(case.get("classname"), case.get("name")): [*case] for case in suite}
    assert cases["<b>|x (b)", "val_accuracy < 0.85"] == []
    [failure] = cases["<b>|x (b)", "speedup >= 3"]
    assert (failure.tag, failure.get("message")) == (
        "failure",
        "speedup >= 3: expected >= 3; received 2",
    )
    assert cases["<c>|x (c)", "speedup >= 3"][0].tag == "skipped"


def test_the_markdown_table_has_a_row_for_each_check(comparison):
    text = comparison(2).check(["speedup >= 3", "val_accuracy >= base - 20 points"]).to_markdown()
    heading, _, sentence, _, head, _, *rows = text.splitlines()
    assert heading == "### Failed: comparison with &lt;a&gt;\\|x (a)"
    assert sentence == "3 of 4 assertions hold."
    assert head.count("|") == 7
    assert rows[2] == "| ❌ | &lt;b&gt;\\|x (b) | speedup &gt;= 3 |  | 2 | &gt;= 3 |"
    accuracy = "val\\_accuracy &gt;= base - 20 points | 0.9 | 0.8 | &gt;= 0.7 |"
    assert rows[3] == f"| ✅ | &lt;b&gt;\\|x (b) | {accuracy}"
