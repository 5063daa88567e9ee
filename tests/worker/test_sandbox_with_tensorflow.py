"""A real trainer in each sandbox: TensorFlow needs nothing that a sandbox takes away."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ampspec.telemetry import COLUMN_DTYPES, StepBlock
from ampspec.telemetry.frames import Frame, FrameType
from ampspec.telemetry.steps.codec import decode
from tests.needs import SANDBOX_NEEDS, require
from tests.waiting import DEADLINE_S
from tests.worker.protected_data import ProtectedData
from worker.trainer.sandbox import SandboxKind
from worker.trainer.sandbox_plan import SandboxMode, SandboxSettings, plan_sandbox
from worker.trainer.standby import Standby

USERS = range(60_940, 60_945)
MODEL: dict[str, Any] = {
    "data": {"kind": "digits", "batch_size": 64},
    "train": {"steps": 20},
    "runtime": {"engine": "graph"},
}


@pytest.fixture
def protected_data() -> Iterator[ProtectedData]:
    data = ProtectedData()
    yield data
    data.close()


@pytest.fixture
def standby() -> Iterator[Standby]:
    process = Standby()
    yield process
    process.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", SandboxKind)
def test_a_sandboxed_trainer_trains_and_saves_its_model(
    kind: SandboxKind,
    protected_data: ProtectedData,
    standby: Standby,
    make_spec: Callable[..., Any],
) -> None:
    mode = SandboxMode(kind)
    require(SANDBOX_NEEDS[mode])
    planned = plan_sandbox(
        SandboxSettings(mode),
        users=USERS,
        parent=protected_data.work_dirs.worker_dir,
        datasets=protected_data.data / "datasets",
    )
    assert planned.sandbox is not None
    folder = planned.sandbox.new_folder()
    trainer = standby.request_sandboxed(folder)
    try:
        spec = make_spec(**MODEL).model_dump(mode="json")
        paths = {"data_root": str(folder.confinement.datasets), "output_dir": str(folder.path)}
        trainer.assign({"job_id": "j", "attempt": 1, "spec": spec, **paths})
        frames: list[Frame] = []
        while trainer.has_more_frames:
            frames += trainer.read_frames(DEADLINE_S)
        frames += trainer.end(DEADLINE_S)
        log = [chunk.text for chunk in trainer.log_capture.take(now=True)]
        assert frames[-1].type is FrameType.SUCCEEDED, log
        assert trainer.exit_code == 0
        blocks = [frame for frame in frames if frame.type is FrameType.STEPS]
        steps = StepBlock.concat([decode(block.payload) for block in blocks])
        assert len(steps) == 20
        assert steps.names[: len(COLUMN_DTYPES)] == tuple(COLUMN_DTYPES)
        assert blocks[-1].header["last"]["loss"] == steps["loss"][-1]
        assert (folder.path / "model.keras").is_file()
    finally:
        trainer.discard()
    assert not folder.path.exists()
