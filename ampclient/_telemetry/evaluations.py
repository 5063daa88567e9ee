"""The evaluations of a job: a sequence of mappings with epoch, step and metrics."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

from ampclient._display import notebook_html
from ampspec.api.job.evaluations import Evaluation

EvaluationRow = Mapping[str, int | float | None]
"""`epoch` (None if unknown) and `step`, both counted from 0, and a float for each metric."""


class Evaluations(Sequence[EvaluationRow]):
    """The evaluations of a job in order, each evaluated step once.

    `evaluations[-1]["val_loss"]` is the last validation loss; a row has only the metrics of its own
    evaluation.
    """

    def __init__(self, rows: Iterable[EvaluationRow], best_step: int | None = None) -> None:
        self._rows, self._best_step = list(rows), best_step

    @classmethod
    def of(cls, evaluations: Iterable[Evaluation]) -> "Evaluations":
        """The evaluations of a response."""
        listed = list(evaluations)
        rows = ({"epoch": e.epoch, "step": e.step, **e.metrics} for e in listed)
        return cls(rows, next((e.step for e in listed if e.best), None))

    @property
    def best(self) -> EvaluationRow | None:
        """The best evaluation so far; None unless the spec asks for one, as with `train.best`."""
        return next((row for row in self._rows if self.is_best(row)), None)

    def is_best(self, row: EvaluationRow) -> bool:
        """Whether this row is the best evaluation so far."""
        return self._best_step is not None and row["step"] == self._best_step

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics of all evaluations, in the order in which they first appear."""
        names = dict.fromkeys(name for row in self._rows for name in row)
        return tuple(name for name in names if name not in ("epoch", "step"))

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> EvaluationRow: ...
    @overload
    def __getitem__(self, index: slice) -> "Evaluations": ...
    def __getitem__(self, index: int | slice) -> "EvaluationRow | Evaluations":
        if isinstance(index, slice):
            return Evaluations(self._rows[index], self._best_step)
        return self._rows[index]

    def __repr__(self) -> str:
        return f"<Evaluations of {len(self)} steps: {', '.join(self.names) or 'no metrics'}>"

    def column(self, name: str) -> list[int | float | None]:
        """`epoch`, `step` or one metric of all evaluations; None where it is missing."""
        return [row.get(name) for row in self._rows]

    def to_json(self) -> list[dict[str, Any]]:
        """The rows as JSON values: non-finite numbers as strings."""
        marked = (row | {"best": True} if self.is_best(row) else row for row in map(dict, self))
        return [Evaluation.from_json(row).to_json() for row in marked]

    def to_pandas(self) -> Any:
        """A pandas.DataFrame indexed by step; needs pandas installed."""
        try:
            import pandas
        except ModuleNotFoundError:
            raise ModuleNotFoundError("to_pandas needs pandas: pip install pandas") from None

        columns = {name: self.column(name) for name in ("epoch", *self.names)}
        return pandas.DataFrame(columns, index=pandas.Index(self.column("step"), name="step"))

    def to_arrow(self) -> Any:
        """A pyarrow.Table: step and epoch, then the metrics; null where one is missing."""
        import pyarrow

        arrays = {
            name: pyarrow.array(self.column(name), pyarrow.int64()) for name in ("step", "epoch")
        }
        arrays |= {name: pyarrow.array(self.column(name), pyarrow.float64()) for name in self.names}
        return pyarrow.table(arrays)

    def _repr_html_(self) -> str:
        head = ("epoch", "step", *self.names)
        return notebook_html.table(head, ([row.get(name) for name in head] for row in self._rows))
