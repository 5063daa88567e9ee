from pathlib import Path

from worker.memory_kills import MemoryKills, events_file


def count(file: Path, kills: int) -> None:
    file.write_text(f"low 0\nhigh 0\nmax 7\noom 1\noom_kill {kills}\noom_group_kill 0\n")


def test_a_kill_is_seen_after_the_mark(tmp_path: Path) -> None:
    count(file := tmp_path / "memory.events", 3)
    kills = MemoryKills(file)
    assert not kills.has_risen()
    count(file, 4)
    assert kills.has_risen()


def test_a_look_that_comes_between_kill_and_death_does_not_hide_it(tmp_path: Path) -> None:
    count(file := tmp_path / "memory.events", 3)
    kills = MemoryKills(file, every_s=0.0)
    kills.look()
    count(file, 4)
    kills.look()
    assert kills.has_risen()


def test_a_kill_of_long_ago_was_somebody_elses(tmp_path: Path) -> None:
    count(file := tmp_path / "memory.events", 3)
    kills = MemoryKills(file, every_s=0.0)
    count(file, 4)
    kills.look()
    kills.look()
    assert not kills.has_risen()


def test_without_a_count_nothing_is_claimed(tmp_path: Path) -> None:
    for file in (None, tmp_path / "missing"):
        assert not MemoryKills(file).has_risen()
    (tmp_path / "odd").write_text("what is this\n")
    assert not MemoryKills(tmp_path / "odd").has_risen()


def test_the_file_is_that_of_our_own_group(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("4:memory:/old\n0::/system/worker\n")
    assert events_file(tmp_path, tmp_path / "fs") is None
    folder = tmp_path / "fs" / "system" / "worker"
    folder.mkdir(parents=True)
    count(folder / "memory.events", 0)
    assert events_file(tmp_path, tmp_path / "fs") == folder / "memory.events"


def test_where_there_are_no_groups_there_is_no_file(tmp_path: Path) -> None:
    assert events_file(tmp_path / "no-proc") is None
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("4:memory:/old\n")
    assert events_file(tmp_path) is None
