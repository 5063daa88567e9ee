"""The rules between sections hold however a spec is made."""

import pytest
from pydantic import ValidationError

from ampcore.training.jobs.job import SpecJob
from ampspec.jobs import JobSpec, SpecValidationError
from ampspec.jobs.checked import WITHOUT_RULES
from ampspec.objectives.optimizer import Sgd
from ampspec.studies.capacity.memory_model import memory_model

VALID = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}
BROKEN = {**VALID, "optimizer": {"kind": "sgd", "nesterov": True}}
MESSAGE = "/optimizer/momentum: Expected a momentum above 0"


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (JobSpec.parse, SpecValidationError),
        (JobSpec.model_validate, ValidationError),
        (lambda document: JobSpec(**document), ValidationError),
    ],
)
def test_a_spec_that_breaks_a_rule_cannot_be_made(make, error):
    with pytest.raises(error, match=MESSAGE):
        make(BROKEN)


def test_a_copy_follows_the_rules_and_the_types():
    spec = JobSpec.parse(VALID)
    with pytest.raises(ValidationError, match=MESSAGE):
        spec.model_copy(update={"optimizer": Sgd(nesterov=True)})
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        spec.model_copy(update={"train": spec.train.model_copy(update={"steps": -1})})
    with pytest.raises(ValidationError, match="Extra inputs"):
        spec.model_copy(update={"optimiser": Sgd()})
    copy = spec.model_copy(update={"train": spec.train.model_copy(update={"steps": 7})})
    assert (copy.train.steps, spec.train.steps, copy.model) == (7, None, spec.model)


def test_an_estimate_may_ask_for_what_could_not_be_trained():
    data = {"kind": "synthetic", "shape": [8, 8, 1], "classes": 3, "examples": 10, "batch_size": 4}
    document = {**VALID, "data": data}
    spec = JobSpec.parse(document)
    larger = {"data": spec.data.model_copy(update={"batch_size": 64})}
    with pytest.raises(ValidationError, match="/data/batch_size"):
        spec.model_copy(update=larger)
    assert spec.unchecked_copy(larger).data.batch_size == 64
    assert memory_model(document, "mixed_bfloat16") is not None


def test_a_job_that_falls_back_to_float32_exchanges_no_float16():
    runtime = {"devices": 2, "exchange": {"gradient_dtype": "float16"}}
    spec = JobSpec.parse({**VALID, "precision": {"policy": "mixed_float16"}, "runtime": runtime})
    fallback = SpecJob(spec).in_float32().spec
    assert (fallback.precision.policy, fallback.loss_scale.mode) == ("float32", "none")
    assert fallback.runtime.exchange.gradient_dtype == "float32"


def test_a_stored_spec_is_read_although_a_later_rule_refuses_it():
    assert JobSpec.model_validate(BROKEN, context=WITHOUT_RULES).optimizer == Sgd(nesterov=True)
