from hypothesis import given
from hypothesis import strategies as st

from ampspec.jobs import Reason
from store.jobs.resume_point import ResumePoint
from store.jobs.retries import BACKOFF_BY_REASON, final_failure_advice, wait_s
from tests.tables import every_row


@given(st.sampled_from(Reason), st.integers(1, 5000), st.integers(1, 100))
def test_a_failure_is_retried_if_its_reason_and_the_count_allow_it(reason, failures, max_failures):
    wait = wait_s(reason, failures, max_failures)
    assert (wait is not None) == (reason in BACKOFF_BY_REASON and failures < max_failures)
    assert (
        wait is None
        or BACKOFF_BY_REASON[reason].first_s <= wait <= BACKOFF_BY_REASON[reason].longest_s
    )


def test_the_backoff_doubles_with_each_failure_up_to_a_maximum():
    waits = [wait_s(Reason.PROCESS_KILLED, failures, 100) for failures in (1, 2, 3, 4, 99)]
    assert waits == [5.0, 10.0, 20.0, 40.0, 300.0]


@every_row("reason", [Reason.OUT_OF_MEMORY, Reason.INVALID_DATA, Reason.INVALID_SPEC])
def test_a_permanent_failure_is_not_retried(reason):
    assert wait_s(reason, 1, 100) is None
    assert final_failure_advice(reason, 1, ResumePoint(0, None)) == ""
