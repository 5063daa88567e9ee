"""The code blocks of the documents run as written, in order, on a running stack."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

import ampcore
from ampclient._job.job import Job
from ampclient._job.wait import wait_for
from ampspec.jobs import JobSpec, State
from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.xdist_group("stack-documents")

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples" / "custom-package" / "pyproject.toml"
LIBRARY = "docs/reference/library.md"
PLACEHOLDER = re.compile(r"\bID\b")
EXAMPLES = ("examples/digits-float16.yaml", "examples/digits.yaml")
"""The examples that several documents train."""
LONG = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}, "train": {"steps": 1_000_000}}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN_AS_ONE = {
    "docs/recipes.md": "tests/e2e/test_recipes.py",
    "docs/guides/mixed-precision.md": "tests/e2e/test_recipes.py",
}
"""Pages whose blocks run together, and the tests that run them."""
DOCUMENTS = sorted(
    {str(path.relative_to(ROOT)) for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"))}
    - set(RUN_AS_ONE)
)
RUN_BY_OTHER_TESTS = {
    "make demo": "tests/e2e/test_demo.py",
    "make test": ".ci/run",
    'eval "$(ampctl completion bash)"   # in ~/.bashrc': "tests/ampclient/cli/test_completion.py",
    ".venv/bin/ampserver up": "tests/e2e/conftest.py",
    "python -m ampdata birds.zip": "tests/ampdata/test_command.py",
    ".venv/bin/pip install ./examples/custom-package    # on each worker that may run such jobs": (
        "tests/worker/test_packages.py"
    ),
    "python examples/sok/amp_tf2.py": "tests/ampcore/compat/test_ranks.py",
    **dict.fromkeys(
        (
            "# On both machines",
            "# On machine A, once",
            "# On machine A, the server",
            "# On machine A, a worker",
            "# On machine B, a worker",
            "# On machine A, as a user",
            "# On machine A, the attempts of the job",
        ),
        "tests/e2e/test_two_machines.py",
    ),
    "communicator = distributed.connect_from_environment()  # before the first tensor": (
        "tests/ampcore/test_several_ranks_example.py"
    ),
    "cd examples/table": "tests/ampcore/test_example_folders.py",
    "cd examples/bundle": "tests/e2e/test_custom_code.py",
    "cd examples/transfer": "tests/ampcore/test_example_folders.py",
    "ampctl dataset upload shapes": "tests/e2e/test_own_pictures.py",
    # In containers, by `make containers`.
    "(umask 077; printf 'AMPCORE_POSTGRES_PASSWORD=%s\\nAMPCORE_REDIS_PASSWORD=%s\\n' \\": (
        "tests/containers/test_guides.py"
    ),
    "docker compose exec server ampserver token create alice --role admin": (
        "tests/containers/test_guides.py"
    ),
    "docker compose run --rm --no-deps server cat /opt/ampcore/sbom.cdx.json > sbom.cdx.json": (
        "tests/containers/test_guides.py"
    ),
    "docker compose exec -T worker sh -c 'cat > /data/datasets/mnist.npz' < mnist.npz": (
        "tests/containers/test_guides.py"
    ),
    "echo AMPCORE_SITE=train.example.org >> .env": "tests/containers/test_proxy.py",
    "docker compose exec -T postgres pg_dump --username=ampcore --format=custom ampcore > "
    "ampcore.dump": "tests/containers/test_backup.py",
    "docker compose up --detach --wait postgres": "tests/containers/test_backup.py",
    "docker compose stop worker": "tests/containers/test_upgrade.py",
    "echo COMPOSE_FILE=docker-compose.yml:docker-compose.gpu.yml >> .env": "tests/test_compose.py",
    # Several machines, simulated by several processes.
    "export AMPCORE_URL=http://127.0.0.1:8470 AMPCORE_TOKEN=…": "tests/e2e/test_distributed.py",
    "export AMPCORE_DATABASE_URL=postgresql://ampcore:…@db.internal:5432/ampcore": (
        "tests/e2e/test_distributed.py"
    ),
    "ampserver migrate": "tests/e2e/test_distributed.py",
    "AMPCORE_WORKER_SLOTS=1 AMPCORE_WORKER_QUEUES=default,cpu ampserver worker": (
        "tests/e2e/test_distributed.py"
    ),
    "ampctl worker list": "tests/e2e/test_distributed.py",
    **dict.fromkeys(
        ("# slurm.yaml", "# The scheduler of Slurm"), "tests/server/allocations/test_slurm.py"
    ),
    **dict.fromkeys(
        ("# kubernetes.yaml", "# The scheduler of Kubernetes"),
        "tests/server/allocations/test_kubernetes.py",
    ),
    "# scheduler.yaml": "tests/deploy/test_helm_scheduler.py",
    "ampserver worker --job ID": "tests/worker/test_one_job.py",
    # On Kubernetes: with a kubectl and a helm that connect to nothing.
    **dict.fromkeys(
        (
            "docker build --file docker/server.Dockerfile --tag my-registry/ampcore-server:0.6.0 .",
            "# trial.yaml",
            "# Once: the namespace and its Secret",
            "# The release",
            "# In a terminal of its own",
            "# On your machine",
            "# service.yaml",
            "# Once: the Secrets of a service",
            "# The release of a service",
            "# Once the servers run",
            "# Only for a migration that needs a stop",
        ),
        "tests/deploy/test_clusters_guide.py",
    ),
    "ampserver token create alice --role admin": "tests/server/cli",
}
"""Blocks that other tests run, by their first lines, and those tests."""


@dataclass(frozen=True)
class Block:
    """A fenced code block, its language and its position in a document."""

    document: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"

    @property
    def first_line(self) -> str:
        """Identifies the block in RUN_BY_OTHER_TESTS."""
        return self.text.partition("\n")[0].strip()


def blocks_of(root: Path, document: str) -> Iterator[Block]:
    """The blocks of a document that have a language."""
    text = (root / document).read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        if found[1]:
            yield Block(document, text.count("\n", 0, found.start()) + 1, found[1], found[2])


def check_yaml(document: Any) -> None:
    """It is a job spec, or changes services of the Compose file."""
    if set(document) == {"services"}:
        services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
        assert set(document["services"]) <= set(services["services"])
    else:
        JobSpec.parse(document)


@dataclass
class DocRunner:
    """Runs code blocks as a reader would, in a folder with the stack's data."""

    folder: Path
    stack: Any
    commands: Path
    """The folder with `python` and `ampctl`."""

    def run(self, block: Block) -> None:
        """Run a code block; it must succeed."""
        match block.language:
            case "sh" if PLACEHOLDER.search(block.text):
                for line in block.text.splitlines():
                    job_id = self._job_for(line)
                    self._shell(PLACEHOLDER.sub(job_id, line), block)
                    if " resume " in line:  # so that it does not block the next jobs
                        self.stack.client.jobs.get(job_id).cancel()
            case "sh":
                self._shell(block.text, block)
            case "python":
                self._call([str(self.commands / "python"), "-c", block.text], block)
            case "yaml":
                check_yaml(yaml.safe_load(block.text))
            case "toml":  # of the example's project file
                assert block.text.strip() in PACKAGE.read_text(encoding="utf-8")
            case _:
                pytest.fail(f"{block}: no test runs blocks in {block.language}")

    def _shell(self, text: str, block: Block) -> None:
        text = text.replace("http://127.0.0.1:8470", self.stack.client.url)
        self._call(["bash", "-euo", "pipefail", "-c", text], block)

    def _job_for(self, line: str) -> str:
        """The id of a job in a state that the command on this line accepts."""
        jobs = self.stack.client.jobs
        if " pause " in line:
            return self._wait_for_state(State.RUNNING, jobs.submit(LONG))
        if " resume " in line:
            return self._wait_for_state(State.PAUSED, next(jobs.list(state=["pausing", "paused"])))
        return next(jobs.list(state=State.SUCCEEDED)).id

    def _wait_for_state(self, state: State, job: Job) -> str:
        wait_for([job], timeout_s=DEADLINE_S, done=lambda view: view.state is state)
        return job.id

    def _call(self, command: list[str], block: Block) -> None:
        # `ampctl` is installed.
        path = os.pathsep.join([str(self.commands), f"{sys.prefix}/bin", os.environ["PATH"]])
        home = {"HOME": str(self.folder), "PATH": path, "LANG": "C.UTF-8"}
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=home | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=2 * DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{block.text}\n{done.stdout}\n{done.stderr}"


def smaller(example: Path) -> str:
    """The same job with a smaller network, which compiles faster."""
    spec = yaml.safe_load(example.read_text(encoding="utf-8"))
    return yaml.safe_dump({**spec, "model": {"kind": "mlp", "hidden": [16]}})


@pytest.fixture(scope="session")
def doc_runner(
    stack: Any, python_commands: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DocRunner]:
    """A runner in a folder like a clone after `make install`, while `ampserver up` runs there."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / ".venv").mkdir()
    (folder / ".venv" / "bin").symlink_to(python_commands)
    (folder / "examples").mkdir()
    for example in ROOT.glob("examples/*"):
        (folder / "examples" / example.name).symlink_to(example)
    for name in EXAMPLES:
        (folder / name).unlink()
        (folder / name).write_text(smaller(ROOT / name), encoding="utf-8")
    (folder / "ampcore-data").symlink_to(stack.data)
    yield DocRunner(folder, stack, python_commands)
    for job in stack.client.jobs.list(state=["queued", "starting", "running", "pausing", "paused"]):
        job.cancel()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_code_blocks_of_a_page_run(doc_runner: DocRunner, document: str) -> None:
    for block in blocks_of(ROOT, document):
        if block.first_line not in RUN_BY_OTHER_TESTS:
            doc_runner.run(block)


def test_every_public_name_of_the_library_is_documented_in_a_block_that_runs() -> None:
    blocks = [block for page in DOCUMENTS for block in blocks_of(ROOT, page)]
    code = "\n".join(block.text for block in blocks if block.language == "python")
    listed = (ROOT / LIBRARY).read_text(encoding="utf-8")
    assert [name for name in ampcore.__all__ if not re.search(rf"\b{name}\b", code)] == []
    assert [name for name in ampcore.__all__ if f"`{name}`" not in listed] == []


def test_blocks_run_by_other_tests_exist_and_so_do_the_tests() -> None:
    written = {block.first_line for page in DOCUMENTS for block in blocks_of(ROOT, page)}
    assert set(RUN_BY_OTHER_TESTS) <= written
    paths = [*RUN_BY_OTHER_TESTS.values(), *RUN_AS_ONE.values()]
    assert [path for path in paths if not (ROOT / path).exists()] == []
