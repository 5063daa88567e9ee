"""A stream is disconnected often while servers, a worker and Redis fail: each entry comes once."""

import json
import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import numpy as np

from ampclient import Job
from ampspec.jobs import State
from ampspec.telemetry.json_values import column_from_json
from tests.chaos import xdist_groups
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.reference_run import (
    BLOCK_STEPS,
    HOLD_STEP,
    SPEC,
    TOTAL_STEPS,
    assert_equals_reference,
    reached,
    scripted_reference,
)
from tests.chaos.service_processes import Api
from tests.waiting import join, wait_until

pytestmark = xdist_groups.SCRIPTED

MAX_ENTRIES = 3
"""Entries read per connection: few, so that the stream is disconnected often."""

StreamEntry = tuple[int | None, str, Any]


class StreamReader(threading.Thread):
    """Reads a few entries of a job's stream, disconnects, and continues at a random server."""

    def __init__(self, job: Job, apis: list[Api]) -> None:
        super().__init__()
        self.received: list[StreamEntry] = []
        self.disconnects = 0
        self.failure: Exception | None = None
        self._job, self._apis = job, apis
        self._random = random.Random(0)

    def run(self) -> None:
        try:
            while not self._is_over():
                with suppress(httpx.HTTPError):
                    self._read_some()
                self.disconnects += 1
        except Exception as error:
            self.failure = error

    def _is_over(self) -> bool:
        return bool(self.received) and self.received[-1][1] == "end"

    def _read_some(self) -> None:
        api, remaining = self._random.choice(self._apis), self._random.randint(1, MAX_ENTRIES)
        seen = [seq for seq, _, _ in self.received if seq is not None]
        headers = {"Last-Event-ID": str(seen[-1])} if seen else {}
        path = f"/api/v1/jobs/{self._job.id}/stream"
        with api.http.stream("GET", path, headers=headers) as response:
            response.raise_for_status()
            for event in events(response):
                self.received.append(event)
                remaining -= 1
                if not remaining:
                    return


def events(response: httpx.Response) -> Iterator[StreamEntry]:
    """The complete events of a response."""
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if line and not line.startswith((":", "retry:")):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            seq = int(fields["id"]) if "id" in fields else None
            yield seq, fields["event"], json.loads(fields["data"])
            fields = {}


def test_a_stream_disconnected_at_random_delivers_each_entry_once(
    cluster: Cluster,
) -> None:
    """Mechanisms: event ids are seqs, also inside merged blocks; streams keep no state.

    Checked: if store/telemetry/event_stream.py reads from the last seq instead of after it, entries
    arrive twice.
    """
    cluster.ensure_workers(2, SCRIPTED)
    first, second = cluster.apis[0], cluster.api()
    job = cluster.submit_paused_at(SPEC)
    reader = StreamReader(job, [first, second])
    reader.start()
    worker = cluster.wait_past_checkpoint(job)
    first.kill()
    worker.kill()
    first.start()
    first.wait_ready()
    cluster.expire_lease(job)
    wait_until(lambda: job.refresh().attempt == 2, "another worker takes the job")
    wait_until(lambda: reached(job, HOLD_STEP), "the job runs again")
    cluster.redis.stop(3.0)  # no notifications any more
    cluster.train_to_step(job, HOLD_STEP + 2 * BLOCK_STEPS)
    cluster.redis.start()
    assert first.stop() is not None
    first.start()
    first.wait_ready()
    job = cluster.finish(job)
    join(reader)
    assert reader.failure is None
    assert job.state is State.SUCCEEDED
    assert reader.disconnects > 5
    assert_complete(reader.received, job)
    assert_equals_reference(job, scripted_reference())


def assert_complete(received: list[StreamEntry], job: Job) -> None:
    """Assert that each entry arrived once and in order, and that the steps are complete."""
    seqs = [seq for seq, _, _ in received if seq is not None]
    assert seqs == sorted(set(seqs))
    losses_by_step: dict[int, float] = {}
    seen: set[tuple[int, int]] = set()
    for _, name, data in received:
        if name == "steps":
            steps = data["data"]["step"]
            losses = column_from_json(data["data"]["loss"])
            block = {(data["attempt"], step) for step in steps}
            assert not block & seen, "a step came twice"
            seen |= block
            losses_by_step |= dict(zip(steps, losses, strict=True))
    assert sorted(losses_by_step) == list(range(TOTAL_STEPS))
    stored = job.steps(columns=["loss"])["loss"]
    np.testing.assert_array_equal(
        np.array([losses_by_step[s] for s in range(TOTAL_STEPS)], np.float32), stored
    )
    event_seqs = [event.seq for event in job.events()]
    assert [seq for seq, name, _ in received if name in ("event", "state")] == event_seqs
    assert [data["text"] for _, name, data in received if name == "log"] == [
        e.text for e in job.logs()
    ]
