"""A real Slurm on this machine, with two nodes: its daemons run in the foreground, as children."""

import os
import signal
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
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdParameters=config_overrides
MpiDefault=none
KillWait=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=2000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=2000
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True)
class SlurmCluster:
    """A running cluster.

    Args:
        environ: The variables with which Slurm's commands find it.
    """

    environ: Mapping[str, str]

    def run(self, *command: str, **options: Any) -> "subprocess.CompletedProcess[str]":
        """Run a command of Slurm, such as `srun`."""
        return subprocess.run(
            command, env={**os.environ, **self.environ}, capture_output=True, text=True,
            timeout=DEADLINE_S, check=False, **options,
        )  # fmt: skip


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

        def start(*command: str) -> None:
            stack.enter_context(_daemon(command, environ, folder / f"{command[0]}.{len(command)}"))

        # --force: the folder of the socket may be closed to other users.
        start("munged", "--foreground", "--force", f"--key-file={key}", *munge)
        wait_until((folder / "munge.socket").exists, "munged")
        start("slurmctld", "-D", "-i")
        for node in NODES:
            start("slurmd", "-D", "-N", node)
        cluster = SlurmCluster(environ)
        wait_until(lambda: _idle_nodes(cluster) == len(NODES), "two idle nodes")
        yield cluster
        cluster.run("scancel", "--user=root")
        wait_until(lambda: not cluster.run("squeue", "--noheader").stdout, "the end of all jobs")


@contextmanager
def _daemon(command: Sequence[str], environ: Mapping[str, str], log: Path) -> Iterator[None]:
    """A daemon in the foreground, which ends with this process and at the end."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, env={**os.environ, **environ}, stdin=subprocess.DEVNULL, stdout=output,
            stderr=output, preexec_fn=die_with_parent,  # noqa: PLW1509 - it calls prctl
        )  # fmt: skip
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(DEADLINE_S)
        finally:
            process.kill()


def _idle_nodes(cluster: SlurmCluster) -> int:
    return cluster.run("sinfo", "--noheader", "--Node", "--format=%T").stdout.split().count("idle")
