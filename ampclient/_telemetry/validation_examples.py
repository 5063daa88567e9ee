"""ValidationExamples: the rows that a job was evaluated on, with its metrics on each of them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from ampclient.errors import UnexpectedResponse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ValidationExamples:
    """The validation examples of a job, in the order of their rows.

    Attributes:
        rows: The row of each example in its data, counted from 1 as in messages, (n,).
        metrics: By name, the value of the trained model on each example, (n,).
    """

    def __init__(
        self, rows: "NDArray[np.int64]", metrics: Mapping[str, "NDArray[np.float32]"]
    ) -> None:
        self.rows, self.metrics = rows, metrics

    @classmethod
    def from_table(cls, content: bytes) -> Self:
        """The examples in a `validation_examples.npy`. Raises UnexpectedResponse."""
        from ampspec.telemetry.validation_examples import read_examples  # loads NumPy

        try:
            return cls(*read_examples(content))
        except ValueError as error:
            message = f"The server sent no table of validation examples: {error}"
            raise UnexpectedResponse(message) from error

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        metrics = ", ".join(self.metrics) or "no metrics"
        return f"<ValidationExamples: {len(self)} rows with {metrics}>"

    def to_pandas(self) -> Any:
        """A pandas.DataFrame indexed by row; needs pandas installed."""
        try:
            import pandas
        except ModuleNotFoundError:
            raise ModuleNotFoundError("to_pandas needs pandas: pip install pandas") from None

        return pandas.DataFrame(dict(self.metrics), index=pandas.Index(self.rows, name="row"))
