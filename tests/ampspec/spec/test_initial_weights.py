"""The section `init`: one source, bounded expressions, and absent from a spec without it."""

import pytest

from ampspec.jobs import JobSpec, SpecValidationError

DIGEST = f"sha256:{'0f' * 32}"


def parse(init):
    return JobSpec.parse({"model": {"kind": "mlp"}, "data": {"kind": "digits"}, "init": init})


def test_a_spec_without_initial_weights_is_written_as_by_versions_without_them():
    assert (
        "init"
        not in JobSpec.parse({"model": {"kind": "mlp"}, "data": {"kind": "digits"}}).to_json()
    )


@pytest.mark.parametrize("source", [{"job": "0123456789ab"}, {"weights": DIGEST}])
def test_a_spec_with_initial_weights_is_read_back(source):
    given = {**source, "layers": ["^conv"], "missing": "error", "freeze": ["^conv_1$"]}
    spec = parse(given)
    assert JobSpec.parse(spec.to_json()) == spec
    assert {name: spec.to_json()["init"][name] for name in given} == given


@pytest.mark.parametrize(
    ("init", "pointer"),
    [
        ({"job": "a", "weights": DIGEST}, "/init/weights"),
        ({"job": "../a"}, "/init/job"),
        ({"job": ""}, "/init/job"),
        ({"weights": "file.safetensors"}, "/init/weights"),
        ({"weights": DIGEST.upper()}, "/init/weights"),
        ({"job": "a", "layers": []}, "/init/layers"),
        ({"job": "a", "layers": ["("]}, "/init/layers/0"),
        ({"job": "a", "layers": ["(a+)+$"] * 2}, "/init/layers/0"),
        ({"job": "a", "freeze": ["x" * 257]}, "/init/freeze/0"),
        ({"job": "a", "freeze": ["x"] * 257}, "/init/freeze"),
        ({"job": "a", "missing": "ignore"}, "/init/missing"),
        ({"job": "a", "optimizer": True}, "/init/optimizer"),
    ],
)
def test_a_mistake_is_named(init, pointer):
    with pytest.raises(SpecValidationError) as caught:
        parse(init)
    assert pointer in [problem.pointer for problem in caught.value.problems]
