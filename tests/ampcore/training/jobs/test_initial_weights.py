"""Runs that start from the weights of another: what is taken, what stays, and what is frozen."""

import keras
import numpy as np
import pytest

from ampcore.checkpoint.tensors import encode_tensors, open_tensors
from ampcore.training import Trainer
from ampspec.errors import InvalidModel, UnreadableWeights, UnusableWeights
from ampspec.jobs import JobSpec, Reason
from ampspec.telemetry import EventType

FIRST = {"model": {"kind": "cnn", "filters": [4, 4], "dense": [8]}, "train": {"steps": 3}}
NO_STEP = {"optimizer": {"kind": "sgd", "learning_rate": 1e-30}, "train": {"steps": 1, "seed": 7}}
"""A second job whose only step changes nothing, so that its result has its initial weights."""
HEAD = {"predictions/kernel", "predictions/bias"}


@pytest.fixture(scope="module")
def source(run_job, tmp_path_factory):
    """The weights of a trained run."""
    folder = tmp_path_factory.mktemp("source")
    run_job(output_dir=folder, **FIRST)
    return folder / "weights.safetensors"


def arrays(file):
    with open_tensors(file) as found:
        return {name: found.read(name) for name in found.entries}


def loaded(run):
    [event] = run.of(EventType.WEIGHTS_LOADED)
    return event.data


def test_a_run_starts_from_all_weights_of_another_one(run_job, source, tmp_path):
    run = run_job(output_dir=tmp_path, init_file=source, init={"job": "abc"}, **FIRST | NO_STEP)
    np.testing.assert_equal(arrays(tmp_path / "weights.safetensors"), arrays(source))
    report = loaded(run)
    assert report["matched"] == report["of"] == 8
    assert report["sentence"] == "8 of 8 weights start from job abc."
    assert report["unmatched_in_model"] == report["unused_in_source"] == []


def test_the_weights_of_a_run_are_those_of_its_saved_model(source):
    model = keras.models.load_model(source.with_name("model.keras"))
    found = {name.split("/")[-1] + str(array.shape) for name, array in arrays(source).items()}
    assert found == {w.name + str(tuple(w.shape)) for w in model.weights}
    np.testing.assert_equal(
        arrays(source)["conv_1/kernel"], model.get_layer("conv_1").kernel.numpy()
    )


def test_weights_of_another_shape_and_name_stay_random_and_are_reported(run_job, source, tmp_path):
    other = {"kind": "cnn", "filters": [4], "dense": [8]}
    run = run_job(output_dir=tmp_path, init_file=source, init={"job": "a"}, **NO_STEP, model=other)
    report, found = loaded(run), arrays(tmp_path / "weights.safetensors")
    before = arrays(source)
    assert (report["matched"], report["of"]) == (5, 6)
    assert report["shape_differs"] == [
        {
            "name": "dense_1/kernel",
            "model": list(found["dense_1/kernel"].shape),
            "source": list(before["dense_1/kernel"].shape),
        }
    ]
    assert {*report["unused_in_source"]} == {"conv_2/kernel", "conv_2/bias", "dense_1/kernel"}
    assert report["counts"]["unused_in_source"] == 3
    np.testing.assert_equal(found["conv_1/kernel"], before["conv_1/kernel"])


def test_only_the_named_layers_take_weights(run_job, source, tmp_path):
    init = {"job": "a", "layers": ["^conv"], "missing": "error"}
    run = run_job(output_dir=tmp_path, init_file=source, init=init, **FIRST | NO_STEP)
    found, before = arrays(tmp_path / "weights.safetensors"), arrays(source)
    assert loaded(run)["of"] == 4
    assert np.array_equal(found["conv_2/kernel"], before["conv_2/kernel"])
    assert not np.array_equal(found["predictions/kernel"], before["predictions/kernel"])


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_master_weights_are_taken_bit_for_bit_whatever_the_policy(
    run_job, source, tmp_path, policy
):
    run_job(
        output_dir=tmp_path,
        init_file=source,
        init={"job": "a"},
        precision={"policy": policy},
        **FIRST | NO_STEP,
    )
    np.testing.assert_equal(arrays(tmp_path / "weights.safetensors"), arrays(source))


def test_frozen_layers_keep_their_weights_and_the_others_learn(run_job, source, tmp_path):
    run_job(
        output_dir=tmp_path,
        init_file=source,
        init={"job": "a", "freeze": ["^conv"]},
        precision={"policy": "mixed_float16"},
        **FIRST,
    )
    found, before = arrays(tmp_path / "weights.safetensors"), arrays(source)
    same = {name for name in found if np.array_equal(found[name], before[name])}
    assert same == {name for name in found if name.startswith("conv")}


def test_frozen_layers_that_start_at_random_are_a_warning(run_job, source):
    init = {"job": "a", "layers": ["^dense"], "freeze": ["^conv_1"]}
    run = run_job(init_file=source, init=init, **FIRST | NO_STEP)
    [warning] = [e for e in run.of(EventType.WARNING) if e.data["code"] == "frozen_at_random"]
    assert "conv_1/kernel" in warning.data["message"]


def test_frozen_normalization_keeps_its_statistics(run_job, tmp_path):
    layers = [
        {"layer": "Conv2D", "filters": 4, "kernel_size": 3},
        {"layer": "BatchNormalization", "name": "norm"},
        {"layer": "Flatten"},
        {"layer": "Dense", "name": "head", "units": "classes"},
    ]
    model = {"kind": "layers", "layers": layers}
    run_job(output_dir=tmp_path / "a", model=model, train={"steps": 2})
    file = tmp_path / "a" / "weights.safetensors"
    before = arrays(file)
    assert "norm/moving_mean" in before
    run_job(
        output_dir=tmp_path / "b",
        init_file=file,
        init={"job": "a", "freeze": ["^(?!head$)"]},
        model=model,
        train={"steps": 2},
    )
    found = arrays(tmp_path / "b" / "weights.safetensors")
    changed = {name for name in found if not np.array_equal(found[name], before[name])}
    assert changed == {"head/kernel", "head/bias"}


@pytest.mark.slow
def test_each_network_of_a_gan_takes_its_own_weights(run_job, tmp_path):
    gan = {"model": {"kind": "gan", "latent": 4, "generator": [4, 4], "discriminator": [4]}}
    data = {"data": {"kind": "synthetic", "shape": [8, 8, 1], "examples": 64, "batch_size": 32}}
    run_job(output_dir=tmp_path / "a", **gan, **data, train={"steps": 1})
    file = tmp_path / "a" / "weights.safetensors"
    run = run_job(
        output_dir=tmp_path / "b", init_file=file, init={"job": "a"}, **gan, **data, **NO_STEP
    )
    assert loaded(run)["matched"] == loaded(run)["of"]
    found, before = arrays(tmp_path / "b" / "weights.safetensors"), arrays(file)
    trained = [name for name in found if "moving" not in name]
    assert {name.split("/")[0] for name in trained} == {"generator", "discriminator"}
    for name in trained:
        np.testing.assert_array_equal(found[name], before[name])


def test_a_resumed_run_does_not_read_the_weights_again(run_job, source, tmp_path):
    parts = {"init": {"job": "a", "freeze": ["^conv"]}, "output_dir": tmp_path}
    whole = run_job(init_file=source, **FIRST | parts | {"output_dir": tmp_path / "whole"})
    stopped = iter([False, True])
    run_job(lambda: next(stopped), init_file=source, **FIRST | parts)
    rest = run_job(resume=True, init_file=tmp_path / "deleted", **FIRST | parts)
    assert not rest.of(EventType.WEIGHTS_LOADED)
    assert rest.result.weights_digest == whole.result.weights_digest


def test_moving_averages_begin_with_the_loaded_weights(run_job, source, tmp_path):
    averaged = {"optimizer": {"kind": "sgd", "learning_rate": 1e-30, "ema": 0.5}}
    run_job(output_dir=tmp_path, init_file=source, init={"job": "a"}, **FIRST | NO_STEP | averaged)
    found, before = arrays(tmp_path / "weights.safetensors"), arrays(source)
    for name, array in before.items():
        np.testing.assert_allclose(found[name], array, rtol=0, atol=1e-6)


def write(file, **given):
    file.write_bytes(encode_tensors({k.replace("__", "/"): v for k, v in given.items()}, {}))
    return file


def refusal(run_job, file, kind=UnusableWeights, **init):
    return run_job(init_file=file, init={"job": "a", **init}, fails=kind, **FIRST | NO_STEP).error


def test_a_source_in_which_nothing_matches_fails_with_both_names(run_job, tmp_path):
    file = write(tmp_path / "w", other__kernel=np.zeros((2, 3), np.float32))
    error = refusal(run_job, file)
    assert error.reason is Reason.INVALID_WEIGHTS
    assert "conv_1/kernel [3, 3, 1, 4]" in error.expected
    assert error.received == "other/kernel [2, 3]"


def test_missing_weights_are_an_error_on_request(run_job, tmp_path):
    file = write(tmp_path / "w", predictions__bias=np.zeros(10, np.float32))
    assert "not in it: conv_1/kernel" in refusal(run_job, file, missing="error").received


def test_an_expression_without_a_layer_is_an_error(run_job, source):
    error = refusal(run_job, source, InvalidModel, layers=["^conv", "transformer"])
    assert error.field == "init.layers/1"


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.full(10, np.nan, np.float32), "finite numbers in predictions/bias"),
        (np.full(10, 1e300), "too large for float32"),
        (np.zeros(10, np.int32), "is int32 instead of float32"),
    ],
)
def test_numbers_that_would_damage_the_model_are_refused(run_job, tmp_path, array, message):
    assert message in str(refusal(run_job, write(tmp_path / "w", predictions__bias=array)))


def test_other_floats_are_cast_to_float32(run_job, tmp_path):
    file = write(tmp_path / "w", predictions__bias=np.arange(1, 11, dtype=np.float16))
    run_job(output_dir=tmp_path, init_file=file, init={"job": "a"}, **FIRST | NO_STEP)
    found = arrays(tmp_path / "weights.safetensors")["predictions/bias"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.arange(1, 11, dtype=np.float32))


def test_a_damaged_or_missing_file_is_named(run_job, source, tmp_path):
    damaged = tmp_path / "damaged"
    damaged.write_bytes(source.read_bytes()[:-1])
    for file in (damaged, tmp_path / "missing"):
        error = refusal(run_job, file, UnreadableWeights)
        assert error.file == file
        assert error.reason is Reason.INVALID_WEIGHTS


def test_a_spec_with_initial_weights_needs_their_file(run_job):
    error = run_job(init={"job": "a"}, fails=UnusableWeights, **FIRST | NO_STEP).error
    assert "--init FILE" in str(error)


def test_a_file_without_the_section_initializes_all_layers(run_job, source):
    assert loaded(run_job(init_file=source, **FIRST | NO_STEP))["source"] == source.name


def test_an_own_model_takes_no_file():
    trainer = Trainer(JobSpec.parse({"model": {"kind": "mlp"}, "data": {"kind": "digits"}}))
    with pytest.raises(TypeError, match="init is for a JobSpec"):
        Trainer(trainer._job.in_float32(), init="weights.safetensors")
