import sys
from types import SimpleNamespace
from typing import Any

import pytest

from worker import usage


class Driver:
    """NVML with one GPU, as the library shows it."""

    is_broken = False

    def nvmlInit(self) -> None:  # noqa: N802 - the library's name
        pass

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetMemoryInfo(self, _: int) -> Any:  # noqa: N802
        if self.is_broken:
            raise RuntimeError("GPU is lost")
        return SimpleNamespace(used=5, total=10)

    def nvmlDeviceGetName(self, _: int) -> str:  # noqa: N802
        return "H200"

    def nvmlDeviceGetUtilizationRates(self, _: int) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=50)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    driver = Driver()
    monkeypatch.setitem(sys.modules, "pynvml", driver)  # type: ignore[arg-type]
    return driver


def test_a_gpu_is_read_from_its_driver(driver: Driver) -> None:
    assert usage.Gpus().reading() == [
        {
            "index": 0,
            "name": "H200",
            "memory_used_bytes": 5,
            "memory_total_bytes": 10,
            "utilization": 0.5,
        }
    ]


def test_a_lost_gpu_is_left_out(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    gpus = usage.Gpus()
    gpus.reading()
    driver.is_broken = True
    assert gpus.reading() == []
    assert "GPU is lost" in caplog.text


def test_without_a_driver_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert usage.Gpus().reading() == []


def test_memory_is_in_bytes() -> None:
    memory = usage.peak_memory(trainer_peak_bytes=5)
    assert memory["worker_peak_bytes"] > 10 * 2**20
    assert memory["trainer_peak_bytes"] == 5
