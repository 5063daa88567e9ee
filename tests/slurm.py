"""A real Slurm on this machine, with two nodes: its daemons run in the foreground, as children."""

import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from infra.parent_death import die_with_parent
from tests.processes import free_ports
from tests.waiting import DEADLINE_S, wait_until

PROGRAMS: Final = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol")
PACKAGES: Final = "slurmctld slurmd slurm-client munge"
NODES: Final = ("n1", "n2")

_CONFIG: Final = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdParameters=config_overrides
MpiDefault=none
KillWait=30
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=2000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=2000
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""
"""A requeued job starts after `cred_expire` seconds. Jobs of `urgent` preempt those of `main`."""


class Daemon:
    """A daemon of Slurm in the foreground, which ends with this process.

    Args:
        command: Its command.
        environ: Variables besides those of this process.
        log: The file of its output.
    """

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
        self._command, self._environ, self.log = command, environ, log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        """Start it, or start it again, perhaps with further options."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [*self._command, *options], env={**os.environ, **self._environ},
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - it calls prctl
            )  # fmt: skip

    def kill(self) -> None:
        """Send SIGKILL; what it has started goes on."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(DEADLINE_S)

    def stop(self) -> None:
        """Send SIGTERM, and wait for its end."""
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(DEADLINE_S)
        finally:
            self._process.kill()


@dataclass(frozen=True)
class SlurmCluster:
    """A running cluster.

    Args:
        environ: The variables with which Slurm's commands find it.
        controller: The daemon slurmctld.
        nodes: The daemon slurmd of each node, by its name.
    """

    environ: Mapping[str, str]
    controller: Daemon
    nodes: Mapping[str, Daemon]

    def run(self, *command: str, **options: Any) -> "subprocess.CompletedProcess[str]":
        """Run a command of Slurm, such as `srun`."""
        return subprocess.run(
            command, env={**os.environ, **self.environ}, capture_output=True, text=True,
            timeout=DEADLINE_S, check=False, **options,
        )  # fmt: skip

    def wait_ready(self) -> None:
        """Wait until all nodes are idle."""
        wait_until(lambda: _idle_nodes(self) == len(NODES), "two idle nodes", show=self._state)

    def end_jobs(self) -> None:
        """Cancel all jobs, and wait for their end."""
        self.run("scancel", "--user=root")
        wait_until(lambda: self.run("squeue", "--noheader").stdout == "", "the end of all jobs")

    def _state(self) -> str:
        return self.run("sinfo").stdout + self.run("squeue").stdout


@contextmanager
def slurm_cluster(folder: Path) -> Iterator[SlurmCluster]:
    """Start a cluster with the nodes n1 and n2, both of them this machine, and end it.

    Args:
        folder: An empty folder for its state and logs, with a short path: one of a socket may have
            107 characters.
    """
    config, key = folder / "slurm.conf", folder / "munge.key"
    host = socket.gethostname().partition(".")[0]
    config.write_text(_CONFIG.format(host=host, folder=folder, ports=free_ports(3)))
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    (folder / "state").mkdir()
    environ = {"SLURM_CONF": str(config)}
    files = {
        name: str(folder / f"munge.{name}")
        for name in ("socket", "pid-file", "log-file", "seed-file")
    }
    munge = [f"--{name}={path}" for name, path in files.items()]
    with ExitStack() as stack:

        def start(name: str, *command: str) -> Daemon:
            daemon = Daemon(command, environ, folder / f"{name}.log")
            daemon.start()
            stack.callback(daemon.stop)
            return daemon

        # --force: the folder of the socket may be closed to other users.
        start("munged", "munged", "--foreground", "--force", f"--key-file={key}", *munge)
        wait_until((folder / "munge.socket").exists, "munged")
        cluster = SlurmCluster(
            environ,
            start("slurmctld", "slurmctld", "-D", "-i"),
            {node: start(node, "slurmd", "-D", "-N", node) for node in NODES},
        )
        cluster.wait_ready()
        yield cluster
        cluster.end_jobs()


def _idle_nodes(cluster: SlurmCluster) -> int:
    return (
        cluster.run("sinfo", "--noheader", "--Node", "--partition=main", "--format=%T")
        .stdout.split()
        .count("idle")
    )
