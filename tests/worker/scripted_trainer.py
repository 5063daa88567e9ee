"""A trainer process without TensorFlow that follows a named script, for rare outcomes."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

from ampspec.telemetry import StepBlock
from ampspec.telemetry.frames import Frame, FrameType, write_frame
from ampspec.telemetry.steps.steps_frame import steps_frame
from worker.trainer.child import fork_server

HERE = {"hardware": {"device": "script"}, "versions": {"script": "1"}}
LONG_S = 3600
"""Longer than any test: a process that sleeps this long is killed before."""


def steps(first_step: int, count: int) -> Frame:
    columns = {
        "loss": [float("nan")] * count,
        "skipped": [True] * count,
        "step_time_s": [0.1] * count,
        "examples": [8] * count,
    }
    return steps_frame(StepBlock(first_step, columns))


class Trainer:
    """The building blocks of all scripts."""

    def __init__(self, frames: BinaryIO, job: dict[str, Any]) -> None:
        self.frames, self.job = frames, job
        self.folder = Path(job["output_dir"])
        self.stopped = False

    def write(self, frame: Frame) -> None:
        write_frame(self.frames, frame)

    def event(self, event: str, step: int, **data: Any) -> None:
        self.write(Frame(FrameType.EVENT, {"event": event, "step": step, "data": data}))

    def handle_sigterm(self) -> None:
        def stop(*_: object) -> None:
            self.stopped = True

        signal.signal(signal.SIGTERM, stop)

    def wait_until_stopped(self) -> None:
        # Not threading.Event: a signal handler that sets it would deadlock with the waiting code.
        while not self.stopped:
            time.sleep(0.01)

    def wait_until_allowed(self, block: int) -> None:
        """Wait until the file that `allow` writes permits this block."""
        file = Path(self.job["data_root"]) / "allowed"
        while not file.exists() or int(file.read_text()) < block:
            time.sleep(0.01)

    def begin(self, first_step: int = 0) -> None:
        stats = {"total_steps": 30, "first_step": first_step}
        self.write(Frame(FrameType.RUNNING, stats))
        self.event("started", first_step, **stats)

    def succeed(self) -> None:
        self.write(Frame(FrameType.SUCCEEDED, {"summary": {"steps": 30}}))

    def stop(self) -> None:
        self.write(Frame(FrameType.STOPPED))

    def saved_step(self) -> int:
        """The step of the downloaded checkpoint; 0 without one."""
        if not self.job["resume"]:
            return 0
        (file,) = (self.folder / "checkpoints").iterdir()
        return int(json.loads(file.read_text())["step"])

    def save(self, step: int) -> None:
        name = f"checkpoints/checkpoint-{step // 10:06}-step-{step}.safetensors"
        (self.folder / "checkpoints").mkdir(exist_ok=True)
        (self.folder / name).write_text(json.dumps({"step": step}))
        self.event("checkpoint_saved", step - 1, file=name)

    def save_model(self) -> None:
        (self.folder / "model.keras").write_text("a model")
        (self.folder / "weights.safetensors").write_text("weights")
        self.event("model_saved", 29, file="model.keras", weights="weights.safetensors")


def good(trainer: Trainer) -> None:
    trainer.begin()
    trainer.write(steps(0, 10))
    trainer.write(steps(10, 20))
    trainer.save_model()
    trainer.succeed()


def profiles_on_request(trainer: Trainer) -> None:
    """Wait for a request, and write a report of as many steps as it names."""
    begin_and_write_steps(trainer)
    steps_wanted = json.loads(sys.stdin.readline())["profile"]["steps"]
    folder = trainer.folder / "profile" / "step-10"
    folder.mkdir(parents=True)
    (folder / "report.json").write_text(json.dumps({"steps": steps_wanted}))
    (folder / "profile.xplane.pb").write_text("a trace")
    files = [f"profile/step-10/{name}" for name in ("report.json", "profile.xplane.pb")]
    trainer.event("profile", 9, file=files[0], files=files)
    trainer.succeed()


def is_killed_by_a_profile(trainer: Trainer) -> None:
    """End during the requested profile; the next attempt succeeds."""
    begin_and_write_steps(trainer)
    if trainer.job["attempt"] == 1:
        sys.stdin.readline()
        os.kill(os.getpid(), signal.SIGKILL)
    trainer.succeed()


def read_dataset(trainer: Trainer) -> Path:
    [(name, path)] = trainer.job["datasets"].items()
    file = Path(path)
    print(name, file.name, file.read_text())
    return file


def reads_weights(trainer: Trainer) -> None:
    """Print the initial weights, and save a checkpoint at the end."""
    trainer.begin(trainer.saved_step())
    print("init:", trainer.job["init"] and Path(trainer.job["init"]).read_text())
    trainer.save(30)
    trainer.succeed()


def reads_dataset(trainer: Trainer) -> None:
    trainer.begin()
    read_dataset(trainer)
    trainer.succeed()


def attacks_dataset(trainer: Trainer) -> None:
    """Read the dataset, then try to change it and to read the whole cache."""
    trainer.begin()
    file = read_dataset(trainer)
    cache = Path(trainer.job["data_root"]).parent / "scratch" / "dataset-cache"
    for what, attempt in (
        ("write", lambda: file.write_text("changed")),
        ("change its permissions", lambda: file.chmod(0o666)),
        ("write after that", lambda: file.write_text("changed")),
        ("list the cache", lambda: list(cache.iterdir())),
    ):
        try:
            attempt()
        except OSError:
            continue
        print("could", what)
    trainer.succeed()


def reads_bundle(trainer: Trainer) -> None:
    """Print the files of the bundle; whether it can be changed; and what the assignment lacks."""
    trainer.begin()
    folder = Path(trainer.job["bundle"])
    for file in sorted(folder.rglob("*.py")):
        print(file.relative_to(folder).as_posix(), file.read_text().strip())
    try:
        (folder / "net.py").write_text("changed")
        print("could write")
    except OSError:
        pass
    trainer.succeed()


def has_no_bundle(trainer: Trainer) -> None:
    trainer.begin()
    print("bundle" in trainer.job)
    trainer.succeed()


def waits_with_dataset(trainer: Trainer) -> None:
    trainer.handle_sigterm()
    trainer.begin()
    trainer.write(steps(0, 10))
    trainer.wait_until_stopped()
    trainer.save(10)
    trainer.stop()


def saves(trainer: Trainer) -> None:
    """Save after every ten steps; the first attempt waits after ten steps until SIGTERM."""
    trainer.handle_sigterm()
    first_step = trainer.saved_step()
    trainer.begin(first_step)
    for step in range(first_step, 30, 10):
        trainer.write(steps(step, 10))
        trainer.save(step + 10)
        if trainer.job["attempt"] == 1:
            trainer.wait_until_stopped()
            trainer.stop()
            return
    trainer.succeed()


def crash_after_saving(trainer: Trainer) -> None:
    """The first attempt crashes with steps after its checkpoint; later ones train to the end."""
    first_step = trainer.saved_step()
    trainer.begin(first_step)
    trainer.write(steps(first_step, 10))
    if trainer.job["attempt"] == 1:
        trainer.save(10)
        trainer.write(steps(10, 10))
        sys.exit(3)
    trainer.write(steps(first_step + 10, 10))
    trainer.succeed()


def many_checkpoints(trainer: Trainer) -> None:
    """Save three times, each time once the previous checkpoint is uploaded."""
    trainer.begin()
    for step in (10, 20, 30):
        trainer.write(steps(step - 10, 10))
        trainer.save(step)
        while list((trainer.folder / "checkpoints").glob(f"*-step-{step}.*")):
            time.sleep(0.01)
    trainer.succeed()


def ignores_sigterm(trainer: Trainer) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    begin_and_write_steps(trainer)
    subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({LONG_S})"])
    print("ignores_sigterm", flush=True)
    time.sleep(LONG_S)


def ends_on_sigterm(trainer: Trainer) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    begin_and_write_steps(trainer)
    time.sleep(LONG_S)


def succeeds_when_stopped(trainer: Trainer) -> None:
    trainer.handle_sigterm()
    begin_and_write_steps(trainer)
    trainer.wait_until_stopped()
    trainer.succeed()


def fails_when_stopped(trainer: Trainer) -> None:
    trainer.handle_sigterm()
    begin_and_write_steps(trainer)
    trainer.wait_until_stopped()
    trainer.write(Frame(FrameType.FAILED, {"reason": "invalid_data", "message": "It is NaN."}))


def fails_with_a_checkpoint(trainer: Trainer) -> None:
    """The last checkpoint is the state before the weights became non-finite."""
    trainer.begin()
    trainer.write(steps(0, 30))
    trainer.save(20)
    message = "The weights are not finite."
    trainer.write(Frame(FrameType.FAILED, {"reason": "non_finite_result", "message": message}))


def names_a_missing_model(trainer: Trainer) -> None:
    trainer.begin()
    trainer.write(steps(0, 30))
    trainer.event("model_saved", 29, file="model.keras")
    trainer.succeed()


def saves_a_large_model(trainer: Trainer) -> None:
    trainer.begin()
    trainer.write(steps(0, 30))
    (trainer.folder / "model.keras").write_bytes(bytes(2_000_000))
    trainer.event("model_saved", 29, file="model.keras")
    trainer.succeed()


def saves_slowly(trainer: Trainer) -> None:
    """Asked to stop, it writes its checkpoint in parts for two seconds."""
    trainer.handle_sigterm()
    begin_and_write_steps(trainer)
    trainer.wait_until_stopped()
    (trainer.folder / "checkpoints").mkdir()
    name = "checkpoints/checkpoint-000001-step-10.safetensors"
    with (trainer.folder / name).open("wb") as file:
        for _ in range(20):
            file.write(bytes(200_000))
            file.flush()
            time.sleep(0.1)
    trainer.event("checkpoint_saved", 9, file=name)
    trainer.stop()


def endless(trainer: Trainer) -> None:
    begin_and_write_steps(trainer)
    first_step = 10
    while True:
        trainer.write(steps(first_step, 10))
        first_step += 10
        time.sleep(0.01)


def crash(trainer: Trainer) -> None:
    begin_and_write_steps(trainer)
    print("the last words", flush=True)
    sys.exit(3)


def killed(trainer: Trainer) -> None:
    begin_and_write_steps(trainer)
    os.kill(os.getpid(), signal.SIGKILL)


def writes_invalid_frames(trainer: Trainer) -> None:
    begin_and_write_steps(trainer)
    trainer.frames.write(b"\xff" * 64)
    trainer.frames.flush()
    time.sleep(LONG_S)


def prints(trainer: Trainer) -> None:
    begin_and_write_steps(trainer)
    for byte in "grüße €\n".encode():
        os.write(1, bytes([byte]))
        time.sleep(0.001)
    os.write(2, b"and an error\n")
    trainer.succeed()


def evaluates_as_allowed(trainer: Trainer) -> None:
    """Evaluate, train, and save, each until the test allows the next."""
    trainer.begin()
    for number, activity in enumerate(("evaluating", "training", "saving"), 1):
        trainer.write(Frame(FrameType.ACTIVITY, {"activity": activity}))
        trainer.wait_until_allowed(number)
    trainer.write(steps(0, 30))
    trainer.succeed()


def trains_as_allowed(trainer: Trainer) -> None:
    """Train as far as the test allows, also while the worker's database is unreachable."""
    trainer.begin()
    for block in range(30):
        trainer.wait_until_allowed(block + 1)
        trainer.write(steps(10 * block, 10))
    trainer.succeed()


def writes_large_frames(trainer: Trainer) -> None:
    """Write many large frames, and count in a file how many were accepted."""
    trainer.begin()
    trainer.wait_until_allowed(100)
    for number in range(100):
        frame = steps(10 * number, 10)
        padding = {**frame.header, "padding": "x" * 100_000}
        trainer.write(Frame(frame.type, padding, frame.payload))
        unfinished = Path(trainer.job["data_root"]) / "written.new"
        unfinished.write_text(str(number + 1))
        unfinished.rename(unfinished.with_suffix(""))
    trainer.succeed()


def writes_steps_twice(trainer: Trainer) -> None:
    """Write the same steps twice, which the store refuses."""
    begin_and_write_steps(trainer)
    trainer.write(steps(0, 10))
    time.sleep(LONG_S)


def rank_of(trainer: Trainer) -> int:
    """The number of this rank, which it prints together with its process id."""
    rank = int(trainer.job["cluster"]["rank"])
    print(f"rank {rank} is {os.getpid()}", flush=True)
    return rank


def ranks_succeed(trainer: Trainer) -> None:
    if rank_of(trainer) == 0:
        trainer.begin()
        trainer.write(steps(0, 30))
    trainer.succeed()


def prints_cluster(trainer: Trainer) -> None:
    print(json.dumps(trainer.job["cluster"]), flush=True)
    print("own ranks", trainer.job["own_ranks"], flush=True)
    ranks_succeed(trainer)


def ranks_wait(trainer: Trainer) -> None:
    trainer.handle_sigterm()
    is_first = rank_of(trainer) == 0
    if is_first:
        begin_and_write_steps(trainer)
    trainer.wait_until_stopped()
    if is_first:
        trainer.save(10)
    trainer.stop()


def ranks_print_a_last_line(trainer: Trainer) -> None:
    if rank_of(trainer) == 0:
        trainer.begin()
        trainer.write(steps(0, 30))
    time.sleep(1)
    print("the last line", flush=True)
    trainer.succeed()


def rank_1_fails(trainer: Trainer) -> None:
    if trainer.job["cluster"]["rank"] == 1:
        trainer.write(Frame(FrameType.FAILED, {"reason": "invalid_data", "message": "It is NaN."}))
        return
    ranks_wait(trainer)


def wait_for_rank_0(trainer: Trainer) -> int:
    """The number of this rank, once rank 0 handles SIGTERM."""
    rank, file = rank_of(trainer), Path(trainer.job["data_root"]) / "rank-0-handles-sigterm"
    trainer.handle_sigterm()
    if rank == 0:
        file.parent.mkdir(exist_ok=True)
        file.touch()
    while not file.exists():
        time.sleep(0.01)
    return rank


def rank_0_fails_since_rank_1_is_killed(trainer: Trainer) -> None:
    """Rank 1 is killed, and the communication of rank 0 ends with an error that names no rank."""
    if wait_for_rank_0(trainer) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    trainer.wait_until_stopped()
    failed = {"reason": "internal_error", "message": "The trainer failed with UnavailableError."}
    trainer.write(Frame(FrameType.FAILED, failed))


def rank_0_is_killed_after_rank_1_lost_it(trainer: Trainer) -> None:
    """Rank 0 is killed, and its worker learns first that rank 1 lost it."""
    if wait_for_rank_0(trainer) == 1:
        lost = {"reason": "rank_lost", "message": "Rank 0 was lost."}
        trainer.write(Frame(FrameType.FAILED, lost))
        return
    trainer.wait_until_stopped()
    os.kill(os.getpid(), signal.SIGKILL)


def port_of_rank_1_taken(trainer: Trainer) -> None:
    """Rank 1 finds its port taken in the first attempt, and rank 0 loses it."""
    rank = trainer.job["cluster"]["rank"]
    if trainer.job["attempt"] > 1:
        return ranks_succeed(trainer)
    reason = "port_taken" if rank == 1 else "rank_lost"
    return trainer.write(Frame(FrameType.FAILED, {"reason": reason, "message": "It is."}))


def rank_0_saves_slowly(trainer: Trainer) -> None:
    """Rank 0 writes its checkpoint for two seconds, for which the other rank waits."""
    trainer.handle_sigterm()
    pid_file, saved = (Path(trainer.job["data_root"]) / name for name in ("rank-1", "saved"))
    pid_file.parent.mkdir(exist_ok=True)
    if rank_of(trainer) == 1:
        pid_file.write_text(str(os.getpid()))
        while not saved.exists():
            time.sleep(0.01)
        return trainer.stop()
    begin_and_write_steps(trainer)
    trainer.wait_until_stopped()
    (trainer.folder / "checkpoints").mkdir()
    with (trainer.folder / "checkpoints" / "unfinished").open("wb") as file:
        for _ in range(20):
            file.write(bytes(200_000))
            file.flush()
            time.sleep(0.1)
    if not Path(f"/proc/{pid_file.read_text()}").exists():
        lost = {"reason": "rank_lost", "message": "Rank 1 was lost."}
        return trainer.write(Frame(FrameType.FAILED, lost))
    trainer.save(10)
    saved.touch()
    return trainer.stop()


def ranks_save(trainer: Trainer) -> None:
    """Rank 0 saves after ten steps, and starts there in the second attempt."""
    trainer.handle_sigterm()
    rank, first_step = rank_of(trainer), trainer.saved_step()
    print(f"finds the checkpoint of step {first_step}", flush=True)
    if rank == 0:
        trainer.begin(first_step)
        trainer.write(steps(first_step, 10))
        trainer.save(first_step + 10)
    if trainer.job["attempt"] > 1:
        trainer.succeed()
        return
    trainer.wait_until_stopped()
    trainer.stop()


def begin_and_write_steps(trainer: Trainer) -> None:
    trainer.begin()
    trainer.write(steps(0, 10))


def trainer(script: str) -> fork_server.RunTrainer:
    """What a forked trainer does that follows the named script."""

    def run(frames_fd: int, _is_standby: bool) -> int:
        frames = os.fdopen(frames_fd, "wb")
        if script == "hangs":  # before it is ready
            time.sleep(LONG_S)
        print(f"ready for {script}", flush=True)
        write_frame(frames, Frame(FrameType.READY, HERE))
        line = sys.stdin.readline()
        if line:
            fork_server.set_process_name(fork_server.TRAINER_NAME)
            globals()[script](Trainer(frames, json.loads(line)))
        return 0

    return run


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("script")
    descriptor = parser.add_mutually_exclusive_group(required=True)
    descriptor.add_argument("--requests-fd", type=int)
    descriptor.add_argument("--frames-fd", type=int)  # in a sandbox with exec
    arguments = parser.parse_args()
    if arguments.frames_fd is not None:
        fork_server.run_alone(arguments.frames_fd, trainer(arguments.script))
    fork_server.serve(arguments.requests_fd, trainer(arguments.script))


if __name__ == "__main__":
    main()
