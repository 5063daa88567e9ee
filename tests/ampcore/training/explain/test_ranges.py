"""A run reports the ranges of its layers, and trains as if it did not."""

import pytest

from ampcore.training import Trainer
from ampspec.jobs import JobSpec
from ampspec.telemetry import EventType
from ampspec.telemetry.ranges.range_samples import RangeSample, TensorKind

STEPS = 12
EXACT = {"first_steps": 2, "growth": 2.0, "max_time_share": None}
SAMPLED = [0, 1, 2, 4, 8]


def spec(ranges, **sections):
    return JobSpec.parse(
        {
            "model": {"kind": "mlp", "hidden": [8], "dropout": 0.2},
            "data": {"kind": "digits", "batch_size": 32},
            "precision": {"policy": "mixed_float16"},
            "loss_scale": {"mode": "dynamic", "growth_interval": 3},
            "train": {"steps": STEPS, **sections.pop("train", {})},
            "runtime": {"engine": "graph"},
            "telemetry": {"ranges": ranges},
            **sections,
        }
    )


def run(job, output_dir=None, *, resume=False, blocks_to_train=1000):
    """The result, the blocks and the samples of a run."""
    events, blocks, left = [], [], iter(range(blocks_to_train))
    trainer = Trainer(job, output_dir=output_dir, resume=resume)
    result = trainer.run(blocks.append, events.append, lambda: next(left, None) is None)
    ranges = [event for event in events if event.type is EventType.RANGES]
    return result, blocks, [RangeSample.from_json(one.step, one.data) for one in ranges]


@pytest.fixture(scope="module")
def sampled():
    return run(spec(EXACT))


def test_samples_are_taken_at_the_steps_of_the_schedule(sampled):
    _, _, samples = sampled
    assert [sample.step for sample in samples] == SAMPLED


def test_a_sample_has_every_layer_with_its_dtype_and_all_kinds(sampled):
    _, blocks, samples = sampled
    layers = {layer.layer: layer for layer in samples[-1].layers}
    assert {name: layer.dtype for name, layer in layers.items()} == {
        "dense_1": "float16",
        "dense_dropout_1": "float16",
        "predictions": "float32",
    }
    assert set(layers["dense_1"].tensors) == set(TensorKind)
    scale = {row.first_step: float(row["loss_scale"][0]) for row in blocks}
    assert all(sample.scales["model"] > 0 for sample in samples)
    assert samples[0].scales["model"] == scale[0]


def test_sampling_does_not_change_the_training(sampled):
    plain, blocks, samples = run(spec({"enabled": False}))
    assert samples == []
    assert plain.weights_digest == sampled[0].weights_digest
    losses = [loss for block in blocks for loss in block["loss"].tolist()]
    assert losses == [loss for block in sampled[1] for loss in block["loss"].tolist()]


def test_a_resumed_run_continues_the_schedule_and_the_weights(sampled, tmp_path):
    job = spec(EXACT, train={"checkpoint_every_s": None})
    _, _, before = run(job, tmp_path, blocks_to_train=3)
    resumed, _, after = run(job, tmp_path, resume=True)
    assert [sample.step for sample in (*before, *after)] == SAMPLED
    assert resumed.weights_digest == sampled[0].weights_digest
    assert after[-1].to_json() == sampled[2][-1].to_json()


def test_a_sample_that_fails_ends_sampling_with_a_warning(monkeypatch):
    def fail(*_):
        raise MemoryError("out of memory")

    monkeypatch.setattr("ampcore.diagnostics.ranges.range_probe.RangeProbe.__call__", fail)
    events = []
    result = Trainer(spec(EXACT)).run(on_event=events.append)
    warnings = [event for event in events if event.type is EventType.WARNING]
    assert [event.data["code"] for event in warnings] == ["ranges_not_sampled"]
    assert "out of memory" in warnings[0].data["message"]
    assert result.steps == STEPS
