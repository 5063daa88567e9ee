"""The job spec: what a person posts, and the one way to read it from a document or a file."""

from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError

from ampcore.spec.data import DataSpec
from ampcore.spec.document import read_document
from ampcore.spec.model import ModelSpec
from ampcore.spec.optimizer import Adam, OptimizerSpec
from ampcore.spec.part import Part
from ampcore.spec.precision import LossScaleSpec, Precision, default_loss_scale
from ampcore.spec.problems import Problem, SpecInvalid, from_pydantic
from ampcore.spec.rules import RULES
from ampcore.spec.training import Guard, Labels, Runtime, Train


def _default_name(valid: dict[str, Any]) -> str:
    model, precision = valid.get("model"), valid.get("precision")
    return f"{model.kind}-{precision.policy}" if model and precision else "job"


def _default_loss_scale(valid: dict[str, Any]) -> Any:
    return default_loss_scale(valid.get("precision") or Precision())


class JobSpec(Part):
    """Everything that decides how a job trains. Unknown fields are an error."""

    model: ModelSpec
    data: DataSpec
    precision: Precision = Precision()
    loss_scale: LossScaleSpec = Field(default_factory=_default_loss_scale)
    optimizer: OptimizerSpec = Adam()
    optimizers: dict[str, OptimizerSpec] = Field(default_factory=dict)
    """By name of a network, where a model has several: its own optimizer, in place of the above."""
    train: Train = Train()
    guard: Guard = Guard()
    runtime: Runtime = Runtime()
    labels: Labels = Field(default_factory=dict)
    name: str = Field(default_factory=_default_name, min_length=1, max_length=200)

    @classmethod
    def parse(cls, document: object) -> Self:
        """The spec that a decoded JSON or YAML document stands for.

        Raises SpecInvalid with every mistake at once: those of each field, those between
        fields, and the fields that this version cannot carry out yet.
        """
        try:
            spec = cls.model_validate(document)
        except ValidationError as error:
            problems = from_pydantic(error, cls)
            problems += _beyond_fields(_valid_parts(document))
            raise SpecInvalid(problems) from None
        if problems := _beyond_fields({name: getattr(spec, name) for name in cls.model_fields}):
            raise SpecInvalid(problems)
        return spec

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read a YAML or JSON file. Raises OSError, or SpecInvalid."""
        return cls.parse(read_document(Path(path).read_text(encoding="utf-8")))

    def to_json(self) -> dict[str, Any]:
        """The normalised document: every default written out."""
        document: dict[str, Any] = self.model_dump(mode="json")
        return document


def _beyond_fields(parts: dict[str, Any]) -> list[Problem]:
    return [problem for rule in RULES for problem in rule(parts)]


def _valid_parts(document: object) -> dict[str, Any]:
    """Those top-level parts of a broken document that are valid by themselves."""
    parts: dict[str, Any] = {}
    if not isinstance(document, dict):
        return parts
    for name in JobSpec.model_fields.keys() & document.keys():
        probe = {"model": {"kind": "lenet5"}, "data": {"kind": "digits"}, name: document[name]}
        try:
            parts[name] = getattr(JobSpec.model_validate(probe), name)
        except ValidationError:
            continue
    return parts
