"""Every kind of model learns, in a tiny size."""

from collections import Counter

import numpy as np
import pytest

from ampspec.models.model import Layers
from ampspec.telemetry import EventType

DIGITS = {"kind": "digits", "batch_size": 32}
OWN_LAYERS = [
    {"layer": "Conv2D", "name": "stem", "filters": 8, "kernel_size": 3, "padding": "same"},
    {"layer": "Conv2D", "name": "shared", "filters": 8, "kernel_size": 3, "padding": "same"},
    {"layer": "ReLU"},
    {"reuse": "shared"},
    {"layer": "Add", "inputs": ["stem", "shared_1"]},
    {"layer": "MaxPooling2D"},
    {"layer": "Flatten"},
    {"layer": "Dense", "units": "classes", "kernel_regularizer": {"name": "l2", "l2": 1e-4}},
]
FAST = {"kind": "adam", "learning_rate": 0.005}


@pytest.mark.parametrize(
    ("model", "epochs"),
    [
        ({"kind": "mlp", "hidden": [64]}, 6),
        ({"kind": "cnn", "filters": [8, 16], "dense": [32], "dense_dropout": 0.2}, 5),
        ({"kind": "lenet5"}, 3),
        pytest.param({"kind": "resnet", "depth": 8, "width": 8}, 3, marks=pytest.mark.slow),
        ({"kind": "layers", "layers": OWN_LAYERS}, 5),
    ],
    ids=["mlp", "cnn", "lenet5", "resnet", "layers"],
)
def test_a_classifier_learns_handwritten_digits(run_job, model, epochs):
    run = run_job(model=model, data=DIGITS, optimizer=FAST, train={"epochs": epochs})
    assert run.result.val_accuracy > 0.8


@pytest.mark.slow
def test_both_networks_of_a_gan_learn(run_job):
    run = run_job(
        model={"kind": "gan", "latent": 8, "generator": [8, 4], "discriminator": [8]},
        data={"kind": "digits", "batch_size": 64},
        optimizer={"kind": "adam", "learning_rate": 0.002},
        train={"epochs": 3},
    )
    for name in ("generator", "discriminator"):
        losses = run.steps[f"loss/{name}"]
        assert np.isfinite(losses).all()
        assert np.ptp(losses) > 0.1
    assert run.result.val_accuracy > 0.7  # of the discriminator


def test_sparse_embeddings_learn_to_predict_clicks(run_job):
    keys = {"slots": 4, "nnz": 2, "vocabulary": 64}
    run = run_job(
        model={"kind": "embedding", **keys},
        data={"kind": "synthetic_clicks", "examples": 4000, "batch_size": 64, **keys},
        optimizer={"kind": "adam", "learning_rate": 0.01},
        train={"epochs": 5},
    )
    assert run.result.val_accuracy > 0.7


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A text of words, and the entropy of its characters one by one, in nats."""
    words = ["loss", "scale", "step", "batch", "half", "float", "grad", "norm"]
    content = " ".join(np.random.default_rng(0).choice(words, 3000))
    file = tmp_path_factory.mktemp("text") / "words.txt"
    file.write_text(content)
    shares = np.array(list(Counter(content).values())) / len(content)
    data = {"kind": "text", "path": str(file), "sequence": 16, "batch_size": 32}
    return data, -(shares * np.log(shares)).sum()


@pytest.mark.parametrize(
    "model",
    [
        {"kind": "lstm_lm", "units": 32, "dim": 16},
        {"kind": "transformer_lm", "layers": 1, "heads": 2, "dim": 32},
    ],
    ids=lambda model: model["kind"],
)
def test_a_language_model_learns_more_than_character_frequencies(run_job, text, model):
    data, entropy = text
    optimizer = {"kind": "adam", "learning_rate": 0.01}
    run = run_job(model=model, data=data, optimizer=optimizer, train={"epochs": 4})
    assert run.result.val_loss < 0.75 * entropy


@pytest.mark.slow
def test_a_keras_application_learns(run_job):
    run = run_job(
        model={"kind": "keras_application", "name": "MobileNet"},
        data={
            **{"kind": "synthetic", "shape": [32, 32, 3], "classes": 4},
            **{"examples": 32, "batch_size": 16, "validation_split": 0.0},
        },
        optimizer={"kind": "adam", "learning_rate": 0.002},
        train={"epochs": 6},
    )
    assert run.steps["loss"][-2:].mean() < 0.7 * run.steps["loss"][:2].mean()


def test_an_overflow_in_own_layers_is_skipped_and_traced_to_a_layer_of_the_spec(run_job):
    run = run_job(
        model={"kind": "layers", "layers": OWN_LAYERS},
        data=DIGITS,
        precision={"policy": "mixed_float16"},
        loss_scale={"mode": "dynamic", "initial": 2.0**24},
        train={"steps": 30},
    )
    assert 0 < run.result.skipped < 30
    model = Layers.model_validate({"kind": "layers", "layers": OWN_LAYERS})
    names = {node.name for node in model.connect().nodes}
    origin = run.of(EventType.OVERFLOW)[0].data["first_layer"]
    assert origin["layer"] in names
