import io
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import asdict

import psutil
import pytest

from ampcore import child
from ampcore.series import StepBlock
from ampcore.series.codec import decode
from ampcore.series.frames import FrameReader, FrameType
from ampcore.spec import Reason
from ampcore.train import Trainer
from tests.waiting import DEADLINE_S, wait_until

ENDLESS = {"train": {"epochs": 1_000_000}}


class Child:
    """A trainer process as its supervisor sees it."""

    def __init__(self, process, reading, log_file):
        self.process, self.log_file = process, log_file
        self._reading, self._frames = reading, FrameReader()
        self._waiting = []

    def frames(self):
        """Frames as they come, until the process has closed its end."""
        while data := os.read(self._reading, 65_536):
            self._waiting += self._frames.feed(data)
            while self._waiting:
                yield self._waiting.pop(0)

    def next(self, kind):
        """Read up to the next frame of a kind."""
        return next(frame for frame in self.frames() if frame.type is kind)

    def send(self, spec, output_dir, data_root=None, *, resume=False):
        line = json.dumps(
            {
                "job_id": "j",
                "attempt": 1,
                "spec": spec.to_json(),
                "data_root": data_root,
                "output_dir": str(output_dir),
                "resume": resume,
            }
        )
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def exit_code(self):
        return self.process.wait(DEADLINE_S)


@pytest.fixture
def start(tmp_path):
    """Starts trainer processes, as a supervisor does, and ends them after the test."""
    started = []

    @contextmanager
    def alarm():
        # A child that hangs must not hang the tests: reads are blocking.
        timer = threading.Timer(DEADLINE_S, lambda: [one.process.kill() for one in started])
        timer.start()
        yield
        timer.cancel()

    def run(prefix=()):
        reading, writing = os.pipe()
        log_file = tmp_path / f"log-{len(started)}"
        program = [*prefix, sys.executable, "-m", "ampcore.child", "--frames-fd", str(writing)]
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                program,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[writing],
                start_new_session=True,
            )
        os.close(writing)
        started.append(Child(process, reading, log_file))
        return started[-1]

    with alarm():
        yield run
    for one in started:
        one.process.kill()
        one.process.wait()
        one.process.stdin.close()
        os.close(one._reading)


def test_a_job_is_told_from_ready_to_its_summary_with_every_step_once(start, job, tmp_path):
    spec = job(precision={"policy": "mixed_float16"}, train={"epochs": 2})
    process = start()
    ready = process.next(FrameType.READY)
    assert ready.header["hardware"]["devices"]
    assert set(ready.header["versions"]) == {"ampcore", "keras", "tensorflow"}

    process.send(spec, tmp_path / "output")
    frames = list(process.frames())
    assert process.exit_code() == 0

    kinds = [frame.type for frame in frames]
    assert kinds[0] is FrameType.RUNNING
    assert kinds[-1] is FrameType.SUCCEEDED
    assert set(kinds[1:-1]) == {FrameType.STEPS, FrameType.EVENT}
    assert frames[0].header["total_steps"] == 10

    tellings = [frame for frame in frames if frame.type is FrameType.STEPS]
    blocks = [decode(frame.payload) for frame in tellings]
    steps = StepBlock.concat(blocks)
    assert (steps.first_step, steps.end_step) == (0, 10)
    for frame, block in zip(tellings, blocks, strict=True):
        assert frame.header["first_step"] == block.first_step
        assert frame.header["count"] == len(block)
        assert frame.header["facts"] == asdict(block.facts)
        assert frame.header["last"]["loss"] == block["loss"][-1]
        assert frame.header["last"]["examples_per_s"] == block.examples_per_s

    # The same job in this process, never warmed up: bit for bit the same weights.
    summary = frames[-1].header["summary"]
    assert summary["weights_digest"] == Trainer(spec).run().weights_digest
    assert summary["steps"] == 10
    assert (tmp_path / "output" / summary["model_file"]).is_file()


def test_sigterm_stops_the_job_at_the_end_of_a_block(start, job, tmp_path):
    process = start()
    process.send(job(**ENDLESS), tmp_path)
    process.next(FrameType.STEPS)
    process.process.send_signal(signal.SIGTERM)
    *_, last = process.frames()
    assert last.type is FrameType.STOPPED
    assert process.exit_code() == 0
    assert not list(tmp_path.glob("*.keras"))


def test_a_stopped_job_goes_on_from_its_checkpoint_when_it_is_told_to(start, job, tmp_path):
    process = start()
    process.send(job(**ENDLESS), tmp_path)
    process.next(FrameType.STEPS)
    process.process.send_signal(signal.SIGTERM)
    *_, saved, last = process.frames()
    assert (saved.header["event"], last.type) == ("checkpoint_saved", FrameType.STOPPED)
    assert (tmp_path / saved.header["data"]["file"]).is_file()

    process = start()
    process.send(job(**ENDLESS), tmp_path, resume=True)
    running = process.next(FrameType.RUNNING)
    assert running.header["first_step"] == saved.header["step"] + 1 > 0
    assert process.next(FrameType.STEPS).header["first_step"] == running.header["first_step"]


def test_a_process_that_stands_by_leaves_quietly_when_its_input_ends(start):
    process = start()
    process.next(FrameType.READY)
    process.process.stdin.close()
    assert not list(process.frames())
    assert process.exit_code() == 0


def test_a_process_dies_when_its_supervisor_closes_the_input_of_a_running_job(start, job, tmp_path):
    process = start()
    process.send(job(**ENDLESS), tmp_path)
    process.next(FrameType.STEPS)
    process.process.stdin.close()
    list(process.frames())
    assert process.exit_code() == 1


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_a_process_dies_with_its_parent_even_while_its_input_stays_open(start):
    # The parent is a Python that starts the child with its own descriptors and waits.
    parent = "import subprocess, sys; subprocess.run(sys.argv[1:], close_fds=False)"
    process = start(prefix=[sys.executable, "-c", parent])
    process.next(FrameType.READY)
    [trainer] = psutil.Process(process.process.pid).children()
    process.process.kill()
    list(process.frames())  # ends only when the trainer's end of the pipe is closed
    wait_until(lambda: not trainer.is_running() or trainer.status() == psutil.STATUS_ZOMBIE)


def ended(document, *, stop=False):
    """The last frame of a job that is run in this process."""
    asked = threading.Event()
    if stop:
        asked.set()
    return child._train(json.dumps(document).encode(), io.BytesIO(), asked)


def test_bad_data_fail_the_job_with_reason_and_message(job, tmp_path):
    spec = job(data={"kind": "npz", "path": "../x.npz"})
    frame = ended({"spec": spec.to_json(), "data_root": str(tmp_path), "output_dir": "out"})
    assert frame.type is FrameType.FAILED
    assert frame.header["reason"] == Reason.INVALID_DATA
    assert frame.header["message"].startswith("../x.npz, path: expected a path inside")


def test_a_bad_spec_fails_the_job_with_its_problems():
    frame = ended({"spec": {"model": {"kind": "cnm"}}, "data_root": None, "output_dir": "out"})
    assert frame.header["reason"] == Reason.INVALID_SPEC
    assert "/model/kind" in frame.header["message"]
    assert "/data" in frame.header["message"]


def test_a_line_that_is_no_job_is_an_internal_error():
    assert ended({"job_id": "j"}).header["reason"] == Reason.INTERNAL_ERROR


def test_an_error_that_nobody_expected_is_an_internal_one(job, tmp_path, capsys):
    (tmp_path / "file").touch()
    spec = job(train={"steps": 1}).to_json()
    frame = ended({"spec": spec, "data_root": None, "output_dir": str(tmp_path / "file" / "in")})
    assert frame.header["reason"] == Reason.INTERNAL_ERROR
    assert "NotADirectoryError" in frame.header["message"]
    assert "Traceback" in capsys.readouterr().err


def test_a_stop_before_the_first_step_is_obeyed(job, tmp_path):
    document = {"spec": job().to_json(), "data_root": None, "output_dir": str(tmp_path)}
    assert ended(document, stop=True).type is FrameType.STOPPED
