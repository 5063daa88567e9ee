"""Columns that are read from the objects of PyTorch and JAX, and from the process."""

from types import SimpleNamespace
from typing import NamedTuple

import pytest

from ampclient import loss_scale_columns
from ampclient.tracking.watched import watched
from ampspec.telemetry.process_usage import CPU, MEMORY, ProcessUsage


class GradScaler:
    """The public behaviour of torch.amp.GradScaler: halves after a skip, doubles after `every`."""

    def __init__(self, every=2):
        self.scale, self.every, self.good, self.is_finite = 8.0, every, 0, True

    def get_scale(self):
        return self.scale

    def update(self, new_scale=None):
        if new_scale is not None:
            self.scale = new_scale
            return
        self.good = self.good + 1 if self.is_finite else 0
        if not self.is_finite:
            self.scale /= 2
        elif self.good == self.every:
            self.scale, self.good = self.scale * 2, 0


def steps(scaler, *finite):
    for is_finite in finite:
        scaler.is_finite = is_finite
        scaler.update()


def test_a_row_has_the_scale_that_its_step_used_and_whether_it_was_skipped():
    scaler = GradScaler()
    scale = watched(scaler)
    assert scale.columns() == {"loss_scale": 8.0, "skipped": False}
    rows = []
    for is_finite in (True, True, False, True):
        steps(scaler, is_finite)
        rows.append(tuple(scale.columns().values()))
    assert rows == [(8.0, False), (8.0, False), (16.0, True), (8.0, False)]


def test_a_row_of_several_steps_says_whether_any_was_skipped():
    scaler = GradScaler()
    scale = watched(scaler)
    steps(scaler, True, False, True)
    assert scale.columns() == {"loss_scale": 4.0, "skipped": True}
    scaler.update(new_scale=1.0)  # set by the program: no skip
    assert scale.columns() == {"loss_scale": 4.0, "skipped": False}


def test_each_group_of_parameters_has_a_learning_rate():
    optimizer = SimpleNamespace(param_groups=[{"lr": 0.1}, {"lr": 0.2}])
    assert watched(optimizer).columns() == {"learning_rate": 0.1, "learning_rate_2": 0.2}
    with pytest.raises(TypeError, match=r"expected a torch\.amp\.GradScaler .* received list"):
        watched([])


class ApplyIfFiniteState(NamedTuple):
    last_finite: bool


@pytest.mark.parametrize(
    ("state", "is_finite", "columns"),
    [
        (SimpleNamespace(scale=8), False, {"loss_scale": 8.0, "skipped": True}),
        (SimpleNamespace(loss_scale=4.0), None, {"loss_scale": 4.0}),
        (((), {"a": ApplyIfFiniteState(False)}), None, {"skipped": True}),
    ],
    ids=["flax", "jmp", "optax"],
)
def test_a_step_in_jax_has_a_scale_and_whether_it_was_skipped(state, is_finite, columns):
    assert loss_scale_columns(state, is_finite) == columns


def test_a_state_without_a_scale_is_refused():
    with pytest.raises(TypeError, match="received dict"):
        loss_scale_columns({"a": 1})


def test_a_run_has_the_columns_of_what_it_watches_unless_they_are_given(client, stored):
    scaler = GradScaler()
    with client.runs.track("watched") as run:
        run.watch(scaler, SimpleNamespace(param_groups=[{"lr": 0.5}]), usage_every_s=0.0)
        for step, is_finite in enumerate((True, False)):
            steps(scaler, is_finite)
            run.log(step, loss=1.0, learning_rate=0.25 if step else None)
    block = stored(run)
    assert block["loss_scale"].tolist() == [8.0, 8.0]
    assert block["skipped"].tolist() == [False, True]
    assert block["learning_rate"].tolist() == [0.5, 0.25]
    assert block[MEMORY][0] > 10_000_000


def sampled(*seconds, every_s=10.0):
    """A usage whose clock shows these times, the first when it is made."""
    times = iter(seconds)
    return ProcessUsage(every_s, has_gpu=False, clock=lambda: next(times))


def test_samples_are_taken_when_they_are_due():
    usage = sampled(0.0, 9.0, 10.0, 15.0)
    assert usage.sample_if_due() == {}
    # What the processor did is known from the second sample on.
    assert set(usage.sample_if_due()) == {MEMORY}
    assert usage.sample_if_due() == {}
    assert ProcessUsage(None).sample_if_due() == {}


def test_processor_time_is_counted_in_cores():
    usage = sampled(0.0, 10.0, 20.0, 20.0)
    usage.sample_if_due()
    sum(number for number in range(3_000_000))
    assert 0 < usage.sample_if_due()[CPU] < 6


def test_samples_that_take_long_become_rarer():
    usage = sampled(0.0, 10.0, 20.0, 22.0, 400.0, 1100.0, 1100.0)
    assert usage.sample_if_due()
    assert usage.sample_if_due()
    assert usage.sample_if_due() == {}
    assert usage.sample_if_due()
