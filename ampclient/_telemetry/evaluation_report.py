"""EvaluationReport: what a trained model gets right and wrong, as arrays and figures."""

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from ampclient.errors import UnexpectedResponse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class EvaluationReport:
    """The report of a job, as docs/reference/evaluation.md describes it.

    Where a method takes `output`, None stands for the first output.

    Attributes:
        document: The whole report.
        examples: The number of validation examples.
        metrics: The evaluation of the trained model.
        worst: The examples with the largest losses.
        random: Other examples, drawn at random.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.examples: int = document["examples"]
        self.metrics: Mapping[str, float] = document["metrics"]
        self.worst: Sequence[Mapping[str, Any]] = document["worst"]
        self.random: Sequence[Mapping[str, Any]] = document["random"]
        self._outputs: Mapping[str, Mapping[str, Any]] = document["outputs"]

    @classmethod
    def from_file(cls, content: bytes) -> Self:
        """The report in an `evaluation.json`. Raises UnexpectedResponse."""
        from ampspec.telemetry.evaluation_report import read_report  # loads NumPy

        try:
            return cls(read_report(content))
        except (ValueError, KeyError) as error:
            message = f"The server sent no report of an evaluation: {error}"
            raise UnexpectedResponse(message) from error

    def __repr__(self) -> str:
        return f"<EvaluationReport: {self.examples} examples, outputs {', '.join(self.outputs)}>"

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs that it is about."""
        return list(self._outputs)

    def part(self, output: str | None = None) -> Mapping[str, Any]:
        """All that the report says of an output. Raises KeyError."""
        if output is None:
            return next(iter(self._outputs.values()))
        if output not in self._outputs:
            raise KeyError(f"no output {output!r}; the report has {', '.join(self._outputs)}")
        return self._outputs[output]

    def class_name(self, number: int, output: str | None = None) -> str:
        """The name of a class or label; its number if it has none."""
        names = self.part(output)["names"]
        return str(number) if names is None or number >= len(names) else str(names[number])

    def confusion(self, output: str | None = None) -> "NDArray[np.int64]":
        """The examples by class (rows) and predicted class (columns), (classes, classes).

        Raises:
            KeyError: The output has none: numbers, several labels, or more than 100 classes.
        """
        import numpy as np

        return np.array(self._of(output, "confusion"), np.int64)

    def roc(self, number: int | None = None, output: str | None = None) -> "NDArray[np.float64]":
        """Points (false positive rate, true positive rate) of a class, (n, 2). Raises KeyError.

        Args:
            number: The class or label; None: the first one with a curve, of two classes class 1.
            output: The output.
        """
        return self._curve("roc", number, output)

    def precision_recall(
        self, number: int | None = None, output: str | None = None
    ) -> "NDArray[np.float64]":
        """Points (recall, precision) of a class as of `roc`, (n, 2). Raises KeyError."""
        return self._curve("precision_recall", number, output)

    def points(self, number: int = 0, output: str | None = None) -> "NDArray[np.float64]":
        """Targets and predictions of a number, of at most 500 examples, (n, 2). Raises KeyError."""
        import numpy as np

        return np.array(self._of(output, "numbers")[number]["points"], np.float64)

    def figure(self, output: str | None = None) -> Any:
        """A matplotlib Figure: the confusions and curves, or the errors of numbers.

        Raises:
            ModuleNotFoundError: matplotlib is not installed.
        """
        from ampclient._display.evaluation_figure import evaluation_figure

        return evaluation_figure(self.part(output), lambda number: self.class_name(number, output))

    def _of(self, output: str | None, field: str) -> Any:
        part = self.part(output)
        if field not in part:
            raise KeyError(f"the report has no {field} of this output; it has {', '.join(part)}")
        return part[field]

    def _curve(self, name: str, number: int | None, output: str | None) -> "NDArray[np.float64]":
        import numpy as np

        curves = {curve["class"]: curve for curve in self._of(output, "curves")}
        chosen = next(iter(curves), None) if number is None else number
        if chosen not in curves:
            raise KeyError(f"no curve of class {number}; there are those of {list(curves)}")
        return np.array(curves[chosen][name], np.float64)


def picture_bytes(value: Mapping[str, Any]) -> bytes:
    """The PNG file of an input, target or prediction that is a picture. Raises KeyError."""
    data_url: str = value["picture"]["png"]
    return base64.b64decode(data_url.partition(",")[2])
