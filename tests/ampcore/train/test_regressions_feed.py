"""What data once did to a run: too little of it, or too slow."""

from types import SimpleNamespace

import numpy as np
import pytest

from ampcore.errors import InvalidData
from ampcore.train import Trainer, session
from ampcore.train.feed import ResidentFeed


def test_data_too_small_for_one_accumulated_step_is_an_error_with_the_field(job, tmp_path):
    np.savez(tmp_path / "few.npz", x_train=np.ones((20, 3)), y_train=np.arange(20) % 2)
    data = {"kind": "npz", "path": str(tmp_path / "few.npz"), "batch_size": 8}
    spec = job(model={"kind": "mlp"}, data=data, train={"accumulate": 3})
    with pytest.raises(InvalidData, match=r"train\.accumulate: expected at most 2,.*received 3\."):
        Trainer(spec).run()


def test_the_wait_for_data_is_part_of_the_time_of_a_step(make_session, monkeypatch):
    clock = SimpleNamespace(now=0.0)

    class SlowFeed(ResidentFeed):
        def window(self, epoch, batch):
            clock.now += 3.0
            return super().window(epoch, batch)

    made = make_session(feed=SlowFeed, model={"kind": "mlp", "hidden": [4]})
    made.use("graph")
    monkeypatch.setattr(session, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    assert made.run_block(0)["step_time_s"].sum() == 3.0
