"""Entries of `layers` in a spec: their errors have the locations of the fields."""

import pytest

from ampspec.jobs import JobSpec, SpecValidationError
from ampspec.layers.catalog import LAYERS, LEFT_OUT
from tests.tables import every_row


def job(*layers, data=None, **fields):
    return {
        "model": {"kind": "layers", "layers": layers, **fields},
        "data": data or {"kind": "digits"},
    }


def problems(*layers, **fields):
    with pytest.raises(SpecValidationError) as raised:
        JobSpec.parse(job(*layers, **fields))
    return {problem.pointer: problem for problem in raised.value.problems}


FLATTEN = {"layer": "Flatten"}
LOGITS = {"layer": "Dense", "units": "classes"}


@pytest.mark.parametrize(
    ("layer", "pointer", "code"),
    [
        ({"layer": "Conv2D", "filters": 0, "kernel_size": 3}, "filters", "invalid_value"),
        ({"layer": "Conv2D", "filters": "8", "kernel_size": 3}, "filters", "invalid_value"),
        (
            {"layer": "Conv2D", "filters": 8, "kernel_size": [3, 3, 3]},
            "kernel_size",
            "invalid_value",
        ),
        ({"layer": "Conv2D", "filters": 8, "kernel_size": True}, "kernel_size", "invalid_value"),
        ({"layer": "Conv2D", "filters": 8}, "kernel_size", "missing"),
        ({"layer": "Dense", "units": 8, "activation": "rely"}, "activation", "unknown_value"),
        ({"layer": "Dense", "units": 8, "unit": 1}, "unit", "unknown_field"),
        ({"layer": "Dense", "units": 8, "name": "a/b"}, "name", "invalid_value"),
        ({"layer": "Dense", "units": 8, "inputs": []}, "inputs", "invalid_value"),
        (
            {"layer": "Dense", "units": 8, "kernel_initializer": "he_norm"},
            "kernel_initializer",
            "unknown_value",
        ),
        (
            {"layer": "Dense", "units": 8, "kernel_regularizer": {"name": "l2", "lambda": 1.0}},
            "kernel_regularizer/lambda",
            "unknown_field",
        ),
        (
            {"layer": "Dense", "units": 8, "kernel_regularizer": {"name": "l2", "l1": 1.0}},
            "kernel_regularizer",
            "invalid_value",
        ),
        ({"layer": "Dropout", "rate": 1.0}, "rate", "invalid_value"),
        ({"layer": "Dropout", "rate": float("nan")}, "rate", "invalid_value"),
        (
            {"layer": "Bidirectional", "of": {"layer": "LSTM", "units": -1}},
            "of/units",
            "invalid_value",
        ),
        ({"layer": "Bidirectional", "of": {"layer": "Dense", "units": 1}}, "of", "invalid_value"),
        (
            {"layer": "TimeDistributed", "of": {"layer": "Dense", "units": -1}},
            "of/units",
            "invalid_value",
        ),
        ({"layer": "TimeDistributed", "of": {"layer": "LSTM", "units": 1}}, "of", "invalid_value"),
        ({"layer": "TimeDistributed", "of": {"reuse": "a"}}, "of", "invalid_value"),
        ({"layer": "ZeroPadding2D", "padding": [1, 2, 3]}, "padding", "invalid_value"),
        ({"layer": "Reshape", "target_shape": [0]}, "target_shape", "invalid_value"),
        ({"layer": "Normalization", "mean": [], "variance": 1.0}, "mean", "invalid_value"),
        ({"layer": "LayerNormalization", "axis": [1, "2"]}, "axis", "invalid_value"),
        ({"layer": "Denze", "units": 8}, "layer", "unknown_kind"),
        ({"layer": 3}, "layer", "unknown_kind"),
        ({"units": 8}, "layer", "missing"),
        ({"reuse": "a", "units": 8}, "units", "unknown_field"),
    ],
)
def test_a_mistake_in_a_layer_has_its_pointer(layer, pointer, code):
    mistakes = problems(FLATTEN, layer, LOGITS)
    assert mistakes[f"/model/layers/1/{pointer}"].code == code


def test_all_mistakes_are_reported_at_once():
    mistakes = problems({"layer": "Dense"}, 3, {"layer": "ReLU", "max_value": "x"})
    assert list(mistakes) == [
        "/model/layers/0/units",
        "/model/layers/1",
        "/model/layers/2/max_value",
    ]


def test_an_unknown_field_is_answered_with_the_fields_of_the_layer():
    mistakes = problems({"layer": "Flatten", "order": 1}, LOGITS)
    assert mistakes["/model/layers/0/order"].expected == (
        "one of the fields inputs, layer, name, trainable"
    )


def test_a_layer_that_is_left_out_is_answered_with_the_reason():
    answers = {
        kind: problems({"layer": kind}, LOGITS)["/model/layers/0/layer"].expected
        for kind in LEFT_OUT
    }
    assert len(answers) > 50
    without_reason = {kind: text for kind, text in answers.items() if LEFT_OUT[kind] not in text}
    assert without_reason == {}


@pytest.mark.parametrize("code", ["__reduce__", "os.system", "keras.layers.Lambda", "Dense\n", ""])
def test_only_the_names_of_the_grammar_are_kinds(code):
    assert problems({"layer": code})["/model/layers/0/layer"].code == "unknown_kind"
    assert set(map(str.isidentifier, LAYERS)) == {True}


def test_an_empty_list_of_layers_is_a_problem():
    assert problems()["/model/layers"].expected == "at least 1 items"


def test_the_number_of_layers_is_bounded():
    mistakes = problems(*[{"layer": "ReLU"}] * 1025)
    assert mistakes["/model/layers"].expected == "at most 1024 items"


def test_a_normalised_document_leaves_out_the_defaults_of_layers():
    layer = {"layer": "Conv2D", "filters": 4, "kernel_size": 3, "strides": 1, "use_bias": True}
    document = JobSpec.parse(job(layer, FLATTEN, LOGITS)).to_json()
    assert document["model"]["layers"] == [
        {"layer": "Conv2D", "filters": 4, "kernel_size": [3, 3]},
        FLATTEN,
        LOGITS,
    ]
    assert JobSpec.parse(document).to_json() == document


def test_layers_that_do_not_fit_the_data_are_problems_of_the_spec():
    mistakes = problems(FLATTEN, {"layer": "Dense", "units": 9})
    assert mistakes["/model/layers/1/units"].expected.startswith("an output [10]")
    mistakes = problems({"layer": "Conv2D", "filters": 2, "kernel_size": 9}, FLATTEN, LOGITS)
    assert mistakes["/model/layers/0/kernel_size"].code == "layer_cannot_take_input"
    mistakes = problems(FLATTEN, LOGITS, inputs={"x": {"shape": [8, 8], "dtype": "float32"}})
    assert mistakes["/model/inputs/x"].received == "float32 [8, 8]"


def test_keys_have_the_vocabulary_of_the_data():
    table = {"layer": "Embedding", "input_dim": "vocabulary", "output_dim": 2}
    JobSpec.parse(job(table, FLATTEN, LOGITS, data={"kind": "synthetic_clicks"}))
    assert "/model/layers/0/input_dim" in problems(table, FLATTEN, LOGITS)


def test_shapes_are_not_checked_before_the_data_is_known():
    JobSpec.parse(job(FLATTEN, {"layer": "Dense", "units": 9}, data={"kind": "npz", "path": "a"}))


SEVERAL = {"left": {"shape": [4]}, "right": {"shape": [4]}}
SUM = {"layer": "Add", "inputs": ["left", "right"]}
TABLE = {"kind": "csv", "path": "a.csv"}


@every_row(
    ("section", "columns"),
    [
        ({}, {"left": ("left",), "right": ("right",)}),
        ({"inputs": None}, {"left": ("left",), "right": ("right",)}),
        ({"inputs": {"right": "b"}}, {"left": ("left",), "right": ("b",)}),
        ({"inputs": {"left": ["a", "c"], "right": "b"}}, {"left": ("a", "c"), "right": ("b",)}),
    ],
)
def test_several_inputs_have_the_columns_of_their_names_unless_others_are_named(section, columns):
    spec = JobSpec.parse(job(SUM, LOGITS, inputs=SEVERAL, data=TABLE | section))
    assert spec.data.inputs == columns
    assert JobSpec.parse(spec.to_json()) == spec


def test_a_single_input_and_inputs_of_other_models_keep_their_usual_columns():
    single = job(FLATTEN, LOGITS, inputs={"left": {"shape": [4]}}, data=TABLE)
    assert JobSpec.parse(single).data.inputs is None
    assert JobSpec.parse({"model": {"kind": "mlp"}, "data": TABLE}).data.inputs is None


@every_row(
    ("inputs", "received"),
    [({"up": "a"}, "left, right, up"), (["left", "right"], "features")],
)
def test_columns_of_no_input_are_refused(inputs, received):
    mistakes = problems(SUM, LOGITS, inputs=SEVERAL, data=TABLE | {"inputs": inputs})
    assert mistakes["/data/inputs"].received == received
    assert "left, right" in mistakes["/data/inputs"].expected


def test_another_mistake_does_not_add_one_about_columns_that_need_no_names():
    document = job(SUM, LOGITS, inputs=SEVERAL, data=TABLE)
    with pytest.raises(SpecValidationError) as raised:
        JobSpec.parse({**document, "train": {"epochs": 0}})
    assert [problem.pointer for problem in raised.value.problems] == ["/train/epochs"]


def test_several_inputs_and_outputs_need_columns_and_a_task_for_each():
    both = {"layer": "Add", "inputs": ["x", "y"]}
    shape = {"shape": [4]}
    mistakes = problems(both, LOGITS, inputs={"x": shape, "y": shape}, outputs=["add", "dense"])
    assert {pointer: one.code for pointer, one in mistakes.items()} == {
        "/data/inputs": "unknown_input",
        "/task": "unknown_output",
    }
