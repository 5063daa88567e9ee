"""Answers a study of precision by training its jobs in this process, without a server."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from ampcore import JobSpec
from ampcore.training import Trainer
from ampspec.api.studies import PrecisionAnswer
from ampspec.api.study_requests import PrecisionOptions
from ampspec.errors import TrainingError
from ampspec.jobs import State
from ampspec.studies.plan import JobResult, StudyContext
from ampspec.studies.precision.example_results import ExampleResults
from ampspec.studies.precision.precision import PrecisionKind
from ampspec.telemetry.metrics import finite_metrics
from ampspec.telemetry.validation_examples import VALIDATION_EXAMPLES_FILE


def answer_precision(
    document: Mapping[str, Any], policy: str, folder: Path, **options: Any
) -> PrecisionAnswer:
    """What the server would answer about a policy.

    Args:
        document: The spec; `data.split_seed` is part of it, as a server writes it.
        policy: The policy that is compared with float32.
        folder: Where the data is.
        options: Those of the study.

    Raises:
        NoAnswer: The jobs in float32 do not train.
    """
    kind = PrecisionKind()
    chosen = PrecisionOptions(policies=[policy], **options)
    question = StudyContext(document, chosen, (policy,))
    results: dict[str, JobResult] = {}
    while planned := [job for job in kind.jobs(question, results) if job.key not in results]:
        for job in planned:
            results[job.key] = _train(JobSpec.parse(job.document(question, "s")), job.key, folder)
    return kind.answer(question, results)


def _train(spec: JobSpec, key: str, folder: Path) -> JobResult:
    skipped: list[float] = []
    with tempfile.TemporaryDirectory() as output:
        trainer = Trainer(spec, data_root=folder, output_dir=output)
        try:
            result = trainer.run(lambda block: skipped.extend(block["skipped"]))
        except TrainingError as error:
            share = {"skipped_share": fmean(skipped)} if skipped else {}
            return JobResult(key, State.FAILED, error.reason, str(error), summary=share)
        table = Path(output) / VALIDATION_EXAMPLES_FILE
        examples = ExampleResults.from_table(table.read_bytes()) if table.exists() else None
    return JobResult(
        key,
        State.SUCCEEDED,
        metrics=finite_metrics(result.metrics),
        summary=result.to_json(),
        examples=examples,
        split_seed=getattr(spec.data, "split_seed", None),
    )
