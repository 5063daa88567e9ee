"""Memory cgroups of trainers: where they are made, and that the kernel enforces them.

The files of version 2 are those of a folder here: the memory controller of the test's machine may
belong to version 1. `tests/worker/test_sandbox.py` exceeds the limit of a real one.
"""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import DEADLINE_S
from worker.trainer.isolation_plan import available_memory_bytes
from worker.trainer.memory_cgroups import (
    DELEGATED,
    PREFIX,
    SERVICE,
    CgroupsMissing,
    MemoryCgroups,
    _move_processes,
    _remove_left,
    find_memory_cgroups,
    locate,
)
from worker.trainer.oom_kills import OomKillCounter

MIB = 2**20


class System:
    """The files of a system with cgroups of version 2."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.mount = folder / "proc", folder / "cgroup"

    def add(self, path: str, *, controllers: str = "cpu memory", control: str = "memory") -> Path:
        (self.proc / "self").mkdir(parents=True, exist_ok=True)
        (self.proc / "self" / "cgroup").write_text(f"0::{path}\n")
        cgroup = self.mount / path.lstrip("/")
        cgroup.mkdir(parents=True, exist_ok=True)
        (cgroup / "cgroup.controllers").write_text(controllers)
        (cgroup / "cgroup.subtree_control").write_text(control)
        return cgroup

    def locate(self) -> MemoryCgroups:
        return locate(self.proc, self.mount)


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path)


@pytest.fixture
def delegate(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Marks a cgroup as systemd does; not every file system has such marks for users."""
    delegated: set[Path] = set()

    def read_mark(path: Path, name: str) -> bytes:
        if path in delegated and name == DELEGATED[0]:
            return b"1"
        raise OSError(errno.ENODATA, name)

    monkeypatch.setattr(os, "getxattr", read_mark)
    return delegated.add


def test_a_container_makes_them_in_its_own_cgroup(system: System) -> None:
    cgroup = system.add("/")
    assert system.locate() == MemoryCgroups(cgroup, version=2)


def test_a_delegated_cgroup_enables_the_controller_for_its_children(
    system: System, delegate: Callable[[Path], None]
) -> None:
    cgroup = system.add("/system.slice/worker.service", control="")
    delegate(cgroup)
    assert system.locate() == MemoryCgroups(cgroup, version=2)
    assert (cgroup / "cgroup.subtree_control").read_text() == "+memory"


def test_a_worker_whose_processes_were_moved_makes_them_beside(
    system: System, delegate: Callable[[Path], None]
) -> None:
    cgroup = system.add("/system.slice/worker.service")
    delegate(cgroup)
    system.add(f"/system.slice/worker.service/{SERVICE}", controllers="")
    assert system.locate() == MemoryCgroups(cgroup, version=2)


def test_the_memory_is_that_of_the_smallest_cgroup_above(system: System) -> None:
    """Once the worker's processes are in a leaf, the limit of the container is above it."""
    container = system.add("/")
    service = system.add(f"/{SERVICE}")
    (container / "memory.max").write_text(str(512 * MIB))
    (service / "memory.max").write_text("max")
    (service / "memory.events").touch()
    assert available_memory_bytes(service / "memory.events", system.mount) == 512 * MIB
    (service / "memory.max").write_text(str(256 * MIB))
    assert available_memory_bytes(service / "memory.events", system.mount) == 256 * MIB
    (service / "memory.max").write_text("max")
    (container / "memory.max").write_text("max")
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert available_memory_bytes(service / "memory.events", system.mount) == machine


def test_a_cgroup_that_is_not_delegated_is_left_alone(system: System) -> None:
    cgroup = system.add("/user.slice/session-1.scope", control="")
    with pytest.raises(CgroupsMissing, match=r"not delegated .* Delegate=memory"):
        system.locate()
    assert (cgroup / "cgroup.subtree_control").read_text() == ""


def test_processes_that_cannot_be_moved_are_no_endless_loop(system: System) -> None:
    """A file keeps the process in it, as the kernel does for one of another namespace."""
    cgroup = system.add("/")
    (cgroup / "cgroup.procs").write_text("0\n")
    with pytest.raises(OSError, match="cannot be moved"):
        _move_processes(cgroup, cgroup / SERVICE)


def test_without_the_controller_there_are_none(system: System) -> None:
    system.add("/", controllers="cpu pids")
    with pytest.raises(CgroupsMissing, match="the controller memory is not available"):
        system.locate()


def test_a_system_without_cgroups_has_none(tmp_path: Path) -> None:
    with pytest.raises(CgroupsMissing, match="may not make cgroups"):
        locate(tmp_path, tmp_path)


def test_version_1_uses_the_memory_hierarchy(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("5:cpu:/x\n4:memory:/worker\n0::/\n")
    assert locate(tmp_path, tmp_path) == MemoryCgroups(tmp_path / "memory" / "worker", version=1)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (1, {"memory.limit_in_bytes": "1000"}),
        (2, {"memory.max": "1000", "memory.oom.group": "1"}),
    ],
)
def test_the_limit_is_written_in_the_form_of_each_version(
    tmp_path: Path, version: int, expected: dict[str, str]
) -> None:
    cgroup = MemoryCgroups(tmp_path, version).new(1000)
    assert {file.name: file.read_text() for file in cgroup.path.iterdir()} == expected
    assert cgroup.path.parent == tmp_path
    assert cgroup.events.name == {1: "memory.oom_control", 2: "memory.events"}[version]


def test_cgroups_of_workers_that_were_killed_are_removed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    killed_cgroup, own_cgroup, running_cgroup = (
        tmp_path / name for name in (f"{PREFIX}-{ended.pid}-0", f"{PREFIX}-{os.getpid()}-0", "else")
    )
    for cgroup in (killed_cgroup, own_cgroup, running_cgroup):
        cgroup.mkdir()
    _remove_left(tmp_path)
    assert (killed_cgroup.exists(), own_cgroup.exists(), running_cgroup.exists()) == (
        False,
        True,
        True,
    )


@pytest.mark.needs("memory cgroups")
def test_the_kernel_ends_what_uses_more_and_counts_it() -> None:
    cgroup = find_memory_cgroups().new(64 * MIB)
    try:
        counter = OomKillCounter(cgroup.events)
        program = (
            "import sys, pathlib; pathlib.Path(sys.argv[1], 'cgroup.procs').write_text('0'); "
            "block = b'x' * int(sys.argv[2])"
        )
        codes = [
            subprocess.run(
                [sys.executable, "-c", program, str(cgroup.path), str(size)],
                timeout=DEADLINE_S,
                check=False,
            ).returncode
            for size in (MIB, 512 * MIB)
        ]
        assert codes == [0, -9]
        assert counter.has_increased()
    finally:
        cgroup.close()
    assert not cgroup.path.exists()


@pytest.mark.needs("memory cgroups")
def test_processes_that_are_left_in_a_cgroup_end_with_it() -> None:
    cgroup = find_memory_cgroups().new(2**30)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        (cgroup.path / "cgroup.procs").write_text(str(process.pid))
        cgroup.close()
        assert process.wait(DEADLINE_S) == -9
    assert not cgroup.path.exists()
