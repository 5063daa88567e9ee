"""A stream that is cut, over and over, while everything around it falls: one story, once."""

import json
import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import numpy as np

from ampclient import Job
from ampcore.series.jsonable import column_from_json
from ampcore.spec import State
from tests.chaos import groups
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.members import Api
from tests.chaos.runs import BLOCK, HELD_AT, SPEC, STEPS, assert_undisturbed, reached, scripted
from tests.waiting import join, wait_until

pytestmark = groups.SCRIPTED

MOST = 3
"""Entries that are read of one stream: few, so that it is cut often."""

Told = tuple[int | None, str, Any]


class Listener(threading.Thread):
    """Reads some events of a job's stream, hangs up, and goes on at any of the servers."""

    def __init__(self, job: Job, apis: list[Api]) -> None:
        super().__init__()
        self.told: list[Told] = []
        self.cuts = 0
        self.failure: Exception | None = None
        self._job, self._apis = job, apis
        self._random = random.Random(0)

    def run(self) -> None:
        try:
            while not self._is_over():
                with suppress(httpx.HTTPError):
                    self._read_some()
                self.cuts += 1
        except Exception as error:
            self.failure = error

    def _is_over(self) -> bool:
        return bool(self.told) and self.told[-1][1] == "end"

    def _read_some(self) -> None:
        api, most = self._random.choice(self._apis), self._random.randint(1, MOST)
        heard = [seq for seq, _, _ in self.told if seq is not None]
        headers = {"Last-Event-ID": str(heard[-1])} if heard else {}
        path = f"/api/v1/jobs/{self._job.id}/stream"
        with api.http.stream("GET", path, headers=headers) as answer:
            answer.raise_for_status()
            for event in events(answer):
                self.told.append(event)
                most -= 1
                if not most:
                    return


def events(answer: httpx.Response) -> Iterator[Told]:
    """What is told, as far as it is whole."""
    fields: dict[str, str] = {}
    for line in answer.iter_lines():
        if line and not line.startswith((":", "retry:")):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            seq = int(fields["id"]) if "id" in fields else None
            yield seq, fields["event"], json.loads(fields["data"])
            fields = {}


def test_a_stream_cut_at_random_tells_the_story_once_whatever_falls(
    cluster: Cluster,
) -> None:
    """The guards: ids are seqs, also inside merged blocks; streams hold nothing and end in time.

    Checked: where store/stories.py reads from the last seq on, and not behind it, entries come
    twice.
    """
    cluster.crew(2, SCRIPTED)
    first, second = cluster.apis[0], cluster.api()
    job = cluster.submit_held(SPEC)
    listener = Listener(job, [first, second])
    listener.start()
    worker = cluster.past_a_checkpoint(job)
    first.kill()
    worker.kill()
    first.start()
    first.wait_ready()
    cluster.lapse(job)
    wait_until(lambda: job.refresh().attempt == 2, "another worker takes the job")
    wait_until(lambda: reached(job, HELD_AT), "the job runs again")
    cluster.redis.stop(3.0)  # no bell rings any more
    cluster.train_to(job, HELD_AT + 2 * BLOCK)
    cluster.redis.start()
    assert first.stop() is not None
    first.start()
    first.wait_ready()
    job = cluster.finish(job)
    join(listener)
    assert listener.failure is None
    assert job.state is State.SUCCEEDED
    assert listener.cuts > 5
    assert_whole(listener.told, job)
    assert_undisturbed(job, scripted())


def assert_whole(told: list[Told], job: Job) -> None:
    """That each entry was told once, in order, and the steps make up the series."""
    seqs = [seq for seq, _, _ in told if seq is not None]
    assert seqs == sorted(set(seqs))
    series: dict[int, float] = {}
    heard: set[tuple[int, int]] = set()
    for _, name, data in told:
        if name == "steps":
            steps = data["data"]["step"]
            losses = column_from_json(data["data"]["loss"])
            mine = {(data["attempt"], step) for step in steps}
            assert not mine & heard, "a step came twice"
            heard |= mine
            series |= dict(zip(steps, losses, strict=True))
    assert sorted(series) == list(range(STEPS))
    kept = job.steps(columns=["loss"])["loss"]
    np.testing.assert_array_equal(np.array([series[s] for s in range(STEPS)], np.float32), kept)
    ledger = [event.seq for event in job.events()]
    assert [seq for seq, name, _ in told if name in ("event", "state")] == ledger
    assert [data["text"] for _, name, data in told if name == "log"] == [e.text for e in job.logs()]
