"""What some tests need besides the installation: tried once, and reported in one way.

`@pytest.mark.needs("chromium")` skips a test at once where Chromium is missing, with the reason and
the command that installs it. With CI=true the test fails instead: CI installs everything, except
what depends on the kernel.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from infra.isolation import landlock, seccomp
from tests import git_history, machines, slurm
from tests.deploy import kubernetes_tools
from worker.trainer import isolation_plan
from worker.trainer.memory_cgroups import CgroupsMissing, find_memory_cgroups
from worker.trainer.sandbox_plan import SandboxMode, SandboxSettings, plan_sandbox

TRAINER_USERS: Final = range(60_940, 60_950)
TMPFS: Final = Path("/dev/shm")
MIRRORS_REMEDY: Final = (
    "pip install --target FOLDER mlflow wandb; export AMPCORE_TEST_MIRROR_PACKAGES=FOLDER"
)
SYSTEM_PYTHON: Final = "use a Python that other users can run: make PYTHON=/usr/bin/python3"
CONTAINER_PROGRAMS: Final = {
    "podman": "podman",
    "buildah": "buildah",
    "runc": "runc",
    "netavark": "netavark",
    "aardvark-dns": "aardvark-dns",
    "catatonit": "catatonit",  # init: true
    "iptables": "iptables",  # published ports
    "debootstrap": "debootstrap",
    "fuse-overlayfs": "fuse-overlayfs",
}
"""Each program that the tests in containers run, and its Debian package."""


@dataclass(frozen=True)
class Need:
    """Something that a machine may lack."""

    find_problem: Callable[[], str | None]
    """Tries it; returns why it does not work, or None."""
    remedy: str
    """The command that installs it, or what else to do."""
    may_lack_in_ci: bool = False
    """Nothing can be installed for it: its tests are skipped in CI, too."""


def _problem_of_program(name: str) -> Callable[[], str | None]:
    return lambda: None if shutil.which(name) else f"the program {name} is not installed"


def _problem_of_slurm() -> str | None:
    if os.geteuid() != 0:
        return "Slurm's daemons run as root here"
    missing = [name for name in slurm.PROGRAMS if shutil.which(name) is None]
    return f"these programs are not installed: {' '.join(missing)}" if missing else None


def _problem_of_kubernetes_tools() -> str | None:
    names = ("helm", "kubectl")
    missing = [name for name in names if kubernetes_tools.find_program(name) is None]
    return f"these programs are not installed: {' '.join(missing)}" if missing else None


def _problem_of_git_history() -> str | None:
    missing = git_history.commit_with_schema(git_history.SCHEMA_BEFORE) is None
    return f"there is no commit with revision {git_history.SCHEMA_BEFORE}" if missing else None


def _problem_of_onnx() -> str | None:
    missing = [name for name in ("tf2onnx", "onnx", "onnxruntime") if find_spec(name) is None]
    return f"these libraries are not installed: {' '.join(missing)}" if missing else None


def packages_of_mirrors() -> str:
    """The folder with mlflow and wandb, which are not part of the development environment."""
    return os.environ.get("AMPCORE_TEST_MIRROR_PACKAGES", "")


def _problem_of_mirrored_tool(package: str) -> Callable[[], str | None]:
    def find_problem() -> str | None:
        folder = packages_of_mirrors()
        if find_spec(package) or (folder and Path(folder, package).is_dir()):
            return None
        return f"the package {package} is not installed"

    return find_problem


def _problem_of_root() -> str | None:
    return None if os.geteuid() == 0 else "the tests do not run as root"


def _problem_of_other_users() -> str | None:
    if isolation_plan.can_run_as(TRAINER_USERS):
        return None
    return "only root with its capabilities can start processes as other users"


def _problem_of_python_for_other_users() -> str | None:
    closed = isolation_plan.closed_to_others(isolation_plan.program_folders())
    return closed and f"Python is in a folder that other users cannot enter: {closed}"


def _problem_of_landlock(abi: int, linux: str) -> Callable[[], str | None]:
    problem = f"this kernel has no Landlock {abi} (added in Linux {linux})"
    return lambda: None if landlock.abi() >= abi else problem


def _problem_of_seccomp() -> str | None:
    return None if seccomp.is_supported() else "it needs Linux on x86-64 or ARM64, with seccomp"


def _problem_of_sandbox(mode: SandboxMode) -> Callable[[], str | None]:
    def find_problem() -> str | None:
        with tempfile.TemporaryDirectory(prefix="ampcore-needs-") as name:
            folder = Path(name)
            folder.chmod(0o755)
            plan = plan_sandbox(
                SandboxSettings(mode),
                users=TRAINER_USERS,
                parent=folder / "data" / "scratch" / "worker",
                datasets=folder / "datasets",
            )
        return None if plan.sandbox is not None else " ".join(plan.missing)

    return find_problem


def _problem_of_chromium() -> str | None:
    from dashboard.browser import BrowserNotFound, chromium

    try:
        with chromium():
            return None
    except BrowserNotFound as error:
        return str(error)


def _problem_of_user_namespaces() -> str | None:
    if (unshare := shutil.which("unshare")) is None:
        return "the program unshare is not installed"
    tried = subprocess.run([unshare, "-rm", "true"], capture_output=True, text=True, check=False)
    return tried.stderr.strip() if tried.returncode else None


def _problem_of_network_namespaces() -> str | None:
    return None if machines.are_possible() else "network namespaces cannot be made and connected"


def _problem_of_memory_cgroups() -> str | None:
    try:
        find_memory_cgroups()
    except CgroupsMissing as error:
        return str(error)
    return None


def _problem_of_second_file_system() -> str | None:
    return None if TMPFS.is_dir() else f"there is no file system at {TMPFS}"


def missing_container_packages() -> list[str]:
    """The Debian packages to install before containers can run here."""
    folders = os.pathsep.join(
        [os.environ.get("PATH", ""), "/usr/sbin", "/usr/lib/podman", "/usr/libexec/podman"]
    )
    return [
        package
        for program, package in CONTAINER_PROGRAMS.items()
        if shutil.which(program, path=folders) is None
    ]


def _problem_of_containers() -> str | None:
    if os.geteuid() != 0:
        return "containers with networks of their own need root"
    if packages := missing_container_packages():
        return f"these packages are not installed: {' '.join(packages)}"
    return _problem_of_network_namespaces()


NEEDS: Final = {
    "bubblewrap": Need(_problem_of_sandbox(SandboxMode.BUBBLEWRAP), "apt install bubblewrap"),
    "chromium": Need(_problem_of_chromium, "apt install chromium"),
    "containers": Need(
        _problem_of_containers,
        f"as root: apt install {' '.join(CONTAINER_PROGRAMS.values())} iproute2",
    ),
    "curl": Need(_problem_of_program("curl"), "apt install curl"),
    "git history": Need(_problem_of_git_history, "git fetch --unshallow", may_lack_in_ci=True),
    "helm": Need(_problem_of_kubernetes_tools, kubernetes_tools.INSTALL),
    "landlock": Need(_problem_of_landlock(1, "5.13"), "use a newer kernel"),
    "landlock for TCP": Need(_problem_of_landlock(landlock.TCP_ABI, "6.7"), "use a newer kernel"),
    "landlock for signals": Need(
        _problem_of_landlock(landlock.SCOPES_ABI, "6.12"), "use a newer kernel"
    ),
    "landlock sandbox": Need(_problem_of_sandbox(SandboxMode.LANDLOCK), SYSTEM_PYTHON),
    "memory cgroups": Need(
        _problem_of_memory_cgroups,
        "run the tests as root in a cgroup that is delegated to them",
        may_lack_in_ci=True,
    ),
    "mlflow": Need(_problem_of_mirrored_tool("mlflow"), MIRRORS_REMEDY),
    "mpiexec": Need(_problem_of_program("mpiexec.openmpi"), "apt install openmpi-bin"),
    "network namespaces": Need(_problem_of_network_namespaces, "as root: apt install iproute2"),
    # An optional extra, which an older environment may lack.
    "onnx": Need(_problem_of_onnx, "make install, for the extra onnx"),
    "other users": Need(_problem_of_other_users, "run the tests as root"),
    "promtool": Need(_problem_of_program("promtool"), "apt install prometheus"),
    "python for other users": Need(_problem_of_python_for_other_users, SYSTEM_PYTHON),
    "root": Need(_problem_of_root, "run the tests as root"),
    "sandbox": Need(_problem_of_sandbox(SandboxMode.AUTO), "apt install bubblewrap"),
    "seccomp": Need(_problem_of_seccomp, "use another machine"),
    "second file system": Need(_problem_of_second_file_system, f"mount a tmpfs at {TMPFS}"),
    "slurm": Need(_problem_of_slurm, f"as root: apt install {slurm.PACKAGES}"),
    "user namespaces": Need(_problem_of_user_namespaces, "apt install util-linux"),
    "wandb": Need(_problem_of_mirrored_tool("wandb"), MIRRORS_REMEDY),
}

NEEDS_OF_FOLDERS: Final = {
    Path(__file__).parent / "containers": "containers",
    Path(__file__).parent / "deploy": "helm",
    Path(__file__).parent / "e2e" / "dashboard": "chromium",
}
"""What each test below a folder needs."""
SANDBOX_NEEDS: Final = {
    SandboxMode.AUTO: "sandbox",
    SandboxMode.BUBBLEWRAP: "bubblewrap",
    SandboxMode.LANDLOCK: "landlock sandbox",
}


@cache
def problem_of(name: str) -> str | None:
    """Why the machine lacks what a test needs, with the remedy; None: it is there."""
    need = NEEDS[name]
    problem = need.find_problem()
    return problem and f"needs {name}: {problem.rstrip('.')}. To run this test: {need.remedy}"


def require(*names: str) -> None:
    """Skip the test, or fail it in CI, unless this machine has everything."""
    for name in names:
        if (problem := problem_of(name)) is None:
            continue
        if os.environ.get("CI") == "true" and not NEEDS[name].may_lack_in_ci:
            pytest.fail(problem, pytrace=False)
        pytest.skip(problem)


def require_for(item: pytest.Item) -> None:
    """`require` what a test needs, by its marks and its folder; called before its fixtures."""
    for mark in item.iter_markers("needs"):
        require(*mark.args)
    for folder, name in NEEDS_OF_FOLDERS.items():
        if folder in item.path.parents:
            require(name)
