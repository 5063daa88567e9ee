import json

import pytest

from ampspec.data.data import Npz
from ampspec.jobs import JobSpec, SpecValidationError
from ampspec.objectives.optimizer import Adam, Constant, Sgd
from ampspec.precision.precision import DynamicScale, FixedScale, NoScale


def spec(**parts):
    return JobSpec.parse({"model": {"kind": "mlp"}, "data": {"kind": "digits"}} | parts)


def problems(document):
    with pytest.raises(SpecValidationError) as caught:
        JobSpec.parse(document)
    return {problem.pointer: problem for problem in caught.value.problems}


def test_only_model_and_data_are_required_and_the_rest_has_defaults():
    job = spec()
    assert job.name == "mlp-float32"
    assert job.optimizer.kind == "adam"
    assert job.data.validation_split == 0.2
    assert Npz(path="a.npz").validation_split == 0.0


@pytest.mark.parametrize(
    ("policy", "scale"),
    [
        ("float32", NoScale()),
        ("mixed_bfloat16", NoScale()),
        ("mixed_float16", DynamicScale()),
    ],
)
def test_the_loss_scale_follows_the_policy_unless_it_is_given(policy, scale):
    precision = {"policy": policy}
    assert spec(precision=precision).loss_scale == scale
    given = {"mode": "fixed", "scale": 8.0}
    assert spec(precision=precision, loss_scale=given).loss_scale == FixedScale(scale=8.0)


def test_a_section_without_a_kind_has_the_default_one():
    job = spec(
        precision={"policy": "mixed_float16"},
        optimizer={"learning_rate": 0.5, "schedule": {"warmup_steps": 7}},
        loss_scale={"initial": 8.0},
    )
    assert job.optimizer == Adam(learning_rate=0.5, schedule=Constant(warmup_steps=7))
    assert job.loss_scale == DynamicScale(initial=8.0)
    networks = {"generator": {"learning_rate": 0.25}, "discriminator": {"kind": "sgd"}}
    optimizers = spec(model={"kind": "gan"}, optimizers=networks).optimizers
    assert optimizers == {"generator": Adam(learning_rate=0.25), "discriminator": Sgd()}


def test_the_error_of_a_section_without_a_kind_names_the_fields_of_the_default_one():
    two = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}
    mistakes = problems(two | {"optimizer": {"momentum": 0.5}, "loss_scale": {"initial": 8.0}})
    assert set(mistakes) == {"/optimizer/momentum", "/loss_scale/initial"}
    assert "beta_1" in mistakes["/optimizer/momentum"].expected
    mistakes = problems(two | {"optimizer": "adam", "precision": {"policy": "half"}})
    assert set(mistakes) == {"/optimizer", "/precision/policy"}


@pytest.mark.parametrize("queue", ["Fast GPU", "", "../x", "a\n", "a" * 64])
def test_a_queue_name_must_match_the_pattern(queue):
    two = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}
    problem = problems(two | {"runtime": {"queue": queue}})["/runtime/queue"]
    assert problem.expected.startswith("a text that matches ^[a-z0-9]")
    assert spec(runtime={"queue": "gpu.a100-80"}).runtime.queue == "gpu.a100-80"


def test_all_mistakes_are_reported_at_once_with_pointer_expected_and_received():
    mistakes = problems(
        {
            "model": {"kind": "cnn", "filtres": [8]},
            "data": {"kind": "digits", "batch_size": "256"},
            "precision": {"policy": "mixed_flaot16"},
            "loss_scale": {"mode": "dynamic", "initial": 0.5},
            "train": {"epochs": 0},
            "optimiser": {"kind": "adam"},
        }
    )
    assert set(mistakes) == {
        "/model/filtres",
        "/data/batch_size",
        "/precision/policy",
        "/loss_scale/initial",
        "/train/epochs",
        "/optimiser",
    }
    assert mistakes["/model/filtres"].suggestion == "filters"
    assert mistakes["/optimiser"].suggestion == "optimizer"
    assert mistakes["/precision/policy"].suggestion == "mixed_float16"
    assert mistakes["/data/batch_size"].received == '"256"'
    assert "integer" in mistakes["/data/batch_size"].expected
    assert mistakes["/train/epochs"].received == "0"
    assert mistakes["/loss_scale/initial"].code == "out_of_bounds"


@pytest.mark.parametrize(
    ("document", "pointer", "code"),
    [
        ({}, "/model", "missing"),
        ({"model": {}, "data": {"kind": "digits"}}, "/model/kind", "missing"),
        ({"model": {"kind": "cmn"}, "data": {"kind": "digits"}}, "/model/kind", "unknown_kind"),
        ({"model": "cnn", "data": {"kind": "digits"}}, "/model", "wrong_type"),
        ([], "", "wrong_type"),
        (None, "", "wrong_type"),
    ],
)
def test_missing_and_mistyped_parts_have_an_error_code(document, pointer, code):
    assert problems(document)[pointer].code == code


def test_the_message_of_a_missing_field_says_that_it_is_missing():
    assert problems({})["/model"].detail == "Required field is missing."


def test_a_misspelt_kind_gets_a_suggestion():
    mistakes = problems({"model": {"kind": "lenet"}, "data": {"kind": "digit"}})
    assert mistakes["/model/kind"].suggestion == "lenet5"
    assert mistakes["/data/kind"].suggestion == "digits"


@pytest.mark.parametrize(
    ("parts", "pointer", "code"),
    [
        ({"data": {"kind": "digits", "batch_size": 1438}}, "/data/batch_size", "batch_too_large"),
        (
            {
                "model": {"kind": "gan"},
                "optimizers": {"generator": {"kind": "sgd", "nesterov": True}},
            },
            "/optimizers/generator/momentum",
            "out_of_bounds",
        ),
        (
            {"data": {"kind": "digits", "batch_size": 64}, "train": {"accumulate": 23}},
            "/train/accumulate",
            "batch_too_large",
        ),
        (
            {"loss_scale": {"mode": "dynamic", "minimum": 4.0, "maximum": 2.0, "initial": 4.0}},
            "/loss_scale/initial",
            "out_of_bounds",
        ),
        (
            {"optimizer": {"kind": "sgd", "nesterov": True}},
            "/optimizer/momentum",
            "out_of_bounds",
        ),
        (
            {"model": {"kind": "cnn", "filters": [8, 8, 8, 8]}},
            "/model/filters",
            "model_cannot_take_data",
        ),
        (
            {"model": {"kind": "lenet5"}, "data": {"kind": "synthetic", "shape": [784]}},
            "/data/shape",
            "model_cannot_take_data",
        ),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(parts, pointer, code):
    document = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}} | parts
    assert problems(document)[pointer].code == code


def test_the_largest_batch_that_fits_is_accepted():
    assert spec(data={"kind": "digits", "batch_size": 1437}).data.batch_size == 1437


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0, -1e-3])
def test_a_learning_rate_must_be_finite_and_positive(value):
    document = spec().to_json() | {"optimizer": {"kind": "adam", "learning_rate": value}}
    assert "/optimizer/learning_rate" in problems(document)


def test_a_problem_is_rendered_as_a_sentence_and_as_json():
    problem = problems({"model": {"kind": "cnm"}, "data": {"kind": "digits"}})["/model/kind"]
    assert str(problem).startswith("/model/kind: Expected one of mlp, cnn,")
    assert problem.detail.endswith("Did you mean 'cnn'?")
    assert problem.to_json()["suggestion"] == "cnn"
    assert "suggestion" not in problems({})["/model"].to_json()


def test_the_normalised_document_parses_to_the_same_spec():
    job = spec(precision={"policy": "mixed_float16"}, labels={"team": "vision"})
    assert JobSpec.parse(job.to_json()) == job


def test_the_file_of_a_spec_parses_to_the_same_spec(tmp_path):
    job = spec(optimizer={"kind": "adam", "learning_rate": 1e-05, "epsilon": 1e-8})
    (tmp_path / "job.yaml").write_text(json.dumps(job.to_json()))
    assert JobSpec.from_file(tmp_path / "job.yaml") == job


def test_messages_about_bounds_and_lengths_are_plain():
    document = {
        "model": {"kind": "mlp", "hidden": [1] * 65},
        "data": {"kind": "digits", "batch_size": 0},
        "name": "x" * 201,
    }
    with pytest.raises(SpecValidationError) as caught:
        JobSpec.parse(document)
    assert {problem.pointer: problem.expected for problem in caught.value.problems} == {
        "/model/hidden": "at most 64 items",
        "/data/batch_size": "a number greater than or equal to 1",
        "/name": "at most 200 characters",
    }


@pytest.mark.parametrize("dataset", ["birds", "birds@3", "a.b_c-1@999"])
def test_a_dataset_takes_the_place_of_a_path_in_the_document(dataset):
    document = {"model": {"kind": "mlp"}, "data": {"kind": "npz", "dataset": dataset}}
    data = JobSpec.parse(document).to_json()["data"]
    assert data["dataset"] == dataset
    assert "path" not in data
    assert JobSpec.parse(JobSpec.parse(document).to_json()).to_json()["data"] == data
    document["data"] = {"kind": "npz", "path": "a.npz"}
    assert "dataset" not in JobSpec.parse(document).to_json()["data"]


@pytest.mark.parametrize("dataset", ["", "Birds", "birds@0", "birds@", "@1", "../x", "a" * 64])
def test_a_malformed_dataset_is_a_problem_at_its_field(dataset):
    document = {"model": {"kind": "mlp"}, "data": {"kind": "npz", "dataset": dataset}}
    with pytest.raises(SpecValidationError) as caught:
        JobSpec.parse(document)
    assert caught.value.problems[0].pointer == "/data/dataset"
