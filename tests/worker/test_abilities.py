from pathlib import Path

import pytest

from worker import abilities


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    (tmp_path / "nvidiactl").touch()
    return tmp_path


def test_every_worker_serves_the_cpu(devices: Path) -> None:
    assert abilities.queues(None, devices=devices, environment={}) == ("default", "cpu")


@pytest.mark.parametrize("name", ["nvidia0", "nvidia12", "dxg"])
def test_a_gpu_is_an_ability(devices: Path, name: str) -> None:
    (devices / name).touch()
    assert abilities.queues(None, devices=devices, environment={}) == ("default", "cpu", "gpu")


@pytest.mark.parametrize("visible", ["", "-1"])
def test_a_gpu_that_is_hidden_is_none(devices: Path, visible: str) -> None:
    (devices / "nvidia0").touch()
    hidden = {"CUDA_VISIBLE_DEVICES": visible}
    assert "gpu" not in abilities.queues(None, devices=devices, environment=hidden)


def test_what_a_worker_is_told_to_serve_counts(devices: Path) -> None:
    (devices / "nvidia0").touch()
    assert abilities.queues(("night",), devices=devices) == ("night",)
