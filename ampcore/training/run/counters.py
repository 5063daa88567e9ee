"""The counters of a run in a checkpoint, readable by earlier and later versions."""

from typing import Any, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from ampcore.checkpoint import Manifest
from ampcore.training.evaluation.best_evaluation import BestState
from ampcore.training.evaluation.totals import Totals
from ampspec import __version__
from ampspec.documents.text import plural
from ampspec.errors import IncompatibleCheckpoint


class GoodStateCounters(BaseModel):
    """The counters of a good state: see `ampcore.training.run.recovery.GoodState`."""

    model_config = ConfigDict(frozen=True)

    steps: NonNegativeInt
    rollbacks: NonNegativeInt = 0


class RunCounters(BaseModel):
    """The counters of a run.

    Every field has a default, for checkpoints of versions without it; fields of later versions
    are ignored.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    totals: Totals = Field(default_factory=Totals)
    nonfinite_in_a_row: NonNegativeInt = Field(
        0, validation_alias=AliasChoices("nonfinite_in_a_row", "guard_row")
    )
    """The non-finite steps directly before; version 0.5 wrote `guard_row`."""
    warned_of_damage: bool = False
    in_float32: bool = False
    """Whether the run has fallen back to float32."""
    diagnosis: dict[str, Any] = Field(default_factory=dict)
    best: BestState | None = None
    """The best evaluation, if the run looks for one."""
    good_state: GoodStateCounters | None = None
    """The counters of the rollback state, if the checkpoint contains its arrays."""

    def to_json(self) -> dict[str, Any]:
        """Every field, copied."""
        return self.model_dump()

    @classmethod
    def from_manifest(cls, manifest: Manifest) -> Self:
        """The counters of a checkpoint.

        Raises:
            IncompatibleCheckpoint: A value is not of the type of its field.
        """
        document: dict[str, Any] = dict(manifest.counters)
        totals = document.get("totals")
        if isinstance(totals, dict):
            document["totals"] = {"steps": manifest.step} | totals
        elif totals is None:
            document["totals"] = {"steps": manifest.step}
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            field = ".".join(map(str, ("counters", *problem["loc"])))
            made_by = manifest.versions.get("ampcore", "an unknown version")
            raise IncompatibleCheckpoint(
                f"The checkpoint after {plural(manifest.step, 'step')} cannot be read: {field}: "
                f"expected {problem['msg']}; received {problem['input']!r}. It was made by ampcore "
                f"{made_by}; this is ampcore {__version__}."
            ) from None
