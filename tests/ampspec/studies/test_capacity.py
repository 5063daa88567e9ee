"""The search for the largest batch, with jobs whose end a test decides."""

import pytest

from ampspec.api.study_requests import CapacityOptions
from ampspec.jobs import Reason, State
from ampspec.studies.capacity.batch_search import size_of_key
from ampspec.studies.capacity.capacity import CapacityKind
from ampspec.studies.capacity.memory_model import PROCESS_BYTES
from ampspec.studies.plan import JobResult, NoAnswer, StudyContext

SPEC = {"model": {"kind": "mlp", "hidden": [8]}, "data": {"kind": "digits", "batch_size": 64}}
ALL_EXAMPLES = 1437
"""The training examples of the digits."""
KIND = CapacityKind()


def ended(size, largest, *, reason=Reason.OUT_OF_MEMORY):
    if size <= largest:
        return JobResult(f"job-{size}", State.SUCCEEDED)
    return JobResult(f"job-{size}", State.FAILED, reason=reason, message="no more")


def search(end, *, spec=SPEC, device="gpu", memory=2**20, limit=None, **options):
    """The keys that a search asks for, one after another, and its question and results.

    `end` gives the result of a key.
    """
    question = StudyContext(
        spec,
        CapacityOptions(policies=["mixed_float16"], **options),
        ("mixed_float16",),
        device,
        memory,
        limit,
    )
    results = {}
    while keys := [job.key for job in KIND.jobs(question, results) if job.key not in results]:
        results |= {key: end(key) for key in keys}
    return results, question


def answer(end, **more):
    results, question = search(end, **more)
    found = KIND.answer(question, results)
    return [size_of_key(key) for key in results], found.policies[0], found.summary


@pytest.mark.parametrize("largest", [1, 2, 4, 8, 16, 264, 1000, 1424])
def test_the_search_finds_the_largest_size_and_the_smallest_that_fails(largest):
    sizes, policy, _ = answer(lambda key: ended(size_of_key(key), largest), resolution=0)
    assert policy.largest_batch == largest
    assert policy.smallest_failed == (2 * largest if largest < 8 else largest + 8)
    assert policy.limited_by == "memory"
    assert len(sizes) <= 24


def test_the_search_starts_below_the_estimate_and_grows():
    sizes, policy, _ = answer(lambda key: ended(size_of_key(key), 10_000))
    assert sizes[0] == 64
    assert sizes[0] <= policy.predicted / 8
    assert sizes[:4] == sorted(sizes[:4])
    assert (policy.largest_batch, policy.limited_by) == (1432, "data")


def test_a_large_batch_of_the_spec_is_not_the_first_one_tried():
    spec = {**SPEC, "data": {"kind": "digits", "batch_size": 1400}}
    sizes, _, _ = answer(lambda key: ended(size_of_key(key), 100), spec=spec, memory=60_000)
    assert sizes[0] < 200


def test_the_search_stops_close_enough():
    _, policy, _ = answer(lambda key: ended(size_of_key(key), 500), resolution=0.1)
    assert policy.largest_batch <= 500 < policy.smallest_failed
    assert policy.smallest_failed - policy.largest_batch <= 0.1 * policy.largest_batch


def test_the_largest_size_is_confirmed_by_a_second_job():
    def end(key):
        size = size_of_key(key)
        return ended(size, 256 if key.endswith("/confirm") else 512)

    _, policy, _ = answer(end, resolution=0.5)
    assert policy.largest_batch <= 256
    assert "ran in one job and failed in another" in policy.explanation


def test_a_half_that_fails_counts_although_larger_sizes_ran():
    def end(key):
        size = size_of_key(key)
        return ended(size, 0 if 60 < size < 140 else 10_000)

    spec = {**SPEC, "data": {"kind": "digits", "batch_size": 32}}
    _, policy, _ = answer(end, spec=spec, max_batch=256)
    assert policy.largest_batch < 140
    assert policy.limited_by == "memory"


def test_not_even_one_example_fits():
    sizes, policy, summary = answer(lambda key: ended(size_of_key(key), 0))
    assert sizes[-1] == 1
    assert (policy.largest_batch, policy.smallest_failed) == (None, 1)
    assert policy.explanation == "Not even a batch of 1 example fits."
    assert "not even 1 example" in summary


def test_crashes_beyond_the_estimate_count_as_too_little_memory():
    def end(key):
        return ended(size_of_key(key), 128, reason=Reason.PROCESS_KILLED)

    results, question = search(end, memory=12_000)
    policy = KIND.answer(question, results).policies[0]
    assert policy.predicted < 128
    assert not [key for key in results if key.endswith("/again")]
    assert 96 < policy.largest_batch <= 128 < policy.smallest_failed
    assert "beyond the estimate" in policy.explanation


def test_a_crash_within_the_estimate_is_tried_again():
    crashed = set()

    def end(key):
        size = size_of_key(key)
        if size == 256 and not key.endswith("/again"):
            crashed.add(key)
            return ended(size, 0, reason=Reason.PROCESS_KILLED)
        return ended(size, 10_000)

    sizes, policy, _ = answer(end, memory=2**30)
    assert crashed
    assert sizes.count(256) == 2
    assert (policy.largest_batch, policy.limited_by) == (1432, "data")


def test_two_crashes_within_the_estimate_count_if_smaller_sizes_ran():
    _, policy, _ = answer(
        lambda key: ended(size_of_key(key), 300, reason=Reason.PROCESS_KILLED), memory=2**30
    )
    assert policy.largest_batch <= 300 < policy.smallest_failed
    assert "counts as out of memory" in policy.explanation


def test_there_is_no_answer_if_all_jobs_crash():
    results, question = search(
        lambda key: ended(size_of_key(key), 0, reason=Reason.PROCESS_KILLED), memory=2**30
    )
    with pytest.raises(NoAnswer, match=r"process_killed\): no more"):
        KIND.answer(question, results)


@pytest.mark.parametrize(
    "reason", [Reason.INTERNAL_ERROR, Reason.CODE_FAILED, Reason.RESOURCE_LIMIT]
)
def test_other_failures_are_no_answer(reason):
    results, question = search(lambda key: ended(size_of_key(key), 0, reason=reason))
    assert len(results) == 1
    with pytest.raises(NoAnswer, match=rf"\({reason}\): no more"):
        KIND.answer(question, results)


@pytest.mark.parametrize(
    ("reason", "limited_by"), [(Reason.CODE_FAILED, "failure"), (Reason.TIMEOUT, "time")]
)
def test_a_failure_after_sizes_that_ran_leaves_the_largest_open(reason, limited_by):
    _, policy, summary = answer(lambda key: ended(size_of_key(key), 256, reason=reason))
    assert (policy.largest_batch, policy.limited_by) == (256, limited_by)
    assert "whether a larger one does is not known" in policy.explanation
    assert "at least 256" in summary


def test_a_policy_that_overflows_has_enough_memory_and_the_answer_says_so():
    diverged = JobResult("j", State.FAILED, reason=Reason.NON_FINITE_RESULT)
    _, policy, _ = answer(lambda key: diverged, max_batch=64)
    assert (policy.largest_batch, policy.limited_by) == (64, "max_batch")
    assert "diverges: job j is failed (non_finite_result)" in policy.explanation


def test_a_machine_that_no_limit_protects_is_not_filled():
    sizes, policy, summary = answer(
        lambda key: JobResult("j", State.SUCCEEDED), device="cpu", memory=100_000
    )
    assert max(sizes) == policy.predicted == policy.largest_batch < ALL_EXAMPLES
    assert policy.limited_by == "estimate"
    assert "≈" in summary
    assert "AMPCORE_TRAINER_MEMORY_BYTES" in policy.explanation


def test_peaks_that_grow_faster_than_the_estimate_stop_the_search_earlier():
    def end(key):
        size = size_of_key(key)
        return JobResult("j", State.SUCCEEDED, summary={"peak_memory_bytes": 10**7 * size})

    sizes, policy, _ = answer(end, device="cpu", memory=4 * 10**9)
    assert max(sizes) <= 360
    assert policy.limited_by == "estimate"


def test_under_a_limit_of_trainers_the_search_goes_beyond_the_estimate():
    limit = PROCESS_BYTES + 10_000
    sizes, policy, _ = answer(
        lambda key: ended(size_of_key(key), 700), device="cpu", memory=64 * 2**30, limit=limit
    )
    assert policy.predicted < 700
    assert sizes[0] <= 64
    assert 600 < policy.largest_batch <= 700 < policy.smallest_failed


def test_a_question_without_limits_knows_no_memory():
    options = CapacityOptions()
    assert StudyContext(SPEC, options, (), "cpu", None, None).step_memory_bytes is None
    assert StudyContext(SPEC, options, (), "cpu", 2**40, 2**31).step_memory_bytes == 2**30
    assert StudyContext(SPEC, options, (), "gpu", 2**40, 2**31).step_memory_bytes == 2**40
    assert StudyContext(SPEC, options, (), "cpu", 2**40, 2**20).step_memory_bytes == 0
