"""The evaluations of a job: its validation metrics by epoch and step."""

from pydantic import ConfigDict, Field

from ampspec.api.base import ApiModel, Number


class Evaluation(ApiModel):
    """The validation metrics after a step; each metric is a field, as `val_loss` is."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Number]

    epoch: int | None = Field(
        description="The epoch of the step, counted from 0. Null if it is unknown, as of a "
        "tracked run whose evaluations do not name it."
    )
    step: int = Field(description="The last step before the evaluation, counted from 0.")
    best: bool = Field(
        default=False,
        description="Whether it is the best evaluation so far, by the metric of `train.best`.",
    )

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics by name."""
        return dict(self.__pydantic_extra__)


class EvaluationPage(ApiModel):
    """A page of evaluations in the order of their steps, each evaluated step once."""

    items: list[Evaluation]
    next: int | None = Field(
        description="The last step in this response, or the request's `after`; pass it as `after` "
        "to continue."
    )
    more: bool = Field(description="Whether more evaluations are stored.")
