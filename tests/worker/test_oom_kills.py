from pathlib import Path

from worker.trainer.oom_kills import OomKillCounter, memory_events_file


def count(file: Path, kills: int) -> None:
    file.write_text(f"low 0\nhigh 0\nmax 7\noom 1\noom_kill {kills}\noom_group_kill 0\n")


def test_a_kill_after_the_baseline_is_detected(tmp_path: Path) -> None:
    count(file := tmp_path / "memory.events", 3)
    kills = OomKillCounter(file)
    assert not kills.has_increased()
    count(file, 4)
    assert kills.has_increased()


def test_a_sample_between_kill_and_exit_does_not_hide_the_kill(tmp_path: Path) -> None:
    count(file := tmp_path / "memory.events", 3)
    kills = OomKillCounter(file, interval_s=0.0)
    kills.sample()
    count(file, 4)
    kills.sample()
    assert kills.has_increased()


def test_a_kill_before_the_baseline_does_not_count(tmp_path: Path) -> None:
    count(file := tmp_path / "memory.events", 3)
    kills = OomKillCounter(file, interval_s=0.0)
    count(file, 4)
    kills.sample()
    kills.sample()
    assert not kills.has_increased()


def test_without_a_counter_there_is_no_kill(tmp_path: Path) -> None:
    for file in (None, tmp_path / "missing"):
        assert not OomKillCounter(file).has_increased()
    (tmp_path / "odd").write_text("what is this\n")
    assert not OomKillCounter(tmp_path / "odd").has_increased()


def test_the_file_is_that_of_this_cgroup(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("4:memory:/old\n0::/system/worker\n")
    assert memory_events_file(tmp_path, tmp_path / "fs") is None
    folder = tmp_path / "fs" / "system" / "worker"
    folder.mkdir(parents=True)
    count(folder / "memory.events", 0)
    assert memory_events_file(tmp_path, tmp_path / "fs") == folder / "memory.events"


def test_without_cgroup_v2_there_is_no_file(tmp_path: Path) -> None:
    assert memory_events_file(tmp_path / "no-proc") is None
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("4:memory:/old\n")
    assert memory_events_file(tmp_path) is None
