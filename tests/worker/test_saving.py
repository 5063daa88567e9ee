"""Whether a trainer still writes its checkpoint, at times of a clock of the test."""

from pathlib import Path

from worker.attempt.saving import MIN_BYTES_PER_S, SavingProgress

WINDOW_S = 10.0


def write(folder: Path, size_bytes: int) -> None:
    (folder / "checkpoint").write_bytes(bytes(size_bytes))


def test_a_trainer_that_writes_gets_more_time_until_it_stops(tmp_path: Path) -> None:
    saving = SavingProgress(WINDOW_S)
    assert not saving.advances(tmp_path, 0.0)
    write(tmp_path, 40 * MIN_BYTES_PER_S)
    assert saving.advances(tmp_path, 8.0)
    assert saving.advances(tmp_path, 17.0)
    assert not saving.advances(tmp_path, 19.0)


def test_code_cannot_gain_time_by_sizes_that_change(tmp_path: Path) -> None:
    saving = SavingProgress(WINDOW_S)
    saving.advances(tmp_path, 0.0)
    for second in range(1, 100):
        write(tmp_path, 4096 * (second % 2))
        if second > WINDOW_S + 1:
            assert not saving.advances(tmp_path, float(second))
        else:
            saving.advances(tmp_path, float(second))


def test_code_cannot_gain_time_by_writing_slowly_or_by_a_hole(tmp_path: Path) -> None:
    saving = SavingProgress(WINDOW_S)
    saving.advances(tmp_path, 0.0)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(10**12)
    for second in range(1, 13):
        write(tmp_path, 4096 * second)
        is_advancing = saving.advances(tmp_path, float(second))
    assert not is_advancing
