"""The job spec, and how it is read from a document or a file."""

from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from ampspec.data.data import DataSpec
from ampspec.data.equal_names import with_equal_names
from ampspec.documents.base import with_default_kind
from ampspec.documents.problems import Parts
from ampspec.documents.yaml_document import parse_yaml
from ampspec.jobs.checked import WITHOUT_RULES, CheckedSpec
from ampspec.jobs.rules import RULES
from ampspec.models.initial_weights import Init
from ampspec.models.model import ModelSpec
from ampspec.objectives.optimizer import Adam, OptimizerSpec
from ampspec.objectives.task import TaskSpec
from ampspec.precision.precision import LossScaleSpec, Precision, default_loss_scale
from ampspec.references.package import PackageReference
from ampspec.rules.package_rules import package_references
from ampspec.training.telemetry import Telemetry
from ampspec.training.training import Diagnostics, Guard, Labels, Runtime, Train


def _default_name(valid: dict[str, Any]) -> str:
    model, precision = valid.get("model"), valid.get("precision")
    return f"{model.kind}-{precision.policy}" if model and precision else "job"


def _default_loss_scale(valid: dict[str, Any]) -> Any:
    return default_loss_scale(valid.get("precision") or Precision())


def _default_mode(precision: Any) -> str | None:
    """The mode of the default loss scale; None if the precision is invalid."""
    try:
        return default_loss_scale(Precision.model_validate(precision)).mode
    except ValidationError:
        return None


def _filled(document: dict[str, Any]) -> dict[str, Any]:
    """The document with default kinds and inputs: `optimizer: {learning_rate: 0.1}` is Adam."""
    filled = dict(document)
    if "optimizer" in filled:
        filled["optimizer"] = with_default_kind(filled["optimizer"], Adam().kind)
    if isinstance(filled.get("optimizers"), dict):
        filled["optimizers"] = {
            name: with_default_kind(optimizer, Adam().kind)
            for name, optimizer in filled["optimizers"].items()
        }
    if "loss_scale" in filled and (mode := _default_mode(filled.get("precision", {}))):
        filled["loss_scale"] = with_default_kind(filled["loss_scale"], mode, "mode")
    if "data" in filled:
        filled["data"] = with_equal_names(filled.get("model"), filled["data"])
    return filled


class JobSpec(CheckedSpec):
    """The complete description of a training job. Unknown fields are an error."""

    rules = RULES

    model: ModelSpec
    data: DataSpec
    task: TaskSpec | None = None
    """The target, loss and metrics; null: decided by the model's kind."""
    init: Init | None = Field(default=None, exclude_if=lambda init: init is None)
    """Trained weights to start from; null: random weights."""
    precision: Precision = Precision()
    loss_scale: LossScaleSpec = Field(default_factory=_default_loss_scale)
    optimizer: OptimizerSpec = Adam()
    optimizers: dict[str, OptimizerSpec] = Field(default_factory=dict)
    """For a model with several networks: the optimizer of each, by the network's name."""
    train: Train = Train()
    guard: Guard = Guard()
    diagnostics: Diagnostics = Diagnostics()
    runtime: Runtime = Runtime()
    telemetry: Telemetry = Field(
        default=Telemetry(), exclude_if=lambda telemetry: telemetry == Telemetry()
    )
    labels: Labels = Field(default_factory=dict)
    name: str = Field(default_factory=_default_name, min_length=1, max_length=200)

    @model_validator(mode="before")
    @classmethod
    def _fill_in_document(cls, document: Any) -> Any:
        return _filled(document) if isinstance(document, dict) else document

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read a YAML or JSON file. Raises OSError, or SpecValidationError."""
        return cls.parse(parse_yaml(Path(path).read_text(encoding="utf-8")))

    @property
    def global_batch_size(self) -> int:
        """The examples of a step on all ranks."""
        return self.data.batch_size * self.train.accumulate * self.runtime.ranks

    @property
    def package(self) -> str | None:
        """The installed package that the job needs, if any."""
        return next((reference.package for reference in self.package_references().values()), None)

    def package_references(self) -> dict[str, PackageReference]:
        """By JSON pointer, the entry points of installed packages that the spec uses."""
        return package_references({name: getattr(self, name) for name in type(self).model_fields})

    def to_json(self) -> dict[str, Any]:
        """The normalised document, with all defaults filled in."""
        document: dict[str, Any] = self.model_dump(mode="json")
        return document

    @classmethod
    def _valid_sections(cls, document: object) -> Parts:
        sections: Parts = {}
        if not isinstance(document, dict):
            return sections
        filled = _filled(document)
        for name in cls.model_fields.keys() & filled.keys():
            probe = {"model": {"kind": "lenet5"}, "data": {"kind": "digits"}, name: filled[name]}
            try:
                spec = cls.model_validate(probe, context=WITHOUT_RULES)
            except ValidationError:
                continue
            sections[name] = getattr(spec, name)
        return sections
