"""Shared fixtures of the preflight tests: devices, and the findings about a job on them."""

import pytest

from ampspec.precision.devices import DeviceInfo
from ampspec.preflight import preflight


@pytest.fixture(scope="session")
def cpu():
    return DeviceInfo("cpu", "an old CPU", memory_bytes=2**34)


@pytest.fixture(scope="session")
def gpu():
    """Makes GPUs; the default one is fast in every dtype."""

    def make(*compute_capability, memory_bytes=2**36):
        capability = compute_capability or (9, 0)
        return DeviceInfo("gpu", "a GPU", capability, memory_bytes=memory_bytes)

    return make


@pytest.fixture(scope="session")
def findings_of(job):
    """The findings about a job by code; `on` is the only device of the only machine."""

    def find(on=None, **parts):
        machines = [(on,)] if on is not None else []
        findings = preflight(job(**parts), machines).findings
        assert len({finding.message for finding in findings}) == len(findings)
        return {finding.code: finding for finding in findings}

    return find
