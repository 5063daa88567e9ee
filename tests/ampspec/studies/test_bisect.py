"""The search for the layers that need float32, on results that follow from planted faults."""

import json
import re
from dataclasses import replace

import pytest

from ampspec.api.study_requests import BisectOptions
from ampspec.jobs import JobSpec, Reason, SpecValidationError, State
from ampspec.precision.layer_dtypes import LayerInfo, layer_dtypes
from ampspec.precision.precision import ROLES
from ampspec.studies.bisect.bisect import BisectKind
from ampspec.studies.bisect.layer_losses import LayerLoss
from ampspec.studies.plan import JobResult, NoAnswer, StudyContext

LAYERS = 40
"""In 16 bit: the dense layers, and the one that flattens the images."""
SPEC = {
    "model": {"kind": "mlp", "hidden": [8] * (LAYERS - 1)},
    "data": {"kind": "digits", "batch_size": 64},
    "train": {"seed": 4},
}
BAND = {4: 0.90, 5: 0.91, 6: 0.89}


class Planted:
    """Ends each job as training would if some layers need float32 in some of their products."""

    def __init__(self, needed=(), *, roles=ROLES, skips=True, options=None, spec=SPEC, losses=()):
        self.needed, self.roles, self.skips = needed, roles, skips
        self.losses = losses
        self.question = StudyContext(spec, BisectOptions(**(options or {})), ("mixed_float16",))
        self.results = {}
        self.rounds = 0

    def run(self):
        kind = BisectKind()
        while new := self.waiting(kind):
            self.rounds += 1
            for job in new:
                spec = JobSpec.parse(job.document(self.question, "s"))
                self.results[job.key] = self.end(job.key, spec)
        return kind.answer(self.question, self.results)

    def waiting(self, kind):
        planned = kind.jobs(self.question, self.results)
        return [job for job in planned if job.key not in self.results]

    def end(self, key, spec):
        value = BAND[spec.train.seed]
        if spec.precision.policy == "float32" or all(map(self.is_cured(spec), self.needed)):
            return result(key, value)
        failed = result(key, value, skipped=1.0) if self.skips else result(key, value - 0.1)
        return replace(failed, losses=self.losses) if spec.telemetry.ranges.growth == 2 else failed

    def is_cured(self, spec):
        def cured(path):
            info = LayerInfo(path, "Dense")
            products = layer_dtypes(spec.precision, "mixed_float16", info, ()).products
            whole = layer_dtypes(spec.precision, "mixed_float16", info, ()).compute_dtype
            if products is None:
                return whole == "float32"
            return all(getattr(products, role) == "float32" for role in self.roles)

        return cured


def result(key, value, skipped=0.0):
    return JobResult(
        f"job-{key}",
        State.SUCCEEDED,
        metrics={"val_accuracy": value},
        summary={"skipped_share": skipped},
    )


def loss(layer, problem, **more):
    return LayerLoss(layer, "Dense", "float16", "float16", "activations", problem, **more)


def overflows(layer):
    return loss(layer, "overflow", share=0.25, float32=True)


def takes_overflows(layer):
    return loss(layer, None, share=0.0, float32=True)


def loses_little(layer):
    return loss(layer, None, share=0.001, float32=False)


def layers(answer):
    return [layer.path for layer in answer.layers]


@pytest.mark.parametrize("skips", [True, False], ids=["overflow", "worse"])
def test_two_bad_layers_of_forty_are_found_in_at_most_25_jobs(skips):
    planted = Planted(["dense_7", "dense_30"], skips=skips)
    answer = planted.run()
    assert layers(answer) == ["dense_7", "dense_30"]
    assert answer.candidates == LAYERS
    assert len(planted.results) <= 25
    spec = JobSpec.parse({**SPEC, **answer.write})
    assert all(map(planted.is_cured(spec), planted.needed))
    assert [override.dtype for override in spec.precision.overrides] == ["float32", "float32"]
    for one in answer.layers:
        assert one.roles == list(ROLES)
        shown = next(run for run in answer.tried if run.job == one.job)
        assert not shown.passes
        assert ("skipped" in one.explanation) is skips


@pytest.mark.parametrize("role", ROLES)
def test_only_the_products_that_need_it_are_in_float32(role):
    answer = Planted(["dense_7", "dense_30"], roles=[role]).run()
    assert layers(answer) == ["dense_7", "dense_30"]
    assert [layer.roles for layer in answer.layers] == [[role], [role]]
    assert [override["roles"] for override in answer.overrides] == [[role], [role]]
    assert answer.tried[-1].passes or any(
        run.passes and len(run.float32) == 2 for run in answer.tried
    )


def test_range_samples_of_the_failed_job_make_the_search_shorter():
    """The layers that they name are enough, and come before all others."""
    needed = ["dense_7", "dense_30"]
    blind, informed = Planted(needed), Planted(needed)
    informed.losses = [*map(overflows, needed), takes_overflows("dense_8"), loses_little("dense_2")]
    assert layers(blind.run()) == layers(informed.run()) == needed
    assert (len(blind.results), len(informed.results)) == (23, 14)
    assert "float32-in/7-8,30" in informed.results  # the layers that they name
    assert "float32-in/0-39" not in informed.results  # not needed after that


def test_range_samples_that_name_no_layer_still_order_the_search():
    planted = Planted(["dense_30"], losses=[loses_little("dense_30"), loses_little("dense_7")])
    assert layers(planted.run()) == ["dense_30"]
    assert len(planted.results) == 4 + 2 + len(ROLES)


@pytest.mark.parametrize("named", [["dense_3"], ["dense_3", "dense_30"], ["no candidate"]])
def test_range_samples_that_name_other_layers_only_cost_trials(named):
    planted = Planted(["dense_7", "dense_30"], losses=list(map(overflows, named)))
    assert layers(planted.run()) == ["dense_7", "dense_30"]
    assert len(planted.results) <= 35


def test_the_evidence_says_what_the_layer_loses():
    planted = Planted(["dense_7"], losses=[overflows("dense_7")])
    [layer] = planted.run().layers
    assert layer.explanation == (
        "Without this, 100 % of the steps were skipped. In float16 25 % of the outputs overflow."
    )


def test_only_the_job_with_the_policy_alone_takes_range_samples_unless_the_spec_forbids_it():
    planted = Planted(["dense_7"])
    planted.run()
    jobs = BisectKind().jobs(planted.question, planted.results)
    assert [job.key for job in jobs if "telemetry.ranges" in job.changes] == ["float32-in/none"]
    spec = {**SPEC, "telemetry": {"ranges": {"enabled": False}}}
    without = BisectKind().jobs(Planted(spec=spec).question, {})
    assert not any("telemetry.ranges" in job.changes for job in without)


def test_every_job_starts_from_the_weights_of_the_spec():
    spec = {**SPEC, "init": {"job": "abc"}}
    planted = Planted(["dense_7"], spec=spec)
    planted.run()
    for job in BisectKind().jobs(planted.question, planted.results):
        assert job.document(planted.question, "s")["init"] == {"job": "abc"}


def test_losses_stay_when_a_result_is_stored():
    known = replace(result("k", 0.5), losses=[overflows("a"), loses_little("b")])
    assert JobResult.from_json(json.loads(json.dumps(known.to_json()))) == known


def test_a_policy_that_is_as_accurate_needs_no_layer():
    planted = Planted()
    answer = planted.run()
    assert layers(answer) == answer.overrides == []
    assert "needs no layer in float32" in answer.summary
    assert len(planted.results) == 4
    assert planted.rounds == 1


def test_overrides_of_the_spec_stay():
    given = [{"layers": "dense_1$", "dtype": "bfloat16"}]
    spec = {**SPEC, "precision": {"policy": "mixed_float16", "overrides": given}}
    answer = Planted(["dense_7"], spec=spec).run()
    parsed = JobSpec.parse({**SPEC, **answer.write}).precision.overrides
    assert [one.layers for one in parsed] == ["dense_1$", r"^dense_7(/|$)"]


def test_a_policy_that_fails_with_all_layers_in_float32_has_no_answer():
    with pytest.raises(NoAnswer, match=r"fails even with all of its 40 layers in float32: 100 %"):
        Planted(["no such layer"]).run()


def test_a_bad_learning_rate_is_not_blamed_on_a_layer():
    planted = Planted(["dense_7"])
    planted.end = lambda key, spec: JobResult("x", State.FAILED, reason=Reason.NON_FINITE_LOSS)
    with pytest.raises(NoAnswer, match=r"Float32 itself does not train .* no override can help"):
        planted.run()


def test_a_job_that_fails_for_another_reason_has_no_answer():
    planted = Planted(["dense_7"])
    end = planted.end

    def killed(key, spec):
        if key.endswith("/0-19"):
            return JobResult("x", State.FAILED, reason=Reason.OUT_OF_MEMORY, message="of memory")
        return end(key, spec)

    planted.end = killed
    with pytest.raises(NoAnswer, match=r"Job x is failed \(out_of_memory\): of memory"):
        planted.run()


BUNDLE = {"model": {"kind": "bundle", "bundle": f"sha256:{'0' * 64}", "build": "a:b"}}


def test_layers_that_depend_on_data_or_code_are_those_of_the_range_samples():
    losses = [overflows("mine"), replace(loses_little("in_float32"), dtype="float32")]
    losses += map(loses_little, ["block/one", "block/two"])
    planted = Planted(["mine"], spec={**SPEC, **BUNDLE}, losses=losses)
    answer = planted.run()
    assert layers(answer) == ["mine"]
    assert answer.candidates == 3
    assert answer.overrides == [{"layers": "^mine(/|$)", "dtype": "float32"}]


def test_without_range_samples_layers_that_depend_on_code_are_not_known():
    spec = {**SPEC, **BUNDLE}
    assert layers(Planted(spec=spec).run()) == []
    with pytest.raises(
        NoAnswer, match=r"No layer is known .* job-float32-in/none .* no range samples"
    ):
        Planted(["mine"], spec=spec).run()
    forbidden = {**SPEC, **BUNDLE, "telemetry": {"ranges": {"enabled": False}}}
    with pytest.raises(SpecValidationError) as raised:
        BisectKind().jobs(StudyContext(forbidden, BisectOptions(), ("mixed_float16",)), {})
    (problem,) = raised.value.problems
    assert (problem.pointer, problem.code) == ("/telemetry/ranges/enabled", "layers_unknown")


def test_keys_are_short_and_say_which_layers():
    planted = Planted(["dense_7", "dense_30"])
    planted.run()
    keys = [key for key in planted.results if key.startswith("float32-in/")]
    assert "float32-in/none" in keys
    assert f"float32-in/0-{LAYERS - 1}" in keys
    assert all(re.fullmatch(r"float32-in/\S{1,80}", key) for key in keys)
