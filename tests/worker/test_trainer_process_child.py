import io
import json
import os
import signal
import threading
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import pytest

from ampcore.distributed import Cluster
from ampcore.distributed.cores import cores_of_rank
from ampcore.distributed.launcher import free_addresses
from ampcore.training import Trainer
from ampspec.jobs import Reason
from ampspec.telemetry import StepBlock
from ampspec.telemetry.frames import FrameType
from ampspec.telemetry.steps.steps_frame import read_steps
from tests.waiting import DEADLINE_S
from tests.worker.fork_client import TRAINER_COMMAND, Server
from worker.trainer.child import trainer_process

pytestmark = pytest.mark.slow

ENDLESS = {"train": {"epochs": 1_000_000}, "runtime": {"engine": "graph"}}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server for all tests, because loading TensorFlow takes long."""
    server = Server(TRAINER_COMMAND, tmp_path_factory.mktemp("trainers"))
    yield server
    server.close()


@pytest.fixture
def start(server):
    """Starts trainer processes, as a supervisor does, and ends them after the test."""
    child_count = len(server.children)
    # A child that hangs must not hang the tests: reads are blocking.
    timer = threading.Timer(DEADLINE_S, server.process.kill)
    timer.start()
    yield server.fork
    timer.cancel()
    for child in server.children[child_count:]:
        child.close()  # the server then kills the trainer
    del server.children[child_count:]


def test_ranks_train_together_and_rank_0_alone_reports_the_job(start, job, tmp_path):
    spec = job(runtime={"devices": 2, "engine": "graph"}, train={"steps": 6})
    addresses = free_addresses(2)
    # A standby has used TensorFlow before it learns that it is a rank.
    ranks = [start(), start(is_standby=True)]
    for rank, process in enumerate(ranks):
        cluster = Cluster(addresses, rank, timeout_s=DEADLINE_S)
        process.send(spec, tmp_path / str(rank), cluster=cluster)
    frames = [list(process.frames()) for process in ranks]
    assert [process.exit_code() for process in ranks] == [0, 0]
    assert {frame.type for frame in frames[0]} == {
        *(FrameType.READY, FrameType.RUNNING, FrameType.ACTIVITY, FrameType.STEPS),
        *(FrameType.EVENT, FrameType.SUCCEEDED),
    }
    frame_types = [frame.type for frame in frames[1]]
    assert frame_types == [FrameType.READY, FrameType.RUNNING, FrameType.SUCCEEDED]
    summaries = [rank_frames[-1].header["summary"] for rank_frames in frames]
    assert summaries[0]["weights_digest"] == summaries[1]["weights_digest"]
    assert (tmp_path / "0" / "model.keras").exists()
    assert not (tmp_path / "1").exists()


def test_a_rank_computes_on_its_share_of_the_cores(start, job, tmp_path):
    process = start()
    process.send(job(**ENDLESS), tmp_path, own_ranks=(1, 2))
    process.next(FrameType.STEPS)
    share = cores_of_rank(1, 2, sorted(os.sched_getaffinity(0)))
    names = {
        int(task.name): (task / "comm").read_text().strip()
        for task in Path(f"/proc/{process.pid}/task").iterdir()
    }
    tensorflow = [tid for tid, name in names.items() if name.startswith("tf_")]
    assert tensorflow, names
    for tid in (process.pid, *tensorflow):
        assert os.sched_getaffinity(tid) == set(share), names[tid]


def test_a_cluster_that_cannot_be_read_fails_the_job(start, job, tmp_path):
    process = start()
    document = {"spec": job().to_json(), "data_root": None, "output_dir": str(tmp_path)}
    process._stdin.write(json.dumps({**document, "cluster": {"rank": 0}}).encode() + b"\n")
    *_, last = process.frames()
    assert last.type is FrameType.FAILED
    assert "addresses: expected a value; received none" in last.header["message"]


def test_a_job_writes_frames_from_ready_to_its_summary_with_every_step_once(start, job, tmp_path):
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
    assert set(kinds[1:-1]) == {FrameType.ACTIVITY, FrameType.STEPS, FrameType.EVENT}
    activities = [f.header["activity"] for f in frames if f.type is FrameType.ACTIVITY]
    assert activities[:2] == ["compiling", "training"]
    assert activities[-2:] == ["evaluating", "saving"]
    assert frames[0].header["total_steps"] == 10

    step_frames = [frame for frame in frames if frame.type is FrameType.STEPS]
    blocks = [read_steps(frame) for frame in step_frames]
    steps = StepBlock.concat(blocks)
    assert (steps.first_step, steps.end_step) == (0, 10)
    assert {frame.header["scale_health"] for frame in step_frames} == {"warming up"}

    # The same job in this process, not forked: bit for bit the same weights.
    summary = frames[-1].header["summary"]
    assert summary["weights_digest"] == Trainer(spec).run().weights_digest
    assert summary["steps"] == 10
    assert (tmp_path / "output" / summary["model_file"]).is_file()


def test_sigterm_stops_the_job_at_the_end_of_a_block(start, job, tmp_path):
    process = start()
    process.send(job(**ENDLESS), tmp_path)
    process.next(FrameType.STEPS)
    os.kill(process.pid, signal.SIGTERM)
    *_, last = process.frames()
    assert last.type is FrameType.STOPPED
    assert process.exit_code() == 0
    assert not list(tmp_path.glob("*.keras"))


def test_a_running_job_is_profiled_on_request(start, job, tmp_path):
    process = start()
    process.send(job(**ENDLESS), tmp_path)
    process.next(FrameType.STEPS)
    process.request_profile(3)
    while (event := process.next(FrameType.EVENT)).header["event"] != "profile":
        pass
    report = json.loads((tmp_path / event.header["data"]["file"]).read_bytes())
    assert report["steps"] == event.header["data"]["steps"] == 3
    assert report["operations"]
    os.kill(process.pid, signal.SIGTERM)
    assert list(process.frames())[-1].type is FrameType.STOPPED


def test_a_stopped_job_resumes_from_its_checkpoint_on_request(start, job, tmp_path):
    process = start()
    process.send(job(**ENDLESS), tmp_path)
    process.next(FrameType.STEPS)
    os.kill(process.pid, signal.SIGTERM)
    *_, saved, times, last = process.frames()
    assert times.header["event"] == "step_times"
    assert (saved.header["event"], last.type) == ("checkpoint_saved", FrameType.STOPPED)
    assert (tmp_path / saved.header["data"]["file"]).is_file()

    process = start()
    process.send(job(**ENDLESS), tmp_path, resume=True)
    running = process.next(FrameType.RUNNING)
    assert running.header["first_step"] == saved.header["step"] + 1 > 0
    assert process.next(FrameType.STEPS).header["first_step"] == running.header["first_step"]


def test_an_idle_process_exits_with_0_when_its_input_is_closed(start):
    process = start()
    process.next(FrameType.READY)
    process.close_input()
    assert not list(process.frames())
    assert process.exit_code() == 0


def test_a_process_exits_with_1_when_the_input_of_its_running_job_is_closed(start, job, tmp_path):
    process = start()
    process.send(job(**ENDLESS), tmp_path)
    process.next(FrameType.STEPS)
    process.close_input()
    list(process.frames())
    assert process.exit_code() == 1


def test_all_trainers_of_a_server_train_a_job_to_the_same_weights(start, job, tmp_path):
    """`benchmarks/forked_trainers.py` does so 500 times."""
    spec = job(
        precision={"policy": "mixed_float16"}, train={"steps": 3}, runtime={"engine": "graph"}
    )
    digests = set()
    for number in range(4):
        process = start(is_standby=number == 0)  # the first one warms up before its job
        process.send(spec, tmp_path / str(number))
        digests.add(process.next(FrameType.SUCCEEDED).header["summary"]["weights_digest"])
        assert process.exit_code() == 0
        process.reap()
    assert digests == {Trainer(spec).run().weights_digest}


def run_in_process(document, *, stop=False):
    """The last frame of a job that is run in this process."""
    stop_requested = threading.Event()
    if stop:
        stop_requested.set()
    line = json.dumps(document).encode()
    return trainer_process._train(line, io.BytesIO(), stop_requested, SimpleQueue())


def test_invalid_data_fails_the_job_with_reason_and_message(job, tmp_path):
    spec = job(data={"kind": "npz", "path": "../x.npz"})
    frame = run_in_process(
        {"spec": spec.to_json(), "data_root": str(tmp_path), "output_dir": "out"}
    )
    assert frame.type is FrameType.FAILED
    assert frame.header["reason"] == Reason.INVALID_DATA
    assert frame.header["message"].startswith("../x.npz, path: expected a path inside")


def test_an_invalid_spec_fails_the_job_with_its_problems():
    frame = run_in_process(
        {"spec": {"model": {"kind": "cnm"}}, "data_root": None, "output_dir": "out"}
    )
    assert frame.header["reason"] == Reason.INVALID_SPEC
    assert "/model/kind" in frame.header["message"]
    assert "/data" in frame.header["message"]


def test_a_malformed_job_is_an_internal_error():
    assert run_in_process({"job_id": "j"}).header["reason"] == Reason.INTERNAL_ERROR


def test_an_unexpected_exception_is_an_internal_error(job, tmp_path, capsys):
    (tmp_path / "file").touch()
    spec = job(train={"steps": 1}).to_json()
    frame = run_in_process(
        {"spec": spec, "data_root": None, "output_dir": str(tmp_path / "file" / "in")}
    )
    assert frame.header["reason"] == Reason.INTERNAL_ERROR
    assert "NotADirectoryError" in frame.header["message"]
    assert "Traceback" in capsys.readouterr().err


def test_a_broken_pipe_of_the_jobs_custom_code_is_an_error_of_the_job(job, tmp_path, monkeypatch):
    def load(*_, **__):
        raise BrokenPipeError("their server has gone")

    monkeypatch.setattr("ampcore.data.load_unchecked", load)
    document = {"spec": job().to_json(), "data_root": None, "output_dir": str(tmp_path)}
    frame = run_in_process(document)
    assert frame.header["reason"] == Reason.INTERNAL_ERROR
    assert "their server has gone" in frame.header["message"]


def test_a_stop_request_before_the_first_step_stops_the_job(job, tmp_path):
    document = {"spec": job().to_json(), "data_root": None, "output_dir": str(tmp_path)}
    assert run_in_process(document, stop=True).type is FrameType.STOPPED


def test_a_stored_job_of_an_older_version_is_evaluated_on_the_rows_that_it_was_split_with(
    job, tmp_path
):
    """Its spec has no split_seed: `train.seed` drew the rows 4, 12, 16 and 17 of 20."""
    lines = "".join(f"{row},{row}\n" for row in range(20))
    (tmp_path / "birds.csv").write_text(f"x,y\n{lines}")
    data = {"kind": "csv", "path": "birds.csv", "target": "y", "batch_size": 4}
    layers = [{"layer": "Dense", "name": "out", "units": "classes"}]
    spec = job(
        data=data,
        model={"kind": "layers", "layers": layers},
        task={"kind": "regression"},
        train={"steps": 2, "seed": 7},
        runtime={"engine": "graph"},
    ).to_json()
    del spec["data"]["split_seed"]
    output = tmp_path / "output"
    document = {"spec": spec, "data_root": str(tmp_path), "output_dir": str(output)}
    assert run_in_process(document).type is FrameType.SUCCEEDED
    assert np.load(output / "validation_examples.npy")["row"].tolist() == [4, 12, 16, 17]
