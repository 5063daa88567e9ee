"""Train one CNN under three dtype policies on its own ampcore stack, and compare the results.

Run it with `make demo`. Read `main` first: it shows the whole use of the Python SDK.
"""

import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ampclient import AmpcoreError, Client, Job, Summary
from server.embedded.child_process import ChildProcess

POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")
START_S, STOP_S, TRAIN_S = 60.0, 30.0, 600.0  # deadlines, in seconds

console = Console(highlight=False)


def main() -> int:
    """Start a stack, train three jobs on it, compare them; 0 only if all three succeeded."""
    print_line("Starting an ampcore stack in a temporary folder: API, worker, SQLite, Redis …")
    with running_stack() as connection_file, Client.from_file(connection_file) as client:
        wait_for_worker(client)
        jobs = [client.jobs.submit(spec(policy)) for policy in POLICIES]
        print_line(f"Submitted {len(jobs)} jobs to {client.url}; they run one after the other.")
        print_line(
            "mixed_float16 starts with a loss scale of 2^24, deliberately too high: watch the "
            "first steps being skipped.\n"
        )
        jobs = client.jobs.wait(jobs, TRAIN_S, progress=True, poll_s=0.2)
        print_results(jobs)
        results = {job.policy: job.summary for job in jobs if job.summary is not None}
        succeeded = len(results) == len(jobs)  # only a job that succeeded has a summary
        if succeeded:
            print_line(f"\n{describe_results(results)}")
            print_line(f"\n{describe_scale(jobs[-1])}")
        print_line("\nStopping the stack …")
    print_line(NEXT_STEPS if succeeded else "At least one job did not succeed; see above.")
    return 0 if succeeded else 1


def spec(policy: str) -> dict[str, object]:
    """A job: a small CNN on the 1,797 handwritten digits that come with ampcore."""
    document: dict[str, object] = {
        "name": policy,
        "model": {"kind": "cnn", "filters": [16, 32], "dense": [64]},
        "data": {"kind": "digits", "batch_size": 64},
        "precision": {"policy": policy},
        "optimizer": {"kind": "adam", "learning_rate": 0.003},
        "train": {"epochs": 20},
    }
    if policy == "mixed_float16":
        # Scaled by 2^24, the first gradients are beyond float16's largest number, 65504.
        document["loss_scale"] = {"mode": "dynamic", "initial": 2.0**24, "maximum": 2.0**24}
    return document


def print_results(jobs: Sequence[Job]) -> None:
    """Print the outcome of each job."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("policy", no_wrap=True)
    for head in ("final loss", "val. accuracy", "steps", "skipped", "final scale", "examples/s"):
        table.add_column(head, justify="right")
    for job in jobs:
        if (result := job.summary) is None:
            continue
        table.add_row(
            job.policy,
            f"{result.final_loss:.4f}",
            f"{result.val_accuracy:.1%}",
            f"{result.steps}",
            f"{result.skipped}",
            format_scale(result.final_loss_scale),
            f"{result.median_examples_per_s:,.0f}",
        )
    console.print()
    console.print(table)
    for job in jobs:
        if job.summary is None:
            print_line(f"{job.policy}: {job.state} ({job.reason}): {job.message}")


def describe_results(results: dict[str, Summary]) -> str:
    """Print the table as a sentence."""
    accuracies = [result.val_accuracy or 0.0 for result in results.values()]
    low, high = min(accuracies), max(accuracies)
    float16 = results["mixed_float16"]
    fastest = max(results, key=lambda policy: results[policy].median_examples_per_s or 0.0)
    return (
        f"The three precisions end {100 * (high - low):.1f} percentage points apart: {low:.1%} to "
        f"{high:.1%} of unseen digits are right. mixed_float16 skipped {float16.skipped} of its "
        f"{float16.steps} steps while its loss scale came down. {fastest} was the fastest on this "
        "machine (examples/s are the median of all steps)."
    )


def describe_scale(job: Job) -> str:
    """Print how the loss scale of a job decreased, from its recorded steps."""
    block = job.steps(columns=["loss_scale", "skipped"])
    skipped = block["step"][block["skipped"]]
    path = ", ".join(
        f"{format_scale(block['loss_scale'][step])} at step {step}" for step in skipped
    )
    return (
        f"Recorded steps: the scaled gradients overflowed with {path}; each of "
        f"those steps was skipped and the scale halved, to {format_scale(block['loss_scale'][-1])}."
    )


def format_scale(value: float) -> str:
    """A loss scale, which is a power of two here."""
    return "1" if value == 1 else f"2^{math.log2(value):.0f}"


@contextmanager
def running_stack() -> Iterator[Path]:
    """`ampserver up` with its own data folder; both are removed when the context ends."""
    with tempfile.TemporaryDirectory(prefix="ampcore-demo-") as name:
        folder = Path(name)
        stack = ChildProcess(
            "the stack",
            [sys.executable, "-P", "-m", "server", "up", "--data", str(folder), "--port", "0"],
            log_file=folder / "demo.log",
            # The demo ignores the settings of a real installation.
            environment={k: v for k, v in os.environ.items() if not k.startswith("AMPCORE_")},
        )
        stack.start()
        try:
            yield wait_for_connection(stack, folder)
        finally:
            stack.stop(STOP_S)


def wait_for_connection(stack: ChildProcess, folder: Path) -> Path:
    """The connection file, which is written once the stack is ready."""
    file = folder / "connection.json"
    deadline_s = time.monotonic() + START_S
    while not file.exists():
        if not stack.running or time.monotonic() > deadline_s:
            log = (folder / "demo.log").read_text(errors="replace").splitlines()
            raise SystemExit(
                "\n".join(["The stack did not start. The end of its log:", *log[-30:]])
            )
        time.sleep(0.05)
    return file


def wait_for_worker(client: Client) -> None:
    """The worker registers some seconds after the API answers; until then jobs would only wait."""
    deadline_s = time.monotonic() + START_S
    while not client.workers.list() and time.monotonic() < deadline_s:
        time.sleep(0.1)


def print_line(text: str) -> None:
    """Print text and flush, without markup."""
    console.print(text, markup=False, soft_wrap=True)


NEXT_STEPS = """
Everything is stopped and removed. To start a server and keep its data:

  .venv/bin/ampserver up                  starts it, keeps its data in ./ampcore-data, and prints
                                          the address of the dashboard

and in a second terminal, in the same folder:

  .venv/bin/ampctl submit examples/digits-float16.yaml --watch
  .venv/bin/ampctl job steps ID --columns loss,loss_scale,skipped
  curl -H "Authorization: Bearer $(cat ampcore-data/token)" http://127.0.0.1:8470/api/v1/jobs
"""

if __name__ == "__main__":
    # SIGTERM ends the demo as Ctrl-C does, so that it stops what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except AmpcoreError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        print_line("\nInterrupted; the stack is stopped and its folder removed.")
        sys.exit(130)
