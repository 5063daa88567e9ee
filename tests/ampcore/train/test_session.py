from functools import partial

import numpy as np
import pytest

from ampcore.precision import DynamicLossScale, NoLossScale
from ampcore.train.feed import StreamedFeed
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
def made(make_session):
    session = make_session(**EVERYTHING)
    session.use_engine("graph")
    return session, session.capture()


@pytest.fixture
def session(made):
    session, start = made
    session.restore(start)
    return session


def rows(session, first_step, count):
    """The columns, without the times, of `count` steps from `first_step` on."""
    found, step = [], first_step
    while step < first_step + count:
        block = session.run_block(step)
        assert block.first_step == step
        values = [block[name] for name in block.names if name != "step_time_s"]
        found.append(np.array(values, np.float64).T)
        step = block.end_step
    return np.concatenate(found)[:count]


def test_everything_that_the_next_step_depends_on_is_captured(session):
    rows(session, 0, 3)
    saved = session.capture()
    expected = rows(session, 3, 5)
    ended = session.capture()
    assert expected[:, 2].any()  # a step was skipped, so the loss scale moved
    session.restore(saved)
    np.testing.assert_array_equal(rows(session, 3, 5), expected)
    np.testing.assert_equal(session.capture(), ended)


def test_captured_arrays_are_copies(session):
    saved = session.capture()
    before = {name: array.copy() for name, array in saved.items()}
    rows(session, 0, 5)
    np.testing.assert_equal(saved, before)


def test_captured_names_are_the_same_in_every_build_of_a_job(made, make_session):
    assert list(make_session(**EVERYTHING).capture()) == list(made[1])


def test_a_state_can_be_restored_without_its_loss_scales(session):
    saved = session.capture()
    rows(session, 0, 3)
    scale = session.smallest_scale
    session.restore(saved, scales=False)
    assert session.smallest_scale == scale < 2.0**24
    variables, scales = session.split_loss_scales(session.capture())
    assert set(variables) == set(session.expected_arrays())
    assert set(scales).isdisjoint(variables)
    for name, array in variables.items():
        np.testing.assert_array_equal(array, saved[name])


def test_expected_arrays_have_the_captured_shapes_and_dtypes(session):
    variables, _ = session.split_loss_scales(session.capture())
    found = {name: (array.shape, array.dtype.name) for name, array in variables.items()}
    assert session.expected_arrays() == found


def test_lowered_scales_stay_within_their_bounds(session):
    session.lower_scales(0.25)
    assert session.smallest_scale == 2.0**22
    session.lower_scales(2.0**-60)
    assert session.smallest_scale == 1.0


def test_another_engine_continues_with_the_states_of_the_last_one(make_session):
    session = make_session(**EVERYTHING)
    session.use_engine("graph")
    rows(session, 0, 1)
    assert session.smallest_scale == 2.0**23
    session.use_engine("graph", 1)
    assert session.smallest_scale == 2.0**23


def test_an_engine_must_be_chosen_first(make_session):
    with pytest.raises(RuntimeError, match=r"use_engine\(\)"):
        make_session().run_block(0)


def test_a_block_ends_with_its_epoch_and_with_its_window(make_session):
    feed = partial(StreamedFeed, window_bytes=2 * 256 * 65 * 4)
    session = make_session(feed, train={"epochs": 30})  # of 5 steps, in windows of 2
    session.use_engine("graph")
    blocks, step = [], 0
    while step < 60:
        blocks.append(session.run_block(step))
        step = blocks[-1].end_step
    positions = [(step // 5, step % 5 // 2) for step in range(60)]
    assert max(map(len, blocks)) == 2
    for block in blocks:
        assert positions[block.first_step] == positions[block.end_step - 1]


def test_a_step_counts_the_examples_of_all_its_micro_batches(session):
    assert session.run_block(0)["examples"][0] == session.step_examples == 2 * 256


def test_each_network_has_the_optimizer_that_the_spec_gives_it(make_session):
    session = make_session(
        model=GAN,
        optimizer={"kind": "sgd", "learning_rate": 0.5},
        optimizers={"discriminator": {"kind": "adam", "learning_rate": 0.25, "clip_norm": 3.0}},
    )
    found = {
        network.name: (optimizer.name, float(optimizer.learning_rate), clip.norm)
        for network, optimizer, clip in zip(
            session.networks, session.optimizers, session.step.clips, strict=True
        )
    }
    assert found == {"generator": ("sgd", 0.5, None), "discriminator": ("adam", 0.25, 3.0)}
    assert session.step_examples == 2 * 256  # real and generated images


@pytest.mark.parametrize("spec", [{"policy": "auto"}, {"policy": "mixed_float16"}])
def test_an_automatic_loss_scale_is_dynamic_if_layers_compute_in_float16(make_session, spec):
    session = make_session(precision=spec, loss_scale={"mode": "auto"})
    float16 = "float16" in session.policies.compute_dtypes
    assert float16 == (spec["policy"] == "mixed_float16")
    assert session.loss_scales == [DynamicLossScale() if float16 else NoLossScale()]
    assert session.checks_finite


def test_a_float32_session_has_neither_mixed_precision_nor_a_loss_scale(make_session):
    session = make_session(float32=True, **EVERYTHING)
    assert session.policies.name == "float32"
    assert session.checks_finite
    assert {dtype for _, dtype in session.expected_arrays().values()} <= {
        "float32",
        "int64",
        "uint32",
    }


def test_an_override_that_matches_no_layer_is_refused_with_the_field(make_session):
    overrides = [{"layers": "nowhere", "dtype": "bfloat16"}]
    with pytest.raises(InvalidModel, match=r"precision\.overrides/0/layers"):
        make_session(precision={"policy": "float32", "overrides": overrides})
