"""The examples of a run, step by step: resident on the device, or streamed."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampcore.data import ArrayExamples, Batch, feed
from ampcore.data.example_order import ExampleOrder, PartOrder
from ampcore.data.feed import ResidentFeed, StreamedFeed, feed_for
from ampcore.training import Trainer
from ampcore.training import context as run_context
from ampcore.training.step import step_runner
from ampspec.errors import InvalidData

EPOCHS = 3


def examples(count):
    """Each example holds its own number, and so does its label."""
    x = np.arange(count * 2, dtype=np.float32).reshape(count, 2)
    y = np.arange(count, dtype=np.int32)
    return ArrayExamples(Batch(x, y))


def order(count=20, step_examples=3, *, shuffle=True, seed=5):
    return ExampleOrder(count, step_examples, shuffle=shuffle, seed=seed)


def labels_of_step(made, epoch, batch):
    """The labels that the loop would slice from the window for this step."""
    examples, first, end = made.window(epoch, batch)
    assert first <= batch < end
    size = made.order.step_examples
    assert len(examples.y) == (end - first) * size
    part = slice((batch - first) * size, (batch - first + 1) * size)
    np.testing.assert_array_equal(examples.x[part][:, 0], 2.0 * examples.y.numpy()[part])
    return examples.y.numpy()[part].tolist()


@st.composite
def jobs(draw):
    """Sizes of a job, and the step that it begins with."""
    count = draw(st.integers(1, 40))
    step_examples = draw(st.integers(1, count))
    first = draw(st.integers(0, EPOCHS * (count // step_examples) - 1))
    return count, step_examples, first


# 12 bytes are one example.
@given(jobs(), st.booleans(), st.integers(0, 300))
@settings(max_examples=30, deadline=None)
def test_every_step_trains_on_its_part_of_the_order_resident_or_streamed(
    sizes, shuffle, window_bytes
):
    count, step_examples, first_step = sizes
    own, data = order(count, step_examples, shuffle=shuffle), examples(count)
    feeds = [ResidentFeed(data, own), StreamedFeed(data, own, window_bytes)]
    for step in range(first_step, EPOCHS * own.steps):
        epoch, batch = divmod(step, own.steps)
        expected = own.of_step(epoch, batch).tolist()
        for made in feeds:
            assert labels_of_step(made, epoch, batch) == expected


@given(st.integers(1, 4), st.integers(1, 3), st.booleans())
@settings(max_examples=15, deadline=None)
def test_ranks_train_on_consecutive_parts_of_each_step(ranks, size, shuffle):
    own, data = order(20, ranks * size, shuffle=shuffle), examples(20)
    parts = [PartOrder(own, rank, ranks) for rank in range(ranks)]
    feeds = [
        made
        for part in parts
        for made in (ResidentFeed(data, part), StreamedFeed(data, part, window_bytes=50))
    ]
    for step in range(2 * own.steps):
        epoch, batch = divmod(step, own.steps)
        expected = np.split(own.of_step(epoch, batch), ranks)
        for number, made in enumerate(feeds):
            found = labels_of_step(made, epoch, batch)
            assert found == expected[number // 2].tolist()
            assert found == made.order.of_step(epoch, batch).tolist()


def test_a_streamed_window_holds_as_many_steps_as_fit():
    made = StreamedFeed(examples(20), order(), window_bytes=12 * 3 * 2)
    windows = [made.window(0, batch)[1:] for batch in range(6)]
    assert windows == [(0, 2), (0, 2), (2, 4), (2, 4), (4, 6), (4, 6)]


def test_all_streamed_windows_have_the_same_length():
    made = StreamedFeed(examples(20), order(20, 4), window_bytes=12 * 4 * 2)
    windows = [made.window(0, batch) for batch in range(5)]
    assert [window[1:] for window in windows] == [(0, 2), (0, 2), (2, 4), (2, 4), (3, 5)]
    assert {tuple(window.examples.x.shape) for window in windows} == {(8, 2)}


def test_a_step_larger_than_the_window_size_has_its_own_window():
    made = StreamedFeed(examples(20), order(20, 10), window_bytes=1)
    assert made.window(0, 1)[1:] == (1, 2)


def test_an_epoch_uses_each_example_at_most_once_in_whole_steps():
    found = order().of_epoch(0)
    assert len(found) == 18
    assert len(set(found)) == 18
    assert set(found) <= set(range(20))


def test_with_shuffling_epochs_omit_different_examples():
    left_out = {frozenset(set(range(20)) - set(order().of_epoch(epoch))) for epoch in range(10)}
    assert len(left_out) > 1


def test_without_shuffling_every_epoch_has_the_order_of_the_data():
    assert order(shuffle=False).of_epoch(7).tolist() == list(range(18))


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**40))
@settings(deadline=None)
def test_the_order_depends_on_seed_and_epoch_alone(seed, epoch):
    one, again = (order(100, 7, seed=seed) for _ in range(2))
    again.of_epoch(epoch + 1)
    expected = one.of_epoch(epoch).tolist()
    assert again.of_epoch(epoch).tolist() == expected
    assert one.of_epoch(epoch + 1).tolist() != expected
    assert order(100, 7, seed=seed + 1).of_epoch(epoch).tolist() != expected


@pytest.mark.parametrize(
    ("shuffle", "budget_bytes", "kind"),
    [
        (True, 20 * 12 * 2, ResidentFeed),
        (True, 20 * 12 * 2 - 1, StreamedFeed),  # the copy in the epoch's order
        (False, 20 * 12, ResidentFeed),
        (False, 20 * 12 - 1, StreamedFeed),
        (True, float("inf"), ResidentFeed),
    ],
)
def test_data_is_streamed_when_it_does_not_fit(shuffle, budget_bytes, kind):
    made = feed_for(examples(20), 3, shuffle=shuffle, seed=0, budget_bytes=budget_bytes)
    assert type(made) is kind


def test_a_run_of_streamed_data_equals_one_of_resident_data(run_job, monkeypatch):
    resident = run_job(train={"epochs": 2})
    windows = []

    def streamed_feed(data, own):
        windows.append(StreamedFeed(data, own, window_bytes=2 * 256 * 65 * 4))
        return windows[0]

    monkeypatch.setattr(run_context, "RESIDENT_SHARE", 0.0)
    monkeypatch.setattr(feed, "StreamedFeed", streamed_feed)
    streamed = run_job(train={"epochs": 2})
    assert windows[0].window(0, 0)[1:] == (0, 2)
    assert streamed.without_times == resident.without_times
    assert streamed.result.weights_digest == resident.result.weights_digest


def test_data_too_small_for_one_accumulated_step_is_an_error_with_the_field(job, tmp_path):
    np.savez(tmp_path / "few.npz", x_train=np.ones((20, 3)), y_train=np.arange(20) % 2)
    data = {"kind": "npz", "path": str(tmp_path / "few.npz"), "batch_size": 8}
    spec = job(model={"kind": "mlp"}, data=data, train={"accumulate": 3})
    with pytest.raises(InvalidData, match=r"train\.accumulate: expected at most 2,.*received 3\."):
        Trainer(spec).run()


def test_the_wait_for_data_is_part_of_the_time_of_a_step(make_runner, monkeypatch):
    clock = SimpleNamespace(now=0.0)

    class SlowFeed(ResidentFeed):
        def window(self, epoch, batch):
            clock.now += 3.0
            return super().window(epoch, batch)

    made = make_runner(feed=SlowFeed, model={"kind": "mlp", "hidden": [4]})
    made.use_engine("graph")
    monkeypatch.setattr(step_runner, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    assert made.run_block(0)["step_time_s"].sum() == 3.0
