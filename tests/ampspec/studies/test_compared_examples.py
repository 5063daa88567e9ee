"""Jobs of a study, compared on planted outcomes of their validation examples."""

import random
from dataclasses import replace

import numpy as np
import pytest

from ampspec.api.study_requests import PrecisionOptions
from ampspec.jobs import State
from ampspec.studies.plan import JobResult, StudyContext
from ampspec.studies.precision.example_results import ExampleResults
from ampspec.studies.precision.precision import PrecisionKind
from ampspec.telemetry.validation_examples import write_examples

SPEC = {
    "model": {"kind": "mlp", "hidden": [8]},
    "data": {"kind": "csv", "path": "a.csv", "split_seed": 0},
}
ROWS = 2000


def result(outcomes, digest="rows", constant=0.3):
    share = sum(outcomes) / len(outcomes)
    return JobResult(
        "j",
        State.SUCCEEDED,
        metrics={"val_accuracy": share},
        summary={"constant_metrics": {"val_accuracy": constant}},
        examples=ExampleResults(
            len(outcomes), digest, {"val_accuracy": outcomes}, {"val_accuracy": share}
        ),
        split_seed=0,
    )


def answer(results, document=SPEC, **options):
    seeds = len(results) // 2
    question = StudyContext(document, PrecisionOptions(seeds=seeds, **options), ("mixed_bfloat16",))
    return PrecisionKind().answer(question, results)


def study(change, *, right=0.9, seeds=3, digests=("rows",) * 3, constant=0.3):
    """Trainings that differ in 1 % of the examples; the policy has `change` of them wrong more."""
    chance = random.Random(1)
    always = [float(chance.random() < right) for _ in range(ROWS)]
    results = {}
    for seed in range(seeds):
        for policy, lost in (("float32", 0.0), ("mixed_bfloat16", change)):
            outcomes = [
                0.0
                if chance.random() < lost
                else 1.0 - correct
                if chance.random() < 0.01
                else correct
                for correct in always
            ]
            results[f"{policy}/seed-{seed}"] = result(outcomes, digests[seed], constant)
    return results


def test_the_same_rows_are_named_in_the_answer():
    policy_answer = answer(study(0.0))
    assert (policy_answer.rows.count, policy_answer.rows.split_seed, policy_answer.rows.digest) == (
        ROWS,
        0,
        "rows",
    )
    assert (
        "all evaluated on the same 2,000 rows (split_seed 0)"
        in policy_answer.policies[0].explanation
    )
    assert policy_answer.policies[1].verdict == "equal"
    assert 0.005 < policy_answer.policies[1].changed_examples < 0.03
    assert (policy_answer.margin, policy_answer.confidence) == (0.01, 0.96)


def test_a_policy_that_loses_2_of_100_examples_is_worse():
    assert answer(study(0.02)).policies[1].verdict == "worse"


def test_rows_that_differ_between_the_seeds_are_not_compared_by_example():
    policy_answer = answer(study(0.0, digests=("a", "b", "c")))
    assert policy_answer.rows is None
    assert policy_answer.policies[1].changed_examples is None
    assert "Only the means of the seeds are compared" in policy_answer.policies[1].explanation


def test_examples_whose_mean_is_not_the_metric_are_not_compared():
    """As of a loss that has the regularization of the weights besides that of the examples."""
    results = study(0.0)
    broken = results["mixed_bfloat16/seed-1"]
    results["mixed_bfloat16/seed-1"] = JobResult(
        "j", State.SUCCEEDED, metrics={"val_accuracy": 0.5}, examples=broken.examples
    )
    assert "Only the means" in answer(results).policies[1].explanation


@pytest.mark.parametrize("change", [0.0, 0.05])
def test_where_float32_is_at_chance_nothing_is_compared(change):
    policy_answer = answer(study(change, right=0.3, constant=0.31))
    assert [policy.verdict for policy in policy_answer.policies] == ["equal", "cannot tell"]
    assert policy_answer.policies[1].difference is None
    assert policy_answer.recommended == "float32"
    assert policy_answer.summary.startswith("Cannot tell: float32 did not learn: val_accuracy 0.29")
    assert ", the largest class has 0.31. Train longer" in policy_answer.summary


def test_an_accuracy_above_chance_has_learned_although_its_loss_is_worse_than_constant():
    """As of a network that is sure of its few mistakes."""
    results = study(0.0)
    for key, one in results.items():
        constants = {"val_accuracy": 0.3, "val_loss": 1.2}
        results[key] = JobResult(
            "j",
            State.SUCCEEDED,
            metrics={**one.metrics, "val_loss": 3.0},
            summary={"constant_metrics": constants},
            examples=one.examples,
        )
    assert answer(results, metric="val_accuracy").policies[1].verdict == "equal"


def test_a_metric_with_an_example_that_is_not_finite_is_left_out(tmp_path):
    rows, losses = np.arange(3), np.array([0.5, np.nan, 1.0])
    file = write_examples(tmp_path, rows, {"loss": losses, "accuracy": np.ones(3)})
    assert set(ExampleResults.from_table(file.read_bytes()).values) == {"val_accuracy"}


def test_many_examples_are_kept_as_the_means_of_groups_of_the_same_size(tmp_path):
    rows = np.arange(10_001)
    file = write_examples(tmp_path, rows, {"loss": rows / 10_000})
    results = ExampleResults.from_table(file.read_bytes())
    assert len(results.values["val_loss"]) == 3333
    assert results.values["val_loss"][1] == pytest.approx(4 / 10_000)
    assert results.means["val_loss"] == pytest.approx(0.5)


@pytest.mark.parametrize("constants", [None, "0.3", {"val_accuracy": "0.3"}, {"val_accuracy": {}}])
def test_what_a_job_reports_as_constant_metrics_need_not_be_numbers(constants):
    """A trainer in a sandbox may report anything."""
    results = {
        key: replace(one, summary={"constant_metrics": constants})
        for key, one in study(0.0).items()
    }
    assert answer(results).constant is None


def test_what_would_settle_it_is_a_number_of_seeds_or_of_rows():
    found = answer(study(0.005, seeds=2)).policies[1]
    assert found.verdict == "cannot tell"
    assert found.needs_examples > ROWS
    assert f"about {found.needs_examples:,} validation rows" in found.explanation


def test_jobs_of_a_study_of_an_older_version_keep_the_rows_of_their_seed():
    """Its document has no split_seed; jobs that are still to come pair with those that ended."""
    old = {**SPEC, "data": {"kind": "csv", "path": "a.csv"}, "train": {"seed": 4}}
    question = StudyContext(old, PrecisionOptions(), ("mixed_bfloat16",))
    jobs = PrecisionKind().jobs(question, {})
    splits = [job.document(question, "s")["data"]["split_seed"] for job in jobs]
    assert splits == [4, 4, 5, 5, 6, 6]
    new = StudyContext(SPEC, PrecisionOptions(), ("mixed_bfloat16",))
    jobs = PrecisionKind().jobs(new, {})
    assert {job.document(new, "s")["data"]["split_seed"] for job in jobs} == {0}


def test_a_result_is_read_back_as_it_was_stored():
    one = study(0.0)["float32/seed-0"]
    stored = JobResult.from_json(one.to_json())
    assert replace(stored, losses=()) == one
    without = {name: value for name, value in one.to_json().items() if name != "examples"}
    assert JobResult.from_json(without).examples is None
