from pathlib import Path

import pytest

from worker import capabilities


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    (tmp_path / "nvidiactl").touch()
    return tmp_path


def test_every_worker_serves_the_cpu(devices: Path) -> None:
    assert capabilities.queues_to_serve(None, devices=devices, environment={}) == ("default", "cpu")


@pytest.mark.parametrize("name", ["nvidia0", "nvidia12", "dxg"])
def test_a_machine_with_a_gpu_serves_the_gpu_queue(devices: Path, name: str) -> None:
    (devices / name).touch()
    assert capabilities.queues_to_serve(None, devices=devices, environment={}) == (
        "default",
        "cpu",
        "gpu",
    )


@pytest.mark.parametrize("visible", ["", "-1"])
def test_a_hidden_gpu_does_not_count(devices: Path, visible: str) -> None:
    (devices / "nvidia0").touch()
    hidden = {"CUDA_VISIBLE_DEVICES": visible}
    assert "gpu" not in capabilities.queues_to_serve(None, devices=devices, environment=hidden)


def test_configured_queues_take_precedence(devices: Path) -> None:
    (devices / "nvidia0").touch()
    assert capabilities.queues_to_serve(("night",), devices=devices) == ("night",)
