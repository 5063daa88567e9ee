"""Builds the report of an evaluation, from one pass over the validation examples."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data import Batch, Dataset, Examples
from ampcore.models.supervised import by_output
from ampcore.training.evaluation.report.outputs import ReportedOutput
from ampcore.training.evaluation.report.shown_examples import (
    choose_examples,
    describe_inputs,
    describe_outputs,
    rows_of,
)
from ampcore.training.evaluation.report.summaries import OutputSummary, summary_of

Array = NDArray[Any]
Reduced = Mapping[str, Mapping[str, Array]]
"""By output, what `ReportedOutput.reduce` has kept of a batch."""


class ReportBuilder:
    """Counts the examples of a pass, and describes some of them at its end.

    Args:
        outputs: What is reported, by the name of the output.
        names: All outputs, in the order of targets in a list.
    """

    def __init__(self, outputs: Mapping[str, ReportedOutput], names: Sequence[str]) -> None:
        self._outputs, self._names = dict(outputs), list(names)
        self._summaries: dict[str, OutputSummary | None] = {}
        self._count = 0

    def reduce(self, outputs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """What is kept of a batch, in the graph; float32 outputs by name."""
        return {name: output.reduce(outputs[name]) for name, output in self._outputs.items()}

    def add(self, batch: Batch, reduced: Reduced) -> None:
        """Count a batch of examples."""
        self._count += len(batch.parts[0])
        targets = self._targets(batch)
        for name, output in self._outputs.items():
            if name not in self._summaries:
                self._summaries[name] = summary_of(output, reduced[name])
            summary = self._summaries[name]
            if summary is not None:
                summary.add(targets[name], reduced[name])

    def to_json(
        self, dataset: Dataset, losses: Array | None, evaluate: Callable[[Batch], Reduced]
    ) -> dict[str, Any]:
        """The report.

        Args:
            dataset: The data, with random access to its validation examples.
            losses: The loss of each, (n,); None: only random ones are shown.
            evaluate: What is kept of the outputs on a batch.
        """
        examples: Any = dataset.validation
        chosen = choose_examples(np.zeros(len(examples)) if losses is None else losses)
        return {
            "examples": self._count,
            "outputs": {
                name: {
                    "kind": output.kind,
                    "names": None if output.names is None else list(output.names),
                    **({} if (summary := self._summaries.get(name)) is None else summary.to_json()),
                }
                for name, output in self._outputs.items()
            },
            "worst": self._shown(dataset, examples, chosen.worst, losses, evaluate)
            if losses is not None
            else [],
            "random": self._shown(dataset, examples, chosen.random, losses, evaluate),
        }

    def _shown(
        self,
        dataset: Dataset,
        examples: Examples,
        indices: Array,
        losses: Array | None,
        evaluate: Callable[[Batch], Reduced],
    ) -> list[dict[str, Any]]:
        if not len(indices):
            return []
        # Examples in a file are read in the order of their rows.
        order = np.argsort(indices, kind="stable")
        batch = examples.read(indices[order])
        reduced = evaluate(batch)
        outputs = describe_outputs(self._outputs, self._targets(batch), reduced, len(indices))
        inputs = describe_inputs(dataset, batch, indices[order])
        rows = rows_of(dataset, indices[order])
        shown = [
            {
                "row": rows[place],
                "loss": None if losses is None else float(losses[indices[order[place]]]),
                "inputs": inputs[place],
                "outputs": outputs[place],
            }
            for place in range(len(indices))
        ]
        return [shown[place] for place in np.argsort(order, kind="stable")]

    def _targets(self, batch: Batch) -> dict[str, Array]:
        targets = by_output(batch.y, self._names)
        return {name: np.asarray(targets[name]) for name in self._outputs if name in targets}


def as_arrays(reduced: Any) -> Any:
    """Tensors as arrays."""
    return tf.nest.map_structure(lambda tensor: tensor.numpy(), reduced)
