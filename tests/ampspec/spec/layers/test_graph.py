"""How layers are connected: names, inputs, cycles, reuse, and the first shape that does not fit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampspec.documents.problems import MAX_PROBLEMS
from ampspec.layers import graph as graph_module
from ampspec.layers import inference
from ampspec.layers.base import default_name
from ampspec.layers.graph import connect, infer
from ampspec.models.model import Layers


def own_layers(*layers, **fields):
    return Layers.model_validate({"kind": "layers", "layers": layers, **fields})


def problems(*layers, **fields):
    return {
        problem.pointer: problem for problem in own_layers(*layers, **fields).connect().problems
    }


def dense(name=None, *inputs, **fields):
    named = {"name": name} if name else {}
    return {
        "layer": "Dense",
        "units": 4,
        **named,
        **({"inputs": inputs} if inputs else {}),
        **fields,
    }


def test_a_layer_takes_the_output_of_the_layer_before_it():
    graph = own_layers(dense(), {"layer": "ReLU"}, dense("last")).connect()
    assert {node.name: node.inputs for node in graph.nodes} == {
        "dense": ("input",),
        "re_lu": ("dense",),
        "last": ("re_lu",),
    }
    assert graph.outputs == ("last",)
    assert not graph.problems


def test_layers_without_a_name_are_named_and_numbered_as_keras_does():
    graph = own_layers(dense(), dense(), dense("dense_2"), dense(), {"reuse": "dense_1"}).connect()
    assert [node.name for node in graph.nodes] == [
        "dense",
        "dense_1",
        "dense_2",
        "dense_3",
        "dense_1_1",
    ]


@pytest.mark.parametrize("kind", ["Conv2D", "ReLU", "GRU", "MaxPooling2D", "RMSNormalization"])
def test_a_default_name_is_that_of_keras(kind):
    from keras.src.utils.naming import to_snake_case

    assert default_name(kind) == to_snake_case(kind)


def test_layers_may_be_listed_before_those_that_they_need():
    graph = own_layers(
        {"layer": "Add", "name": "sum", "inputs": ["b", "a"]},
        dense("b", "a"),
        dense("a", "input"),
        outputs=["sum"],
    ).connect()
    assert [node.name for node in graph.nodes] == ["a", "b", "sum"]


def test_a_reuse_may_be_listed_before_its_layer():
    entries = [{"reuse": "a", "name": "again", "inputs": ["a"]}, dense("a", "input")]
    graph = own_layers(*entries, outputs=["again"]).connect()
    assert [(node.name, node.reuses) for node in graph.nodes] == [("a", None), ("again", "a")]


@settings(max_examples=50, deadline=None)
@given(st.permutations(range(12)), st.data())
def test_any_order_of_the_same_layers_is_built_so_that_inputs_come_first(order, data):
    documents = [dense("n0", "input")]
    for index in range(1, 12):
        before = data.draw(st.lists(st.integers(0, index - 1), min_size=2, max_size=3))
        inputs = [f"n{one}" for one in before]
        documents.append({"layer": "Add", "name": f"n{index}", "inputs": inputs})
    every = {"layer": "Add", "name": "all", "inputs": [f"n{index}" for index in range(12)]}
    graph = own_layers(*(documents[index] for index in order), every).connect()
    built = {"input"}
    for node in graph.nodes:
        assert set(node.inputs) <= built
        built.add(node.name)
    assert not graph.problems


def test_a_cycle_is_a_problem_that_names_its_layers():
    mistakes = problems(
        dense("a", "c"), dense("b", "a"), dense("c", "b"), {"layer": "Flatten", "inputs": ["c"]}
    )
    [problem] = mistakes.values()
    assert (problem.pointer, problem.code) == ("/model/layers/0/inputs", "cycle")
    assert problem.received == "a → b → c → a"


def test_a_layer_that_needs_itself_is_a_cycle():
    assert problems(dense("a", "a"))["/model/layers/0/inputs"].received == "a → a"


def test_names_are_unique():
    mistakes = problems(dense("a"), dense("a"), dense("input"), dense("a", "input"))
    assert {pointer: one.code for pointer, one in mistakes.items()} == {
        "/model/layers/0/name": "duplicate_name",
        "/model/layers/1/name": "duplicate_name",
        "/model/layers/2/name": "duplicate_name",
        "/model/layers/3/name": "duplicate_name",
    }


def test_unknown_names_are_problems_with_suggestions():
    mistakes = problems(
        dense("hidden"), dense("b", "hiden"), {"reuse": "hidden_1", "inputs": ["b"]}, outputs=["bb"]
    )
    assert mistakes["/model/layers/1/inputs/0"].suggestion == "hidden"
    assert mistakes["/model/layers/2/reuse"].suggestion == "hidden"
    assert mistakes["/model/outputs/0"].code == "unknown_name"


def test_a_reuse_names_a_layer_and_not_another_reuse():
    mistakes = problems(dense("a"), {"reuse": "a", "name": "b"}, {"reuse": "b"})
    assert list(mistakes) == ["/model/layers/2/reuse"]


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ({"layer": "Add", "inputs": ["a"]}, "2 to 64 inputs"),
        ({"layer": "Dense", "units": 1, "inputs": ["a", "input"]}, "1 input "),
        ({"layer": "Subtract", "inputs": ["a", "a", "a"]}, "2 inputs"),
        ({"layer": "Attention", "inputs": ["a"] * 4}, "1 to 3 inputs"),
    ],
)
def test_the_number_of_inputs_is_checked(layer, expected):
    problem = problems(dense("a"), layer)["/model/layers/1/inputs"]
    assert problem.code == "wrong_number_of_inputs"
    assert problem.expected.startswith(expected)
    assert problem.received == str(len(layer["inputs"]))


def test_layers_and_inputs_that_no_output_needs_are_problems():
    mistakes = problems(
        dense("a", "x"),
        dense("b", "a"),
        dense("c", "a"),
        inputs={"x": {"shape": [4]}, "y": {"shape": [4]}},
    )
    assert {pointer: one.code for pointer, one in mistakes.items()} == {
        "/model/layers/1": "unreachable_layer",
        "/model/inputs/y": "unreachable_input",
    }


def test_with_several_inputs_the_first_layer_names_its_own():
    mistakes = problems(
        dense("a"),
        {"layer": "Add", "inputs": ["a", "x", "y"]},
        inputs={"x": {"shape": [4]}, "y": {"shape": [4]}},
    )
    assert mistakes["/model/layers/0/inputs"].code == "missing_inputs"


def test_an_output_is_listed_once():
    assert problems(dense("a"), outputs=["a", "a"])["/model/outputs/1"].code == "duplicate_name"


def shape_problem(*layers, shape=(4,), **sizes):
    graph = own_layers(*layers).connect()
    assert not graph.problems
    _, [problem] = infer(graph, {"input": shape}, sizes)
    return problem


def test_a_shape_that_does_not_fit_names_the_field_and_the_layer():
    layers = [{"layer": "Conv2D", "filters": 4, "kernel_size": 3, "name": "c"}]
    problem = shape_problem(*layers, shape=(8, 2, 3))
    assert problem.pointer == "/model/layers/0/kernel_size"
    assert problem.expected.endswith("for the layer c")
    assert problem.received == "[3, 3]"


def test_a_size_of_the_data_that_does_not_exist_is_a_problem():
    layer = {"layer": "Embedding", "input_dim": "vocabulary", "output_dim": 2}
    assert shape_problem(layer, classes=3).pointer == "/model/layers/0/input_dim"


def test_a_reused_layer_takes_only_inputs_for_its_weights():
    problem = shape_problem(
        {"layer": "Dense", "units": 5, "name": "a"}, {"reuse": "a", "name": "again"}
    )
    assert problem.pointer == "/model/layers/1/inputs"
    assert problem.received == "one for [5, 5], [5]"


def test_the_parameters_of_all_layers_are_bounded_and_a_reuse_adds_none(monkeypatch):
    monkeypatch.setattr(graph_module, "MAX_PARAMETERS", 4 * 4 + 4)
    graph = own_layers(dense("a"), {"reuse": "a"}).connect()
    assert infer(graph, {"input": (4,)}, {})[1] == []
    problem = shape_problem(dense("a"), dense("b"))
    assert (problem.pointer, problem.code) == ("/model/layers", "too_many_parameters")


@pytest.mark.parametrize(
    "layers",
    [
        [{"layer": "RepeatVector", "n": 65_536}, *[{"layer": "UpSampling1D", "size": 1024}] * 4],
        [{"layer": "Reshape", "target_shape": [4, 1, 1, 1, 1, 1, 1, 1]}],
    ],
)
def test_the_size_and_the_rank_of_an_output_are_bounded(layers):
    problem = shape_problem(*layers)
    assert f"at most {inference.MAX_RANK} axes" in problem.expected
    assert problem.pointer.endswith("/inputs")


def test_a_thousand_layers_in_reverse_order_are_connected():
    documents = [dense(f"n{index}", f"n{index - 1}" if index else "input") for index in range(1024)]
    graph = own_layers(*reversed(documents), outputs=["n1023"]).connect()
    assert [node.name for node in graph.nodes] == [f"n{index}" for index in range(1024)]


def test_many_mistakes_are_bounded_and_only_the_first_get_suggestions(monkeypatch):
    compared = []
    monkeypatch.setattr(graph_module, "closest_match", lambda word, names: compared.append(word))
    inputs = [f"unknown_{index}" for index in range(64)]
    adds = [{"layer": "Add", "inputs": inputs} for _ in range(1024)]
    assert len(own_layers(*adds).connect().problems) == MAX_PROBLEMS
    assert len(compared) == graph_module.MAX_SUGGESTIONS
    unused = [dense("a"), *({"layer": "ReLU", "inputs": ["a"]} for _ in range(1000))]
    assert len(own_layers(*unused).connect().problems) == MAX_PROBLEMS


def test_connect_needs_no_names_of_inputs():
    assert connect(own_layers(dense()).layers).inputs == (graph_module.INPUT,)


@pytest.mark.parametrize(
    ("inner", "shape", "field", "expected"),
    [
        (
            {"layer": "Conv2D", "filters": 2, "kernel_size": 3},
            (4, 2, 2, 1),
            "of/kernel_size",
            "fit",
        ),
        ({"layer": "Conv2D", "filters": 2, "kernel_size": 3}, (4, 2), "inputs", "height"),
        ({"layer": "Dense", "units": 2}, (257, 2), "inputs", "at most 256 steps"),
        ({"layer": "Dense", "units": 2}, (3,), "inputs", "steps"),
        ({"layer": "Dense", "units": 2, "name": "a"}, (3, 2), "of/name", "no value"),
        ({"layer": "Dense", "units": "classes"}, (3, 2), "of/units", "the data has no classes"),
    ],
)
def test_a_mistake_in_a_layer_of_every_step_has_its_pointer(inner, shape, field, expected):
    made = own_layers({"layer": "TimeDistributed", "of": inner}).connect()
    _, [problem] = infer(made, {"input": shape}, {})
    assert problem.pointer == f"/model/layers/0/{field}"
    assert expected in problem.expected


def test_a_layer_of_every_step_takes_the_sizes_of_the_data():
    each = {"layer": "TimeDistributed", "of": {"layer": "Dense", "units": "classes"}}
    graph, problems = infer(own_layers(each).connect(), {"input": (4, 3)}, {"classes": 7})
    assert not problems
    assert graph["time_distributed"].output == (4, 7)
    assert graph["time_distributed"].multiply_adds == 4 * 3 * 7


def test_an_output_that_only_reshapes_every_step_is_computed_by_the_layer_before():
    flat = {"layer": "TimeDistributed", "of": {"layer": "Flatten"}}
    made = own_layers(dense("last"), flat).connect()
    assert made.output_layers == {"last", "time_distributed"}
