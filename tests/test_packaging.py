"""Lock files pin every dependency with hashes, and the wheel contains the whole packages."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import ampcore
from tests.tables import every_row
from tests.waiting import DEADLINE_S

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))
SHIPPED_LOCKS = ["server.lock", "worker-cpu.lock", "worker-gpu.lock"]
EXTRAS = {name: [name.removesuffix(".lock"), "s3", "traces"] for name in SHIPPED_LOCKS}
EXTRAS["server.lock"].append("oidc")
EXTRAS["dev.lock"] = ["server", "worker-cpu", "s3", "oidc", "traces", "dev", "bench"]

PIN = re.compile(r"^[a-z0-9._-]+(\[[a-z0-9,._-]+\])?==[^\s;]+( ; [^\\]+)?$", re.IGNORECASE)
HASH = re.compile(r"^--hash=sha256:[0-9a-f]{64}$")


def logical_lines(lock: Path) -> Iterator[str]:
    """The lock's lines without comments, with continued lines joined."""
    text = re.sub(r"\\\n\s*", "\t", lock.read_text())
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line


def test_the_expected_lock_files_exist() -> None:
    assert [lock.name for lock in LOCKS] == [
        "dev.lock",
        "sbom.lock",
        *SHIPPED_LOCKS[:1],
        "uv.lock",
        *SHIPPED_LOCKS[1:],
    ]


@every_row("lock", LOCKS)
def test_a_lock_contains_only_exact_versions_with_hashes(lock: Path) -> None:
    requirements = [line.split("\t") for line in logical_lines(lock)]
    assert requirements
    for pin, *hashes in requirements:
        assert PIN.match(pin.strip()), pin
        assert hashes, f"{pin} has no hash"
        assert all(HASH.match(one.strip()) for one in hashes), pin


@every_row("lock", LOCKS)
def test_a_lock_contains_no_index_and_no_url(lock: Path) -> None:
    text = lock.read_text()
    assert "://" not in text
    assert not re.search(r"^\s*(#\s*)?--(index|extra-index|find-links|trusted-host)", text, re.M)


@every_row("lock", LOCKS)
def test_a_lock_satisfies_its_requirements(lock: Path) -> None:
    pins = dict(line.split("\t")[0].split(";")[0].split("==") for line in logical_lines(lock))
    for requirement in map(Requirement, requirements_of(lock)):
        pinned = pins.get(canonicalize_name(requirement.name))
        assert pinned is not None, f"{requirement} is not in the lock; run `make lock`"
        assert requirement.specifier.contains(pinned.strip()), f"{requirement}: {pinned}"


def requirements_of(lock: Path) -> list[str]:
    """What a lock pins: the project's libraries, or those of a file of its own."""
    if (source := lock.with_suffix(".in")).exists():
        return list(logical_lines(source))
    extras = PROJECT["project"]["optional-dependencies"]
    required = list(PROJECT["project"]["dependencies"])
    return required + [one for extra in EXTRAS[lock.name] for one in extras[extra]]


@pytest.mark.parametrize("name", SHIPPED_LOCKS)
def test_a_lock_contains_setuptools(name: str) -> None:
    names = {line.partition("==")[0] for line in logical_lines(ROOT / "requirements" / name)}
    assert "setuptools" in names  # the project is built without isolation


def test_the_lock_of_the_dashboard_contains_hashes_and_no_urls() -> None:
    packages = json.loads((ROOT / "dashboard/package-lock.json").read_text())["packages"]
    libraries = {name: package for name, package in packages.items() if name}
    assert libraries
    for name, package in libraries.items():
        assert package["integrity"].startswith("sha512-"), name
        assert "resolved" not in package, name


def test_the_version_is_the_same_everywhere() -> None:
    newest = re.search(r"^## (\d\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert PROJECT["project"]["version"] == ampcore.__version__ == newest[1]


def shipped_files() -> set[str]:
    """Every file of the packages in the tree."""
    return {
        str(file.relative_to(ROOT))
        for package in package_dirs()
        for file in package.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def package_dirs() -> list[Path]:
    return [
        folder
        for folder in ROOT.iterdir()
        if folder.is_dir()
        and not folder.name.endswith(".egg-info")
        and any(fnmatch(folder.name, pattern) for pattern in PACKAGES)
    ]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names in a wheel that was built from a copy of the tree."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for package in package_dirs():
        shutil.copytree(
            package, source / package.name, ignore=shutil.ignore_patterns("__pycache__")
        )
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-build-isolation", f"--wheel-dir={target}", str(source)]
    subprocess.run(command, check=True, timeout=DEADLINE_S)
    (file,) = target.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        return set(archive.namelist())


def test_the_wheel_contains_every_file_of_the_packages(wheel: set[str]) -> None:
    missing = shipped_files() - wheel
    assert not missing


def test_the_wheel_contains_data_files(wheel: set[str]) -> None:
    assert "ampcore/data/digits.npz" in wheel
    assert "migrations/script.py.mako" in wheel
    assert any(fnmatch(name, "migrations/versions/0*.py") for name in wheel)


def test_the_wheel_contains_only_the_packages(wheel: set[str]) -> None:
    folders = {name.partition("/")[0] for name in wheel}
    expected = {folder.name for folder in package_dirs()}
    assert folders - expected == {f"ampcore-{ampcore.__version__}.dist-info"}


def test_a_folder_with_the_name_of_the_package_does_not_shadow_it(tmp_path):
    # For a script next to a clone named ampcore, that folder comes first on the import path.
    (tmp_path / "ampcore").mkdir()
    code = "from ampclient import Client; from ampcore import JobSpec; print(JobSpec, Client)"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


def test_uv_has_the_version_of_the_development_environment() -> None:
    [uv] = [line.split("\t")[0].strip() for line in logical_lines(ROOT / "requirements/uv.lock")]
    assert uv in [line.split("\t")[0].strip() for line in logical_lines(LOCKS[0])]


PYTHON = """#!/bin/sh
echo "python $*" >> "{log}"
case "$*" in
    *--target*) {uv} ;;
esac
"""
INSTALL_UV = """
    for word; do [ "$previous" = --target ] && folder=$word; previous=$word; done
    mkdir -p "$folder/bin"
    printf '#!/bin/sh\\necho "uv $*" >> "{log}"; exit {code}' > "$folder/bin/uv"
    chmod +x "$folder/bin/uv"
"""


@pytest.mark.parametrize(
    ("uv", "programs"),
    [
        (INSTALL_UV.replace("{code}", "0"), ["python", "uv"]),
        (INSTALL_UV.replace("{code}", "1"), ["python", "uv", "python"]),
        ("exit 1", ["python", "python"]),
    ],
    ids=["uv works", "uv fails", "uv cannot be installed"],
)
def test_libraries_are_installed_with_uv_else_with_pip(
    tmp_path: Path, uv: str, programs: list[str]
) -> None:
    log = tmp_path / "commands"
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text(PYTHON.replace("{uv}", uv).replace("{log}", str(log)))
    python.chmod(0o755)
    script = ["sh", "requirements/install.sh", str(tmp_path), "a.lock", "--require-hashes"]
    subprocess.run(script, cwd=ROOT, check=True, capture_output=True)
    commands = [line.split() for line in log.read_text().splitlines()]
    assert [command[0] for command in commands] == programs
    assert commands[0][-2:] == ["-r", "requirements/uv.lock"]
    assert all(command[-3:] == ["-r", "a.lock", "--require-hashes"] for command in commands[1:])
