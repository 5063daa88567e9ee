"""The phase and the layer of an operation, read from its name."""

import pytest

from ampcore.phases import Phase, layer_of, phase_of

BODY = "while/body/_1/while"


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        (f"{BODY}/phase.input/Slice", Phase.INPUT),
        (f"{BODY}/phase.forward/dense_1/MatMul", Phase.FORWARD),
        ("while/body/_1/gradient_tape/while/phase.forward/dense_1/MatMul/MatMul", Phase.BACKWARD),
        (f"{BODY}/phase.backward/Cast_5", Phase.BACKWARD),
        (f"{BODY}/phase.unscale_and_check_1/L2Loss_7", Phase.CHECK),
        (f"{BODY}/phase.update_1/cond/then/_10/adam/ResourceApplyAdam", Phase.UPDATE),
        (f"{BODY}/phase.update/cond/phase.unscale_and_check/Mul", Phase.CHECK),
        (f"{BODY}/phase.communication/CollectiveReduceV2", Phase.COMMUNICATION),
        (
            "while/body/gradient_tape/while/phase.forward/phase.communication_2/Reshape",
            Phase.COMMUNICATION,
        ),
        (f"{BODY}/forward/MatMul", Phase.OTHER),
        ("gradient_tape/MatMul", Phase.OTHER),
        (f"{BODY}/phase.nothing/Mul", Phase.OTHER),
        ("", Phase.OTHER),
    ],
)
def test_the_innermost_scope_is_the_phase(name, phase):
    assert phase_of(name) is phase


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("phase.forward/dense_1_1/MatMul", "dense_1"),
        ("phase.forward/dense/MatMul", "dense"),
        ("phase.forward/dense_10/MatMul", "dense_10"),
        ("phase.forward/model_1/block/dense_2/MatMul", "block/dense"),
        ("phase.forward/dense/adapter/MatMul", None),
        ("phase.update/adam/ResourceApplyAdam", None),
    ],
)
def test_a_layer_is_found_with_and_without_the_number_that_keras_adds(name, layer):
    layers = {"dense_1", "dense_10", "block/dense"} | ({"dense"} if "dense/M" in name else set())
    assert layer_of(name, layers) == layer
