"""The launcher ends all ranks together; here the ranks are small programs without TensorFlow."""

import io
import json
import os
import signal
import subprocess
import sys
import textwrap
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from ampcore.cli.app import app
from ampcore.distributed.cores import cores_of_rank
from ampcore.distributed.launcher import Launch, free_addresses, launch_ranks
from tests.processes import is_gone
from tests.waiting import wait_until

PREAMBLE = """
import json, os, sys, time
from pathlib import Path
cluster = json.loads(os.environ["AMPCORE_CLUSTER"])
rank, folder = cluster["rank"], Path(sys.argv[1])
"""


@pytest.fixture
def launch(tmp_path):
    """Runs a program on ranks; returns the exit code and what it has printed."""

    def run(code, processes=2, **options):
        program = tmp_path / "program.py"
        program.write_text(PREAMBLE + textwrap.dedent(code))
        command = [sys.executable, "-S", str(program), str(tmp_path)]
        stderr = io.StringIO()
        return launch_ranks(Launch(command, processes, 5.0, **options), stderr), stderr.getvalue()

    return run


def test_each_rank_knows_its_place_and_its_threads(launch, tmp_path):
    code, _ = launch(
        """
        threads = [os.environ["TF_NUM_INTRAOP_THREADS"], os.environ["OMP_NUM_THREADS"]]
        (folder / f"{rank}.json").write_text(json.dumps([cluster, threads, os.environ["MORE"]]))
        """,
        processes=3,
        threads=2,
        environ={"MORE": "yes"},
    )
    assert code == 0
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(3)]
    clusters = [cluster for cluster, *_ in found]
    assert [cluster["local_rank"] for cluster in clusters] == [0, 1, 2]
    assert len({tuple(cluster["addresses"]) for cluster in clusters}) == 1
    assert all(others == [["2", "2"], "yes"] for _, *others in found)


def test_all_ranks_end_when_one_fails(launch, tmp_path):
    code, printed = launch(
        """
        (folder / f"{rank}.pid").write_text(str(os.getpid()))
        if rank == 1:
            print("the last words")
            sys.exit(7)
        time.sleep(600)
        """
    )
    assert code == 7
    assert printed == "rank 1: the last words\n"
    assert not psutil.pid_exists(int((tmp_path / "0.pid").read_text()))


def test_a_signal_is_reported_as_a_shell_does(launch):
    code, _ = launch("if rank == 1: os.kill(os.getpid(), 9)")
    assert code == 128 + signal.SIGKILL


def test_a_port_that_is_taken_starts_all_ranks_again_with_others(launch, tmp_path):
    code, printed = launch(
        """
        with (folder / f"{rank}.addresses").open("a") as file:
            file.write(cluster["addresses"][rank] + "\\n")
        if rank == 1 and len((folder / "1.addresses").read_text().splitlines()) == 1:
            sys.exit(75)
        """
    )
    assert (code, printed) == (0, "")
    assert len((tmp_path / "1.addresses").read_text().splitlines()) == 2


CHILD = """
import subprocess
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
(folder / f"{rank}.written").write_text(f"{os.getpid()} {child.pid}")
(folder / f"{rank}.written").rename(folder / f"{rank}.pids")
"""
"""A rank starts a process, and writes the ids of both."""


def pids_of(folder, rank):
    """The id of a rank's process, and that of the one that it has started."""
    file = folder / f"{rank}.pids"
    wait_until(file.exists, f"rank {rank} runs")
    return [int(pid) for pid in file.read_text().split()]


@pytest.fixture
def launcher(tmp_path):
    """A launcher whose ranks start a process each and run the code; it is killed at the end."""
    with ExitStack() as stack:

        def run(code):
            program = tmp_path / "program.py"
            program.write_text(f"{PREAMBLE}{CHILD}{code}\n")
            command = ["launch", "-n", "2", str(program), str(tmp_path)]
            process = subprocess.Popen(
                [sys.executable, "-m", "ampcore", *command], cwd=Path(__file__).parents[3]
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        yield run


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_the_launcher(launcher, tmp_path, number):
    """Checked: without the tracker the started processes outlive a launcher that is killed."""
    process = launcher("time.sleep(600)")
    pids = [pid for rank in range(2) for pid in pids_of(tmp_path, rank)]
    process.send_signal(number)
    process.wait()
    wait_until(lambda: all(map(is_gone, pids)), "the end of all processes")


def test_what_a_rank_has_started_ends_with_it_while_others_run(launcher, tmp_path):
    """Checked: without the signal in `poll` the process that rank 1 has started goes on."""
    process = launcher("time.sleep(600 * (1 - rank))")
    first, second = (pids_of(tmp_path, rank) for rank in range(2))
    wait_until(lambda: all(map(is_gone, second)), "the end of what rank 1 has started")
    assert not any(map(is_gone, [process.pid, *first]))


def test_what_a_failed_rank_has_started_ends_too(launch, tmp_path):
    code, _ = launch(f"{CHILD}sys.exit(7 * rank)")
    assert code == 7
    pids = [int(pid) for file in tmp_path.glob("*.pids") for pid in file.read_text().split()]
    wait_until(lambda: all(map(is_gone, pids)), "the end of all processes")


def test_a_job_and_options_of_run_reach_every_rank(tmp_path):
    command = ["launch", "--processes", "2", str(tmp_path / "job.yaml"), "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2  # both ranks refuse the file, which does not exist
    assert os.listdir(tmp_path) == []


@pytest.mark.xdist_group("python_commands")
def test_the_summary_as_json_is_that_of_run_with_what_ranks_add(python_commands, tmp_path):
    job = tmp_path / "job.yaml"
    job.write_text("model: {kind: mlp, hidden: [8]}\ndata: {kind: digits}\ntrain: {steps: 3}\n")

    def summary(*command):
        options = (job, "--output", tmp_path / command[0], "--json")
        arguments = [python_commands / "python", "-m", "ampcore", *command, *options]
        done = subprocess.run(arguments, stdout=subprocess.PIPE, check=True, cwd=tmp_path)
        return json.loads(done.stdout)

    found, alone = summary("launch", "--processes", "2"), summary("run")
    assert found.keys() - alone.keys() == {"ranks"}
    assert alone.keys() <= found.keys()
    assert (found["steps"], alone["steps"]) == (3, 3)
    assert found["global_batch_size"] == 2 * alone["global_batch_size"]


@pytest.mark.parametrize(
    ("ranks", "cores", "expected"),
    [
        (2, [0, 1, 2, 3], [[0, 1], [2, 3]]),
        (2, [4, 5, 6], [[4], [5]]),
        (3, [0, 1], [[0], [1], [0]]),
    ],
)
def test_the_cores_are_shared_out(ranks, cores, expected):
    assert [cores_of_rank(rank, ranks, cores) for rank in range(ranks)] == expected


def test_the_addresses_are_different_ports_of_this_machine():
    addresses = free_addresses(8)
    assert len(set(addresses)) == 8
    assert all(address.startswith("127.0.0.1:") for address in addresses)
