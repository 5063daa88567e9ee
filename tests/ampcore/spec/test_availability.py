from typing import get_args

import pytest

from ampcore.spec import JobSpec, SpecInvalid
from ampcore.spec import precision as spec_precision
from ampcore.spec.availability import AVAILABLE, DATA, MODELS, OPTIMIZERS, POLICIES
from ampcore.spec.data import DataSpec
from ampcore.spec.model import ModelSpec
from ampcore.spec.optimizer import OptimizerSpec
from ampcore.spec.problems import pointer

BASE = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}


def kinds(union):
    """The kinds that a spec can name, available or not."""
    return {part.model_fields["kind"].default for part in get_args(get_args(union)[0])}


def test_what_is_available_can_be_named():
    assert set(MODELS) <= kinds(ModelSpec)
    assert set(DATA) <= kinds(DataSpec)
    assert set(OPTIMIZERS) <= kinds(OptimizerSpec)
    assert set(POLICIES) <= set(get_args(spec_precision.Policy))


def test_the_defaults_are_available():
    assert JobSpec.parse(BASE)


@pytest.mark.parametrize(
    ("part", "value", "place"),
    [
        ("model", {"kind": "resnet"}, "/model/kind"),
        ("model", {"kind": "keras_application", "name": "VGG16"}, "/model/kind"),
        ("data", {"kind": "text", "path": "a.txt"}, "/data/kind"),
        ("precision", {"policy": "O2"}, "/precision/policy"),
        ("precision", {"policy": "bfloat16"}, "/precision/policy"),
        (
            "precision",
            {"overrides": [{"layers": "predictions", "dtype": "float32"}]},
            "/precision/overrides",
        ),
        (
            "optimizer",
            {"kind": "adam", "schedule": {"kind": "cosine"}},
            "/optimizer/schedule/kind",
        ),
        (
            "optimizer",
            {"kind": "adam", "schedule": {"kind": "constant", "warmup_steps": 5}},
            "/optimizer/schedule/warmup_steps",
        ),
        ("optimizer", {"kind": "adam", "ema": 0.99}, "/optimizer/ema"),
        ("train", {"accumulate": 2}, "/train/accumulate"),
        ("train", {"checkpoint_every_s": 60.0}, "/train/checkpoint_every_s"),
        ("guard", {"on_exceeded": "rollback"}, "/guard/on_exceeded"),
        ("runtime", {"queue": "fast"}, "/runtime/queue"),
        ("runtime", {"priority": 9}, "/runtime/priority"),
        ("runtime", {"max_attempts": 3}, "/runtime/max_attempts"),
        ("runtime", {"timeout_s": 5.0}, "/runtime/timeout_s"),
        ("runtime", {"engine": "xla_loop"}, "/runtime/engine"),
        ("runtime", {"devices": 2}, "/runtime/devices"),
    ],
)
def test_what_no_engine_can_honour_yet_is_refused_with_a_sentence(part, value, place):
    with pytest.raises(SpecInvalid) as caught:
        JobSpec.parse(BASE | {part: value})
    [problem] = caught.value.problems
    assert problem.pointer == place
    assert problem.code == "not_available"
    assert problem.detail.startswith("Expected ")
    assert problem.received is not None


def test_every_restricted_field_exists():
    made = JobSpec.parse(BASE)
    for path, values in AVAILABLE.items():
        value = made
        for name in path:
            value = getattr(value, name)
        assert value in values, pointer(path)
