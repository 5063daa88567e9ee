"""Traces of a CPU and a GPU, with the planes and stats of TensorFlow's profiler."""

import pytest

from ampcore.profile.protos import xplane_pb2

MS = 10**9
"""Picoseconds in a millisecond."""


class PlaneBuilder:
    """Adds events to one plane of a trace."""

    def __init__(self, space, name):
        self.plane = space.planes.add(name=name)
        self._lines = {}

    def add(self, line, name, start_ms, duration_ms, **stats):
        if line not in self._lines:
            self._lines[line] = self.plane.lines.add(name=line, id=len(self._lines))
        event = self._lines[line].events.add(
            metadata_id=self._id(self.plane.event_metadata, name),
            offset_ps=int(start_ms * MS),
            duration_ps=int(duration_ms * MS),
        )
        for key, value in stats.items():
            stat = event.stats.add(metadata_id=self._id(self.plane.stat_metadata, key))
            if isinstance(value, int):
                stat.int64_value = value
            else:
                stat.ref_value = self._id(self.plane.stat_metadata, value)

    @staticmethod
    def _id(table, name):
        for number, metadata in table.items():
            if metadata.name == name:
                return number
        number = len(table) + 1
        table[number].name = name
        return number


@pytest.fixture
def space():
    """An empty trace."""
    return xplane_pb2().XSpace()


@pytest.fixture
def host(space):
    """The plane of the host."""
    return PlaneBuilder(space, "/host:CPU")


@pytest.fixture
def gpu(space):
    """The plane of a GPU."""
    return PlaneBuilder(space, "/device:GPU:0")
