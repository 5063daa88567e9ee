"""Slurm, by its commands: sbatch, squeue, scancel and scontrol.

The formats of squeue are the same in all versions; those of its JSON are not.
"""

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from server.allocations.batch_system import (
    AllocationRequest,
    AllocationStatus,
    BatchSystemUnavailable,
    SubmissionRefused,
)
from server.allocations.slurm_settings import SlurmQueue, SlurmSettings, minutes

COMMAND_S: Final = 60.0
"""How long a command of Slurm may take."""
SIGNAL_EARLY_S: Final = 60
"""Slurm may send the signal before a time limit so much earlier."""
FIELDS: Final = "%i|%j|%T|%N|%S|%r"
"""Id, name, state, nodes, start, reason; the reason is last, because it may contain anything."""
PREFIX: Final = "ampcore-"
ENDED: Final = frozenset(
    {
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
        *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
    }
)
"""The states in which a job of Slurm is over. PREEMPTED of one that is requeued becomes PENDING."""
UNREACHABLE: Final = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "Connection refused",
    "Zero Bytes were transmitted",
    "Communication connection failure",
    "slurmctld is down",
    "Insane message length",
    "Message receive failure",
    "Header lengths are longer than data received",
    "Protocol authentication error",
)
"""Parts of messages that say nothing of the request itself."""
NO_SUCH_JOB: Final = ("Invalid job id", "already completing or completed")
ALWAYS_PASSED: Final = ("PATH", "HOME", "LANG", "TZ")
NEVER_PASSED: Final = frozenset(
    f"AMPCORE_{name}" for name in ("TOKEN", "URL", "CONNECTION", "SCHEDULER", "SCHEDULER_CONFIG")
)
"""Variables of clients and of the scheduler, which no worker reads."""
OPTION_VARIABLES: Final = ("SBATCH_", "SQUEUE_", "SCANCEL_", "SLURM_")
"""How the variables begin that change what Slurm's commands do; SLURM_CONF says where Slurm is."""
KEPT_VARIABLES: Final = ("SLURM_CONF", "SLURM_JWT")


class Slurm:
    """A Slurm cluster on which this user may submit jobs.

    Args:
        settings: The queues, and how workers are started.
        environ: The variables of the scheduler; those that begin with AMPCORE_ reach the workers.
    """

    engine: Final = "slurm"
    submission_s: Final = 1.5 * COMMAND_S

    def __init__(self, settings: SlurmSettings, environ: Mapping[str, str] | None = None) -> None:
        self._settings = settings
        self._environ = {
            name: value
            for name, value in (os.environ if environ is None else environ).items()
            if name in KEPT_VARIABLES or not name.startswith(OPTION_VARIABLES)
        }

    def submit(self, request: AllocationRequest) -> str:
        """Submit a batch script that starts one worker on each node."""
        passed = {
            name: value
            for name, value in self._environ.items()
            if name in (*ALWAYS_PASSED, *self._settings.environment)
            or (name.startswith("AMPCORE_") and name not in NEVER_PASSED)
        }
        passed["AMPCORE_WORKER_SLOTS"] = str(request.devices)
        arguments = [
            *self._options(request),
            # The values stay in this process's environment: others can read its arguments.
            f"--export={','.join(sorted(passed))}",
        ]
        printed = self._run(["sbatch", *arguments], passed, self._script(request))
        return printed.partition(";")[0].strip()

    def statuses(self) -> Mapping[str, AllocationStatus]:
        """The jobs of this user whose names are those of allocations."""
        # --all: also jobs in partitions that are hidden from this user.
        command = ["squeue", "--me", "--all", "--states=all", "--noheader", f"--format={FIELDS}"]
        try:
            printed = self._run(command, {"SLURM_TIME_FORMAT": "%s"})
        except SubmissionRefused as error:
            raise BatchSystemUnavailable(str(error)) from error
        statuses: dict[str, AllocationStatus] = {}
        for line in printed.split("\n"):
            fields = line.split("|", 5)
            # Jobs of other programs may have any name, also one of several lines.
            if len(fields) < len(FIELDS.split("|")) or not fields[1].startswith(PREFIX):
                continue
            external_id, name, state, nodes, start, reason = fields
            status = AllocationStatus(
                external_id,
                state,
                state in ENDED,
                None if reason in ("None", "") else reason,
                nodes or None,
                _moment(start) if state == "PENDING" else None,
                has_begun=state != "PENDING",
            )
            # A job of the same name that has ended stays listed for a while.
            if name not in statuses or statuses[name].has_ended:
                statuses[name] = status
        return statuses

    def cancel(self, external_id: str) -> None:
        """Cancel a job; its workers get SIGTERM, and begin their drain."""
        try:
            self._run(["scancel", external_id])
        except SubmissionRefused as error:
            if not any(text in str(error) for text in NO_SUCH_JOB):
                raise BatchSystemUnavailable(str(error)) from error

    def _options(self, request: AllocationRequest) -> list[str]:
        queue = self._settings.queues[request.queue]
        # A job that takes longer goes on in its next allocation.
        limit_s = min(request.time_limit_s or queue.time_limit_s, queue.time_limit_s)
        values: dict[str, object] = {
            "job-name": request.name,
            # If a scheduler was suspended while another one submitted the same, one of the two
            # starts after the other has ended, and finds nothing to do.
            "dependency": "singleton",
            "nodes": request.nodes,
            "ntasks": request.nodes,
            "ntasks-per-node": 1,
            "cpus-per-task": queue.cpus_per_device * request.devices,
            "time": minutes(queue.start_s + limit_s + queue.warning_s + SIGNAL_EARLY_S),
            "signal": f"USR1@{queue.warning_s}",
            "output": self._settings.output,
            "open-mode": "append",
            "partition": queue.partition,
            "account": queue.account,
            "qos": queue.qos,
            "constraint": queue.constraint,
            "reservation": queue.reservation,
            "mem": queue.memory_per_node,
            "gres": f"{queue.gres}:{request.devices}" if queue.gres else None,
        }
        return [
            *(f"--{name}={value}" for name, value in values.items() if value is not None),
            *_further_options(queue),
            "--parsable",
            "--requeue",  # after a failure of a node, or a preemption
        ]

    def _script(self, request: AllocationRequest) -> str:
        worker = shlex.join([*self._settings.command, "worker", "--job", request.job_id])
        # --export: what `setup` has set reaches the worker, too. --wait: when one worker has ended,
        # the others still store their state.
        start = f"exec srun --export=ALL --kill-on-bad-exit=0 --wait=0 {worker}"
        return "\n".join(["#!/bin/sh", *self._settings.setup, start, ""])

    def _run(
        self, command: Sequence[str], environ: Mapping[str, str] | None = None, stdin: str = ""
    ) -> str:
        """What a command prints; SubmissionRefused has the message of one that failed."""
        try:
            ended = subprocess.run(
                command,
                env={**self._environ, **(environ or {})},
                input=stdin,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=COMMAND_S,
                check=False,
                start_new_session=True,  # Ctrl-C ends the scheduler, and no submission half-way
            )
        except FileNotFoundError:
            raise BatchSystemUnavailable(
                f"The program {command[0]} is not installed; it belongs to Slurm's client."
            ) from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BatchSystemUnavailable(f"{command[0]}: {error}") from error
        if ended.returncode == 0:
            return ended.stdout
        message = " ".join(line.strip() for line in ended.stderr.splitlines() if line.strip())
        message = message.replace(f"{command[0]}: error: ", "") or f"{command[0]} failed."
        if ended.returncode < 0 or any(text in message for text in UNREACHABLE):
            raise BatchSystemUnavailable(message)
        raise SubmissionRefused(message)


def _further_options(queue: SlurmQueue) -> list[str]:
    return [
        f"--{name}" if value is True else f"--{name}={value}"
        for name, value in queue.options.items()
        if value is not False
    ]


def _moment(seconds: str) -> datetime | None:
    """A moment as SLURM_TIME_FORMAT=%s writes it; None for N/A."""
    return datetime.fromtimestamp(int(seconds), UTC) if seconds.isdecimal() else None
