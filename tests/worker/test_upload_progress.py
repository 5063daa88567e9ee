"""When uploads count as stalled, at times of a clock of the test."""

from worker.transfer.upload_progress import MIN_BYTES_PER_S, PendingUploads, UploadProgress

STALL_S = 10.0


class Clock:
    """Seconds that the test lets pass."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_file_without_reports_has_the_time_of_its_bytes() -> None:
    clock = Clock()
    progress = UploadProgress(STALL_S, clock)
    progress.begin(5 * MIN_BYTES_PER_S)
    clock.now += 14.9
    assert not progress.is_stalled
    clock.now += 0.2
    assert progress.is_stalled
    progress.report(1)
    assert not progress.is_stalled


def test_a_try_that_failed_has_no_more_time_than_silence_may_take() -> None:
    clock = Clock()
    progress = UploadProgress(STALL_S, clock)
    progress.begin(10**12)
    progress.fail()
    clock.now += STALL_S + 1
    assert progress.is_stalled


def test_the_same_bytes_sent_again_are_no_progress() -> None:
    clock = Clock()
    progress = UploadProgress(STALL_S, clock)
    for _ in range(3):
        progress.begin(100)
        progress.report(50)
        progress.fail()
        clock.now += STALL_S - 1
    assert progress.is_stalled


def test_a_file_that_only_lacks_its_row_is_not_stalled() -> None:
    """The database may be away for longer; the storage is not to blame."""
    clock = Clock()
    progress = UploadProgress(STALL_S, clock)
    progress.begin(100)
    progress.sent()
    clock.now += 1000
    assert not progress.is_stalled
    progress.end()
    clock.now += STALL_S + 1
    assert progress.is_stalled


def test_pending_uploads_are_named_with_their_size() -> None:
    pending = PendingUploads(("model.keras", "a", "b"), 1_600_000_000, 200_000)
    assert str(pending) == "model.keras and 2 more files (200.0 kB of 1.6 GB were stored)"
