"""Planted faults, and what each kind of study answers without a reference; trained for real.

| fault | precision | bisect | `explain` | ranges |
| --- | --- | --- | --- | --- |
| a layer overflows at any scale | failed | that layer | the operation | that layer |
| a layer underflows | not equal | that layer | – | that layer |
| a data row with inf | no answer: the row | no answer: the row | the data, the row | – |
| a bad learning rate | no answer: float32 | no answer: float32 | the weights | – |
| a policy that is 1 point worse | worse | the layers | – | – |
| a policy that is equal | equal | no layer | – | – |

Explanations of these faults are tested in `train/test_explain.py`, ranges in
`diagnostics/test_range_probe.py`, and bisecting an overflow in
`tests/e2e/dashboard/test_bisect_page.py`.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ampcore import JobSpec
from ampcore.training import Trainer
from ampspec.api.studies import Answer, BisectAnswer, PrecisionAnswer
from ampspec.errors import TrainingError
from ampspec.jobs import State
from ampspec.studies.bisect.layer_losses import layer_losses
from ampspec.studies.kinds import KINDS, OPTIONS
from ampspec.studies.plan import JobResult, NoAnswer, PlannedJob, StudyContext
from ampspec.telemetry import Event, EventType, StepBlock
from ampspec.telemetry.metrics import finite_metrics
from ampspec.telemetry.ranges.number_formats import FLOAT16
from ampspec.telemetry.ranges.range_report import range_report
from ampspec.telemetry.ranges.range_samples import RangeSample

pytestmark = pytest.mark.slow

BATCH, WIDTH, ROWS, TEST_ROWS = 64, 8, 1280, 4096


def network(stddev: float) -> dict[str, Any]:
    """The outputs of `planted` are of this size; nothing else leaves the range of float16."""
    initializer = {"name": "random_normal", "stddev": stddev}
    return {
        "kind": "layers",
        "inputs": {"x": {"shape": [WIDTH]}},
        "layers": [
            {"layer": "Dense", "name": "first", "units": 16, "activation": "relu"},
            {"layer": "Dense", "name": "planted", "units": 16, "kernel_initializer": initializer},
            {"layer": "LayerNormalization", "name": "norm", "epsilon": 1e-30},
            {"layer": "Dense", "name": "hidden", "units": 16, "activation": "relu"},
            {"layer": "Dense", "name": "logits", "units": "classes"},
        ],
    }


class Fault:
    """A spec with a fault, and the results of its jobs, each trained once.

    The ranges of the layers, which take as long to trace as the training, are sampled in the jobs
    for which the study asks for them.
    """

    def __init__(self, folder: Any, model: dict[str, Any], **sections: Any) -> None:
        self.folder = folder
        self.document = {
            "model": model,
            "data": {"kind": "npz", "path": "rows.npz", "batch_size": BATCH},
            "optimizer": {"kind": "adam", "learning_rate": 0.01},
            "train": {"epochs": 6},
            "runtime": {"engine": "graph"},
            **sections,
        }
        self._trained: dict[str, JobResult] = {}

    def ask(self, kind: str, policy: str, **options: Any) -> Answer:
        """The answer of a study. Raises NoAnswer."""
        study = KINDS[kind]
        given = {"policy": policy, "steps": None} if kind == "bisect" else {"policies": [policy]}
        chosen = OPTIONS[kind].model_validate({"seeds": 2, **given, **options})
        question = StudyContext(self.document, chosen, (policy,))
        results: dict[str, JobResult] = {}
        while new := [job for job in study.jobs(question, results) if job.key not in results]:
            results |= {job.key: self._train_once(question, job) for job in new}
        return study.answer(question, results)

    def _train_once(self, question: StudyContext[Any], job: PlannedJob) -> JobResult:
        document = job.document(question, "s")
        is_sampled = "telemetry.ranges" in job.changes
        if not is_sampled:
            document = {**document, "telemetry": {"ranges": {"enabled": False}}}
        spec = JobSpec.parse(document)
        changes = [job.changes["precision"], spec.train.seed, is_sampled]
        differs = json.dumps(changes, sort_keys=True)
        if differs not in self._trained:
            self._trained[differs] = self._train(spec, job.key)
        return self._trained[differs]

    def _train(self, spec: JobSpec, key: str) -> JobResult:
        blocks: list[StepBlock] = []
        events: list[Event] = []
        trainer = Trainer(spec, data_root=self.folder)
        try:
            result = trainer.run(blocks.append, events.append)
        except TrainingError as error:
            ended: dict[str, Any] = {"state": State.FAILED, "reason": error.reason}
            ended["message"] = str(error)
        else:
            ended = {"state": State.SUCCEEDED, "metrics": finite_metrics(result.metrics)}
        skipped = [block["skipped"].mean() for block in blocks]
        summary = {"skipped_share": float(np.mean(skipped))} if skipped else {}
        return JobResult(key, **ended, summary=summary, losses=losses(events))


def losses(events: list[Event]) -> Any:
    samples = [RangeSample.from_json(event.step, event.data)
               for event in events if event.type is EventType.RANGES]  # fmt: skip
    report = range_report(samples, FLOAT16)
    return layer_losses(report) if report else ()


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Writes a data file that a linear model can learn; `damage` changes the features."""

    def write(damage: Callable[[Any], None] = lambda x: None) -> Any:
        rng = np.random.default_rng(0)
        x = rng.standard_normal((ROWS + TEST_ROWS, WIDTH)).astype(np.float32)
        y = (x[:, 0] > 0).astype(np.int64)
        damage(x)
        folder = tmp_path_factory.mktemp("rows")
        (x_train, x_test), (y_train, y_test) = np.split(x, [ROWS]), np.split(y, [ROWS])
        parts = {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}
        np.savez(folder / "rows.npz", **parts)
        return folder

    return write


def test_a_layer_that_overflows_at_any_scale_fails_the_policy(rows: Any) -> None:
    answer = Fault(rows(), network(1e5)).ask("precision", "mixed_float16")
    assert isinstance(answer, PrecisionAnswer)
    float32, float16 = answer.policies
    assert (float32.verdict, float16.verdict) == ("equal", "failed")
    assert (float16.skipped_share, answer.recommended) == (1.0, "float32")
    assert "study bisect" in float16.explanation


def test_a_layer_that_underflows_is_found_although_no_step_is_skipped(rows: Any) -> None:
    fault = Fault(rows(), network(1e-9))
    answer = fault.ask("bisect", "mixed_float16")
    assert isinstance(answer, BisectAnswer)
    [layer] = answer.layers
    assert layer.path == "planted"
    assert "worse than the noise band" in layer.explanation
    assert "In float16 100 % of the outputs underflow." in layer.explanation
    precision = fault.ask("precision", "mixed_float16")
    assert isinstance(precision, PrecisionAnswer)
    float16 = precision.policies[1]
    assert float16.verdict != "equal"
    assert float16.difference is not None
    assert float16.difference < -0.1


def test_a_row_with_inf_has_no_answer_that_names_a_layer_and_the_row_is_named(rows: Any) -> None:
    def damage(x: Any) -> None:
        x[700, 2] = np.inf

    fault = Fault(rows(damage), network(1.0))
    with pytest.raises(NoAnswer, match=r"Float32 itself does not train .*invalid_data.*row 701"):
        fault.ask("bisect", "mixed_float16")
    with pytest.raises(NoAnswer, match=r"in float32; 0 have it: .*invalid_data.*row 701"):
        fault.ask("precision", "mixed_float16")


def test_a_bad_learning_rate_has_no_answer_because_float32_fails_too(rows: Any) -> None:
    optimizer = {"kind": "sgd", "learning_rate": 1e6}
    fault = Fault(rows(), network(1.0), optimizer=optimizer)
    with pytest.raises(NoAnswer, match=r"Float32 itself does not train.*The learning rate, 1e\+06"):
        fault.ask("bisect", "mixed_bfloat16")
    with pytest.raises(NoAnswer, match=r"jobs in float32; 0 have it: .*The learning rate, 1e\+06"):
        fault.ask("precision", "mixed_bfloat16")


@pytest.mark.parametrize(("offset", "verdict"), [(0, "equal"), (16, "worse")])
def test_a_policy_that_is_1_point_worse_is_told_from_one_that_is_equal(
    rows: Any, offset: float, verdict: str
) -> None:
    """Around 16, bfloat16 has steps of 1/16 and 1/8: it moves values across the limit of 0."""

    def damage(x: Any) -> None:
        x += offset

    model = {
        "kind": "layers",
        "inputs": {"x": {"shape": [WIDTH]}},
        "layers": [
            {"layer": "Activation", "name": "rounded", "activation": "linear"},
            {"layer": "BatchNormalization", "name": "center", "momentum": 0.97},
            {"layer": "Dense", "name": "logits", "units": "classes"},
        ],
    }
    optimizer = {"kind": "adam", "learning_rate": 0.1, "schedule": {"kind": "cosine"}}
    train = {"epochs": 16}
    fault = Fault(rows(damage), model, optimizer=optimizer, train=train)
    answer = fault.ask("precision", "mixed_bfloat16", seeds=3)
    assert isinstance(answer, PrecisionAnswer)
    bfloat16 = answer.policies[1]
    assert bfloat16.verdict == verdict
    assert bfloat16.difference == pytest.approx(-0.01 if offset else 0.0, abs=0.008)
    bisected = fault.ask("bisect", "mixed_bfloat16", seeds=3)
    assert isinstance(bisected, BisectAnswer)
    # The values stay unrounded only if the layer after the first one is in float32, too.
    assert {layer.path for layer in bisected.layers} == ({"rounded", "center"} if offset else set())
