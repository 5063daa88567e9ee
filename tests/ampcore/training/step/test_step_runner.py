from functools import partial

import numpy as np
import pytest

from ampcore.data.feed import StreamedFeed
from ampcore.precision import DynamicLossScale, NoLossScale
from ampspec.errors import InvalidModel

EVERYTHING = {
    "model": {"kind": "mlp", "hidden": [16], "dropout": 0.2},
    "precision": {"policy": "mixed_float16"},
    "loss_scale": {"mode": "dynamic", "initial": 2.0**24, "growth_interval": 2},
    "optimizer": {"kind": "adam", "schedule": {"kind": "cosine"}, "ema": 0.9},
    "train": {"epochs": 6, "accumulate": 2},
}
GAN = {"kind": "gan", "latent": 4, "generator": [4, 4], "discriminator": [4]}


@pytest.fixture(scope="module")
def made(make_runner):
    runner = make_runner(**EVERYTHING)
    runner.use_engine("graph")
    return runner, runner.state.capture()


@pytest.fixture
def runner(made):
    runner, start = made
    runner.state.restore(start)
    return runner


def rows(runner, first_step, count):
    """The columns, without the times, of `count` steps from `first_step` on."""
    found, step = [], first_step
    while step < first_step + count:
        block = runner.run_block(step)
        assert block.first_step == step
        values = [block[name] for name in block.names if name != "step_time_s"]
        found.append(np.array(values, np.float64).T)
        step = block.end_step
    return np.concatenate(found)[:count]


def test_everything_that_the_next_step_depends_on_is_captured(runner):
    rows(runner, 0, 3)
    saved = runner.state.capture()
    expected = rows(runner, 3, 5)
    ended = runner.state.capture()
    assert expected[:, 2].any()  # a step was skipped, so the loss scale moved
    runner.state.restore(saved)
    np.testing.assert_array_equal(rows(runner, 3, 5), expected)
    np.testing.assert_equal(runner.state.capture(), ended)


def test_captured_arrays_are_copies(runner):
    saved = runner.state.capture()
    before = {name: array.copy() for name, array in saved.items()}
    rows(runner, 0, 5)
    np.testing.assert_equal(saved, before)


def test_captured_names_are_the_same_in_every_build_of_a_job(made, make_runner):
    assert list(make_runner(**EVERYTHING).state.capture()) == list(made[1])


def test_a_state_can_be_restored_without_its_loss_scales(runner):
    saved = runner.state.capture()
    rows(runner, 0, 3)
    scale = runner.state.smallest_scale
    runner.state.restore(saved, scales=False)
    assert runner.state.smallest_scale == scale < 2.0**24
    variables, scales = runner.state.split_loss_scales(runner.state.capture())
    assert set(variables) == set(runner.state.expected_arrays())
    assert set(scales).isdisjoint(variables)
    for name, array in variables.items():
        np.testing.assert_array_equal(array, saved[name])


def test_expected_arrays_have_the_captured_shapes_and_dtypes(runner):
    variables, _ = runner.state.split_loss_scales(runner.state.capture())
    found = {name: (array.shape, array.dtype.name) for name, array in variables.items()}
    assert runner.state.expected_arrays() == found


def test_lowered_scales_stay_within_their_bounds(runner):
    runner.state.lower_scales(0.25)
    assert runner.state.smallest_scale == 2.0**22
    runner.state.lower_scales(2.0**-60)
    assert runner.state.smallest_scale == 1.0


def test_another_engine_continues_with_the_states_of_the_last_one(make_runner):
    runner = make_runner(**EVERYTHING)
    runner.use_engine("graph")
    rows(runner, 0, 1)
    assert runner.state.smallest_scale == 2.0**23
    runner.use_engine("graph", 1)
    assert runner.state.smallest_scale == 2.0**23


def test_an_engine_must_be_chosen_first(make_runner):
    with pytest.raises(RuntimeError, match=r"use_engine\(\)"):
        make_runner().run_block(0)


def test_a_block_ends_with_its_epoch_and_with_its_window(make_runner):
    feed = partial(StreamedFeed, window_bytes=2 * 256 * 65 * 4)
    runner = make_runner(feed, train={"epochs": 30})  # of 5 steps, in windows of 2
    runner.use_engine("graph")
    blocks, step = [], 0
    while step < 60:
        blocks.append(runner.run_block(step))
        step = blocks[-1].end_step
    positions = [(step // 5, step % 5 // 2) for step in range(60)]
    assert max(map(len, blocks)) == 2
    for block in blocks:
        assert positions[block.first_step] == positions[block.end_step - 1]


def test_a_step_counts_the_examples_of_all_its_micro_batches(runner):
    assert runner.run_block(0)["examples"][0] == runner.step_examples == 2 * 256


def test_each_network_has_the_optimizer_that_the_spec_gives_it(make_runner):
    runner = make_runner(
        model=GAN,
        optimizer={"kind": "sgd", "learning_rate": 0.5},
        optimizers={"discriminator": {"kind": "adam", "learning_rate": 0.25, "clip_norm": 3.0}},
    )
    found = {
        network.name: (optimizer.name, float(optimizer.learning_rate), clip.norm)
        for network, optimizer, clip in zip(
            runner.networks, runner.train_step.optimizers, runner.train_step.clips, strict=True
        )
    }
    assert found == {"generator": ("sgd", 0.5, None), "discriminator": ("adam", 0.25, 3.0)}
    assert runner.step_examples == 2 * 256  # real and generated images


@pytest.mark.parametrize("spec", [{"policy": "auto"}, {"policy": "mixed_float16"}])
def test_an_automatic_loss_scale_is_dynamic_if_layers_compute_in_float16(make_runner, spec):
    runner = make_runner(precision=spec, loss_scale={"mode": "auto"})
    float16 = "float16" in runner.policies.compute_dtypes
    assert float16 == (spec["policy"] == "mixed_float16")
    assert runner.train_step.loss_scales == [DynamicLossScale() if float16 else NoLossScale()]
    assert runner.train_step.checks_finite


def test_a_float32_runner_has_neither_mixed_precision_nor_a_loss_scale(make_runner):
    runner = make_runner(float32=True, **EVERYTHING)
    assert runner.policies.name == "float32"
    assert runner.train_step.checks_finite
    assert {dtype for _, dtype in runner.state.expected_arrays().values()} <= {
        "float32",
        "int64",
        "uint32",
    }


def test_an_override_that_matches_no_layer_is_refused_with_the_field(make_runner):
    overrides = [{"layers": "nowhere", "dtype": "bfloat16"}]
    with pytest.raises(InvalidModel, match=r"precision\.overrides/0/layers"):
        make_runner(precision={"policy": "float32", "overrides": overrides})
