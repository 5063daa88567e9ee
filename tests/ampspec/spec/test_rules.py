import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from ampspec.data.data import DataSpec
from ampspec.jobs import JobSpec, SpecValidationError
from ampspec.jobs.rules import RULES
from ampspec.models.initial_weights import Init
from ampspec.models.model import ModelSpec
from ampspec.objectives.metrics import MetricSpec, better, metric_name
from ampspec.objectives.optimizer import Adam
from ampspec.objectives.task import METRICS, TaskSpec
from ampspec.precision.precision import DynamicScale, NoScale
from ampspec.rules.model_rules import DATA_OF_MODEL
from ampspec.rules.task_rules import CLASS_DATA, TASKS_OF_MODEL
from ampspec.training.ranks import Elastic, Exchange
from ampspec.training.training import Runtime, Train

FIELDS = {
    "keras_application": {"name": "VGG16"},
    "layers": {"layers": [{"layer": "Flatten"}]},
    "bundle": {"bundle": "sha256:" + "0" * 64},
    "npz": {"path": "a.npz"},
    "csv": {"path": "a.csv"},
    "text": {"path": "a"},
    "package": {"package": "own", "name": "a"},
}


def part(union, given):
    """The validated part of a spec; a kind alone is completed with its required fields."""
    document = {"kind": given} | FIELDS.get(given, {}) if isinstance(given, str) else given
    return TypeAdapter(union).validate_python(document)


def problems_of(model="mlp", data="digits", **parts):
    """The problems by pointer; the rest of the spec is valid."""
    parts |= {"model": part(ModelSpec, model), "data": part(DataSpec, data)}
    return {problem.pointer: problem for rule in RULES for problem in rule(parts)}


@pytest.mark.parametrize("model", DATA_OF_MODEL)
def test_each_kind_of_model_accepts_only_its_kinds_of_data(model):
    kinds = ["digits", "synthetic", "npz", "text", "synthetic_clicks"]
    taken = [data for data in kinds if "/data/kind" not in problems_of(model, data)]
    assert taken == [kind for kind in kinds if kind in DATA_OF_MODEL[model]]


def test_the_message_about_unsupported_data_names_the_supported_kinds():
    problem = problems_of("lstm_lm", "digits")["/data/kind"]
    assert problem.code == "model_cannot_take_data"
    assert problem.detail == "Expected text for the model lstm_lm; received digits."


@pytest.mark.parametrize(
    ("model", "shape", "pointer"),
    [
        ("gan", [28, 28, 1], None),
        ("gan", [28, 30, 1], "/model/kind"),
        ("gan", [4, 4], "/model/discriminator"),
        ("gan", [784], "/data/shape"),
        ("resnet", [784], "/data/shape"),
        ("resnet", [1, 1, 3], None),
        ("keras_application", [32, 32, 3], None),
        ("keras_application", [31, 32, 3], "/model/name"),
        ({"kind": "keras_application", "name": "Xception"}, [70, 70, 3], "/model/name"),
        ("mlp", [784], None),
    ],
)
def test_the_input_shape_must_suit_the_model(model, shape, pointer):
    problems = problems_of(model, {"kind": "synthetic", "shape": shape})
    assert list(problems) == ([] if pointer is None else [pointer])
    assert all(problem.code == "model_cannot_take_data" for problem in problems.values())


@pytest.mark.parametrize(
    ("model", "data", "pointer"),
    [
        ({}, {}, None),
        ({"vocabulary": 2000}, {}, None),
        ({"vocabulary": 1000}, {}, "/model/vocabulary"),
        ({"slots": 9}, {}, "/model/slots"),
        ({}, {"nnz": 4}, "/model/nnz"),
        ({"vocabulary": 9}, {"vocabulary": 9}, "/data/vocabulary"),
    ],
)
def test_the_embedding_must_match_the_keys_of_the_data(model, data, pointer):
    problems = problems_of({"kind": "embedding"} | model, {"kind": "synthetic_clicks"} | data)
    assert list(problems) == ([] if pointer is None else [pointer])


TASKS = {
    "classification": {},
    "multi_label": {},
    "regression": {},
    "segmentation": {},
    "language_model": {},
    "autoencoding": {},
    "outputs": {"outputs": {"a": {"task": {"kind": "classification"}}}},
}
OF_MODELS = ["mlp", "cnn", "lenet5", "resnet", "keras_application", "layers"]
NETWORK = {
    "kind": "layers",
    "inputs": {"a": {"shape": [2]}, "b": {"shape": [3]}},
    "layers": [
        {"layer": "Dense", "name": "left", "units": 2, "inputs": ["a"]},
        {"layer": "Dense", "name": "right", "units": 2, "inputs": ["b"]},
    ],
    "outputs": ["left", "right"],
}
TWO_OUTPUTS = {name: {"task": {"kind": "regression"}} for name in ("left", "right")}


def task(kind, **fields):
    return part(TaskSpec, {"kind": kind} | TASKS[kind] | fields)


@pytest.mark.parametrize("model", [*OF_MODELS, "lstm_lm", "transformer_lm", "gan", "embedding"])
def test_each_kind_of_model_does_only_its_tasks(model):
    refused = [kind for kind in TASKS if "/task/kind" in problems_of(model, "npz", task=task(kind))]
    assert refused == [kind for kind in TASKS if kind not in TASKS_OF_MODEL.get(model, ())]


def test_the_message_about_a_task_names_those_of_the_model():
    assert problems_of("cnn", "npz", task=task("segmentation"))["/task/kind"].detail == (
        "Expected classification or multi_label or regression for the model cnn; received "
        "segmentation."
    )
    assert problems_of("gan", "npz", task=task("regression"))["/task/kind"].expected == (
        "no task, since the task of the model gan is fixed"
    )


@pytest.mark.parametrize("data", CLASS_DATA)
@pytest.mark.parametrize("kind", ["regression", "multi_label", "autoencoding", "outputs"])
def test_data_that_has_classes_only_takes_no_other_task(data, kind):
    problem = problems_of("layers", data, task=task(kind))["/task/kind"]
    assert problem.code == "task_does_not_fit_data"
    assert problem.detail.endswith(f"for {data}, whose targets are classes; received {kind}.")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ("digits", "classification"),
        ("text", "language_model"),
        ("npz", "regression"),
        ("csv", "outputs"),
    ],
)
def test_a_task_that_the_data_has_targets_for_is_accepted(data, kind):
    assert "/task/kind" not in problems_of("layers", data, task=task(kind))


@pytest.mark.parametrize(
    ("kind", "fields", "problems"),
    [
        ("regression", {"loss": "huber", "metrics": ["mae"]}, {}),
        ("regression", {"loss": "focal"}, {"/task/loss": "loss_does_not_fit_task"}),
        ("classification", {"metrics": ["f1", "mae"]}, {"/task/metrics/1": "metric_does_not_fit"}),
        ("autoencoding", {"loss": "cross_entropy"}, {"/task/loss": "loss_does_not_fit_task"}),
        (
            "outputs",
            {"outputs": {"a": {"task": {"kind": "multi_label", "metrics": ["top_k"]}}}},
            {"/task/outputs/a/task/metrics/0": "metric_does_not_fit_task"},
        ),
    ],
)
def test_losses_and_metrics_must_fit_the_task(kind, fields, problems):
    received = problems_of("layers", "npz", task=task(kind, **fields))
    assert list(received) == list(problems)
    assert all(received[pointer].code.startswith(code) for pointer, code in problems.items())


def test_a_message_about_a_loss_names_those_of_the_task():
    problem = problems_of("mlp", "npz", task=task("regression", loss="dice"))["/task/loss"]
    expected = "mse or mae or huber or package for the task regression"
    assert problem.detail == f"Expected {expected}; received dice."


@pytest.mark.parametrize(
    ("inputs", "outputs", "pointers"),
    [
        ({"a": ["u", "v"], "b": "w"}, TWO_OUTPUTS, []),
        ({"a": ["u", "v"]}, TWO_OUTPUTS, ["/data/inputs"]),
        (None, TWO_OUTPUTS, ["/data/inputs"]),
        ({"a": "u", "b": "w", "c": "z"}, TWO_OUTPUTS, ["/data/inputs"]),
        ({"a": "u", "b": "w"}, {"left": TWO_OUTPUTS["left"]}, ["/task/outputs"]),
        ({"a": "u", "b": "w"}, None, ["/task"]),
    ],
)
def test_several_inputs_and_outputs_have_the_names_of_the_model(inputs, outputs, pointers):
    data = {"kind": "csv", "path": "a.csv", "inputs": inputs}
    given = task("regression") if outputs is None else task("outputs", outputs=outputs)
    assert list(problems_of(NETWORK, data, task=given)) == pointers


def test_a_message_about_inputs_names_those_of_the_model():
    data = {"kind": "csv", "path": "a.csv", "inputs": {"a": "u"}}
    problem = problems_of(NETWORK, data, task=task("outputs", outputs=TWO_OUTPUTS))["/data/inputs"]
    assert problem.detail == "Expected columns for each input of the model: a, b; received a."


def test_a_message_about_outputs_names_the_task_that_has_none():
    data = {"kind": "csv", "path": "a.csv", "inputs": {"a": "u", "b": "v"}}
    problem = problems_of(NETWORK, data, task=task("regression"))["/task"]
    assert problem.detail.endswith("each output of the model: left, right; received regression.")


def test_a_batch_larger_than_the_training_examples_is_refused():
    data = {"kind": "synthetic_clicks", "examples": 100, "batch_size": 81}
    assert problems_of("embedding", data)["/data/batch_size"].code == "batch_too_large"


def test_the_batch_of_a_bundle_may_be_larger_since_it_may_return_its_own_examples():
    data = {"kind": "digits", "batch_size": 4096}
    assert "/data/batch_size" in problems_of("cnn", data)
    assert not problems_of("bundle", data)


@given(st.integers(8, 1202))
def test_the_depth_of_a_resnet_must_be_6n_plus_2(depth):
    problems = problems_of({"kind": "resnet", "depth": depth})
    assert ("/model/depth" in problems) == (depth not in range(8, 1203, 6))
    if problems:
        near, far = [
            int(word) for word in problems["/model/depth"].expected.split() if word.isdecimal()
        ]
        assert near < depth < far == near + 6


@given(st.integers(1, 128), st.integers(1, 1024))
def test_the_number_of_heads_must_divide_the_dimension(heads, dim):
    problems = problems_of({"kind": "transformer_lm", "heads": heads, "dim": dim}, "text")
    assert ("/model/dim" in problems) == (dim % heads != 0)


def test_an_optimizer_for_an_unknown_network_is_refused():
    optimizers = {"generator": Adam(), "discriminater": Adam()}
    [(pointer, problem)] = problems_of("gan", "digits", optimizers=optimizers).items()
    assert pointer == "/optimizers/discriminater"
    assert problem.code == "unknown_network"
    assert problem.suggestion == "discriminator"
    assert "/optimizers/model" in problems_of("mlp", "digits", optimizers={"model": Adam()})
    assert not problems_of("mlp", "digits", optimizers={})


@pytest.mark.parametrize("name", ["workers", "devices"])
def test_several_ranks_with_custom_code_are_refused(name):
    problem = problems_of("bundle", runtime=Runtime(**{name: 2}))[f"/runtime/{name}"]
    assert problem.code == "not_available"
    assert "without a network" in problem.detail


@pytest.mark.parametrize(
    ("runtime", "pointer"),
    [
        ({"devices": 4}, None),
        ({"workers": 1024, "devices": 2}, "/runtime/workers"),
        ({"devices": 2, "engine": "xla_step"}, None),
        ({"devices": 2, "engine": "xla_loop"}, "/runtime/engine"),
        ({"elastic": {"max": 4}, "engine": "xla_loop"}, "/runtime/engine"),
        ({"devices": 2, "elastic": {"max": 4}}, None),
        ({"devices": 2, "elastic": {"min": 3, "max": 4}}, "/runtime/elastic"),
        ({"devices": 2, "elastic": {"min": 2, "max": 1}}, "/runtime/elastic"),
        (
            {"exchange": {"batch_norm": "sync"}, "engine": "xla_step"},
            "/runtime/exchange/batch_norm",
        ),
        ({"exchange": {"gradient_dtype": "bfloat16"}}, None),
        ({"exchange": {"gradient_dtype": "float16"}}, "/runtime/exchange/gradient_dtype"),
    ],
)
def test_the_ranks_of_a_job_must_be_possible(runtime, pointer):
    problems = problems_of(runtime=Runtime(**runtime), loss_scale=NoScale())
    assert list(problems) == ([] if pointer is None else [pointer])


SHARDED = {"kind": "embedding", "placement": "sharded"}


@pytest.mark.parametrize(
    ("model", "parts", "pointers"),
    [
        (SHARDED, {}, []),
        (SHARDED, {"runtime": Runtime(devices=2)}, []),
        ("embedding", {"runtime": Runtime(devices=2, engine="xla_step")}, ["/runtime/engine"]),
        ("embedding", {"runtime": Runtime(engine="xla_step")}, []),
        (SHARDED | {"vocabulary": 1024}, {"runtime": Runtime(devices=1024)}, []),
        (
            SHARDED | {"vocabulary": 1023},
            {"runtime": Runtime(devices=1024)},
            ["/model/vocabulary", "/model/vocabulary"],
        ),
        (SHARDED, {"init": Init(weights="sha256:" + "0" * 64)}, ["/model/placement"]),
    ],
)
def test_a_sharded_table_has_rows_for_all_ranks(model, parts, pointers):
    parts = {"runtime": Runtime()} | parts
    parts |= {"model": part(ModelSpec, model), "data": part(DataSpec, "synthetic_clicks")}
    problems = [problem.pointer for rule in RULES for problem in rule(parts)]
    assert problems == pointers


def test_a_replicated_table_is_stored_as_before():
    stored = part(ModelSpec, {"kind": "embedding", "placement": "replicated"}).model_dump()
    assert "placement" not in stored
    assert part(ModelSpec, SHARDED).model_dump()["placement"] == "sharded"


def test_gradients_with_a_loss_scale_may_travel_in_float16():
    runtime = Runtime(devices=2, exchange=Exchange(gradient_dtype="float16"))
    assert problems_of(runtime=runtime, loss_scale=DynamicScale()) == {}


def test_elastic_jobs_run_with_the_ranks_that_divide_their_micro_batches():
    fixed = Runtime(workers=2, devices=2)
    assert fixed.possible_ranks(accumulate=3) == (4,)
    elastic = Runtime(devices=4, elastic=Elastic(min=1, max=8))
    assert elastic.possible_ranks(accumulate=1) == (1, 2, 4)
    assert elastic.possible_ranks(accumulate=3) == (1, 2, 3, 4, 6)


def test_a_spec_with_one_rank_is_stored_as_before():
    assert set(Runtime().model_dump(mode="json")) == {
        *("queue", "priority", "max_attempts", "timeout_s", "device", "engine", "devices")
    }


def test_rules_ignore_missing_parts():
    assert [problem for rule in RULES for problem in rule({})] == []


@pytest.mark.parametrize(
    ("data", "pointer"),
    [
        ({"kind": "npz"}, "/data/path"),
        ({"kind": "npz", "path": ""}, "/data/path"),
        ({"kind": "npz", "path": "a", "dataset": "b"}, "/data/dataset"),
        ({"kind": "npz", "dataset": "birds@3"}, None),
        ({"kind": "npz", "path": "a.npz"}, None),
        ({"kind": "npz", "path": "s3://bucket/a.npz"}, None),
        ({"kind": "npz", "path": "https://host/a.npz"}, "/data/path"),
        ({"kind": "npz", "path": "s3://bucket/../a.npz"}, "/data/path"),
    ],
)
def test_data_from_a_file_name_a_path_or_a_dataset(data, pointer):
    assert list(problems_of(data=data)) == ([pointer] if pointer else [])


@pytest.mark.parametrize(("length", "fits"), [(60, True), (61, False)])
def test_the_names_of_queue_and_package_together_fit_the_column(length, fits):
    model = {"kind": "package", "package": "own", "name": "a"}
    problems = problems_of(model, runtime=Runtime(queue="q" * length))
    assert ("/runtime/queue" not in problems) is fits


def package_part(package):
    return {"kind": "package", "package": package, "name": "a"}


@pytest.mark.parametrize(
    ("model", "task", "pointers"),
    [
        ("package", {"kind": "classification", "loss": package_part("own")}, []),
        ("mlp", {"kind": "classification", "loss": package_part("other")}, []),
        (
            "package",
            {"kind": "classification", "loss": package_part("other")},
            ["/task/loss/package"],
        ),
        (
            "layers",
            {
                "kind": "outputs",
                "outputs": {
                    "a": {"task": {"kind": "regression", "loss": package_part("own")}},
                    "b": {"task": {"kind": "multi_label", "loss": package_part("own")}},
                    "c": {"task": {"kind": "autoencoding", "loss": package_part("other")}},
                },
            },
            ["/task/outputs/c/task/loss/package"],
        ),
    ],
)
def test_a_job_needs_at_most_one_package(model, task, pointers):
    problems = problems_of(model, "npz", task=TypeAdapter(TaskSpec).validate_python(task))
    severals = [p for p in problems.values() if p.code == "several_packages"]
    assert [problem.pointer for problem in severals] == pointers
    for problem in severals:
        assert problem.expected.startswith("own, the package of /")
        assert problem.received == "other"


def test_the_package_of_the_data_is_that_of_the_loss_and_the_model():
    task = {"kind": "classification", "loss": package_part("other")}
    problems = problems_of(
        "package", package_part("third"), task=TypeAdapter(TaskSpec).validate_python(task)
    )
    assert [p.pointer for p in problems.values() if p.code == "several_packages"] == [
        "/data/package",
        "/task/loss/package",
    ]


def test_the_package_of_a_loss_counts_for_the_name_of_the_queue():
    task = {"kind": "classification", "loss": package_part("own")}
    problems = problems_of(
        runtime=Runtime(queue="q" * 61), task=TypeAdapter(TaskSpec).validate_python(task)
    )
    assert "/runtime/queue" in problems


def best(task=None, data="digits", model="mlp", **train):
    parts = {} if task is None else {"task": TypeAdapter(TaskSpec).validate_python(task)}
    return problems_of(model, data, train=Train.model_validate(train), **parts)


SEVERAL = {
    "kind": "outputs",
    "outputs": {
        "a": {"task": {"kind": "regression"}},
        "b": {"task": {"kind": "classification", "metrics": [{"kind": "top_k", "k": 3}]}},
    },
}


@pytest.mark.parametrize(
    ("task", "model", "names"),
    [
        (None, "mlp", "val_loss, val_accuracy"),
        (None, "gan", "val_loss, val_loss/generator, val_loss/discriminator, val_accuracy"),
        ({"kind": "regression"}, "mlp", "val_loss, val_mae, val_rmse"),
        (SEVERAL, "mlp", "val_loss, val_a_loss, val_a_mae, val_a_rmse, val_b_loss, val_b_top_3"),
    ],
)
def test_an_unknown_metric_is_an_error_that_lists_those_of_the_task(task, model, names):
    problem = best(task, model=model, best={"metric": "val_los"})["/train/best/metric"]
    assert problem.expected == f"a metric that this job reports: {names}"
    assert problem.suggestion == "val_loss"
    for name in names.split(", "):
        assert "/train/best/metric" not in best(task, model=model, best={"metric": name})


@pytest.mark.parametrize(
    "train", [{"early_stopping": {}}, {"keep": "best"}, {"keep": "both"}, {"best": {}}]
)
def test_a_best_evaluation_needs_validation_data(train):
    nothing = {"kind": "digits", "validation_split": 0.0}
    assert "/data/validation_split" in best(data=nothing, **train)
    assert "/data/validation_split" not in best(data=nothing)
    assert "/data/validation_split" not in best(**train)


def test_the_direction_of_every_metric_of_a_spec_is_known():
    for kinds in METRICS.values():
        for kind in set(kinds) - {"package"}:
            metric = TypeAdapter(MetricSpec).validate_python(kind)
            for name in (metric_name(metric), f"out_{metric_name(metric)}"):
                expected = "min" if kind in ("mae", "mse", "rmse", "perplexity") else "max"
                assert better(name) == expected, name
    assert better("precision_micro") == better("val_out_recall_micro") == "max"
    assert better("loss") == better("loss/generator") == better("out_loss") == "min"
    assert better("own") is None


def test_metrics_and_optimizers_of_packages_count_for_the_package_of_a_job():
    metrics = [package_part("own"), package_part("second") | {"name": "b"}]
    document = {
        "model": {"kind": "gan"},
        "data": {"kind": "digits"},
        "task": {"kind": "regression", "metrics": metrics},
        "optimizer": package_part("third"),
        "optimizers": {"generator": package_part("fourth")},
    }
    with pytest.raises(SpecValidationError) as raised:
        JobSpec.parse(document)
    assert [
        problem.pointer for problem in raised.value.problems if problem.code == "several_packages"
    ] == [
        "/task/metrics/1/package",
        "/optimizer/package",
        "/optimizers/generator/package",
    ]


def test_each_metric_of_a_task_has_a_name_of_its_own():
    metrics = ["mae", package_part("own") | {"name": "mae"}, package_part("own"), "mae"]
    problems = problems_of(
        "mlp",
        task=TypeAdapter(TaskSpec).validate_python({"kind": "regression", "metrics": metrics}),
    )
    assert [
        problem.pointer for problem in problems.values() if problem.code == "metric_name_taken"
    ] == [
        "/task/metrics/1",
        "/task/metrics/3",
    ]


def test_an_optimizer_of_a_package_has_no_moving_average():
    document = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}
    with pytest.raises(SpecValidationError, match="do not average weights"):
        JobSpec.parse(document | {"optimizer": package_part("own") | {"ema": 0.9}})
    assert JobSpec.parse(document | {"optimizer": package_part("own")}).package == "own"


def test_the_metric_of_a_package_may_decide_the_best_evaluation():
    document = {
        "model": {"kind": "mlp"},
        "data": {"kind": "digits"},
        "task": {"kind": "classification", "metrics": [package_part("own")]},
    }
    best = {"metric": "val_a", "mode": "max"}
    assert JobSpec.parse(document | {"train": {"best": best}}).package == "own"
    with pytest.raises(SpecValidationError, match="does not say whether lower or higher"):
        JobSpec.parse(document | {"train": {"best": {"metric": "val_a"}}})
