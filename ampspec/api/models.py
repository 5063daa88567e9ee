"""The model registry: models, their versions, aliases, and promotions."""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints

from ampspec.api.base import ApiModel, JsonObject, Number, RequestModel, StoredModel, open_enum
from ampspec.references.model_reference import ALIAS, LATEST, MODEL_NAME

MAX_TAGS: Final = 64
MAX_NOTE: Final = 10_000
MAX_ASSERTIONS: Final = 20

ModelFormat = Literal["keras", "safetensors", "saved_model", "onnx"]
FORMATS: Final[tuple[ModelFormat, ...]] = ("keras", "safetensors", "saved_model", "onnx")
ModelName = Annotated[str, StringConstraints(pattern=f"^{MODEL_NAME}$")]


def _check_alias(alias: str) -> str:
    if alias == LATEST:
        raise ValueError(f"'{LATEST}' always stands for the newest version and cannot be set")
    return alias


AliasName = Annotated[str, StringConstraints(pattern=f"^{ALIAS}$"), AfterValidator(_check_alias)]
TagKey = Annotated[str, StringConstraints(min_length=1, max_length=64)]
TagValue = Annotated[str, StringConstraints(max_length=256)]
TagChanges = Annotated[dict[TagKey, TagValue | None], Field(max_length=MAX_TAGS)]
Note = Annotated[str, StringConstraints(max_length=MAX_NOTE)]
AssertionText = Annotated[str, StringConstraints(min_length=1, max_length=300)]
Assertions = Annotated[list[AssertionText], Field(max_length=MAX_ASSERTIONS)]
VersionNumber = Annotated[int, Field(ge=1, le=2**31 - 1)]
Reason = Annotated[str, StringConstraints(max_length=1000)]


class ModelFile(ApiModel):
    """A version in one format."""

    format: Annotated[str, open_enum(*FORMATS)]
    state: Annotated[str, open_enum("available", "failed", "not requested", "missing")] = Field(
        description="`failed`: the conversion failed, or its outputs differ from the model's; "
        "`not requested`: `train.export` of the job does not name the format; `missing`: the job "
        "has no such file. `reason` says why."
    )
    reason: str | None = Field(default=None, description="null if the file is available.")
    file_name: str | None = None
    size_bytes: int | None = None
    sha256: str | None = None
    checked: str | None = Field(
        default=None,
        description="How the outputs were compared with those of the model; null if they were not.",
    )
    max_difference: Number | None = Field(
        default=None, description="The largest difference of an output."
    )
    tolerance: Number | None = Field(
        default=None, description="The largest difference that the dtype of the model explains."
    )


class ModelVersion(StoredModel):
    """A version of a model, made from a job; its files never change."""

    model: str = Field(description="The name of the model.")
    number: int
    aliases: list[str]
    job_id: str | None = Field(
        description="The job that trained it; null if it and then its job were deleted."
    )
    job_name: str
    files: list[ModelFile] = Field(description="One entry for each format.")
    lineage: JsonObject = Field(
        description="The data, code, study, seeds, precision and environment of the job."
    )
    metrics: dict[str, Number] = Field(description="The evaluation of these weights.")
    signature: JsonObject | None = Field(
        description="The names, shapes (without the batch axis) and dtypes of inputs and outputs."
    )
    note: str | None
    tags: dict[str, str]
    created_at: datetime
    created_by: str | None = Field(description="The name of the token that registered it.")
    deleted_at: datetime | None = Field(
        description="When it was deleted. It can be restored while its job exists."
    )
    deleted_by: str | None

    @property
    def reference(self) -> str:
        """The reference: `digits:3`."""
        return f"{self.model}:{self.number}"

    def file(self, format: str = "keras") -> ModelFile | None:  # noqa: A002 - the field's name
        """The entry of a format; None if this server does not know the format."""
        return next((file for file in self.files if file.format == format), None)


class Model(StoredModel):
    """A model with its newest version."""

    name: str
    project: str
    note: str | None
    tags: dict[str, str]
    gates: dict[str, list[str]] = Field(
        description="By alias, the assertions that a version must satisfy before it gets it."
    )
    aliases: dict[str, int] = Field(description="By alias, the number of its version.")
    version_count: int
    newest: ModelVersion
    created_at: datetime
    created_by: str | None


class ModelPage(ApiModel):
    """A page of models, ordered by name."""

    items: list[Model]
    next_cursor: str | None = Field(description="null on the last page.")


class ModelVersionPage(ApiModel):
    """A page of the versions of a model, newest first."""

    items: list[ModelVersion]
    next_cursor: str | None = Field(description="null on the last page.")


class AssertionCheck(ApiModel):
    """An assertion of a promotion, and whether it holds."""

    assertion: str
    outcome: Annotated[str, open_enum("passed", "failed", "undecided", "skipped")] = Field(
        description="`undecided`: the validation examples do not tell; `skipped`: it is about the "
        "current version, and there is none."
    )
    value: Number
    base: Number | None = Field(description="The value of the current version.")
    interval: tuple[Number, Number] | None = Field(
        description="The difference from the bound, positive where the assertion holds, with 96 % "
        "confidence; null unless validation examples were compared."
    )
    examples: int | None = Field(description="How many validation examples were compared.")
    message: str = Field(
        description="What was expected and what was received, and what would decide it."
    )


class AliasChange(StoredModel):
    """An entry of the history of aliases: a change, or a promotion that was refused."""

    id: int
    alias: str
    from_number: int | None = Field(description="The version that had the alias before.")
    to_number: int | None = Field(
        description="The version that has it now, or would have it; null: the alias was removed."
    )
    outcome: Annotated[str, open_enum("set", "removed", "promoted", "refused", "undecided")] = (
        Field(description="`refused` and `undecided` promotions have changed nothing.")
    )
    reason: str | None
    checks: list[AssertionCheck] | None = Field(description="null unless it is a promotion.")
    created_at: datetime
    created_by: str | None

    @property
    def changed(self) -> bool:
        """Whether the alias was changed."""
        return self.outcome not in ("refused", "undecided")


class AliasChangePage(ApiModel):
    """A page of the history of aliases, newest first."""

    items: list[AliasChange]
    next_cursor: str | None = Field(description="null on the last page.")


class RegisterRequest(RequestModel):
    """The request to register the model of a job as a new version."""

    job_id: Annotated[str, StringConstraints(pattern="^[0-9a-f]{12}$")]
    file: Annotated[str, StringConstraints(min_length=1, max_length=255)] | None = Field(
        None,
        description="The model file of a job that has several, such as `model-best.keras`; by "
        "default `summary.model_file`.",
    )
    note: Note | None = None
    tags: TagChanges = Field(default_factory=dict)


class NotesRequest(RequestModel):
    """New notes and tags; what is left out stays. A tag that is null is removed."""

    note: Note | None = Field(None, description="null removes it.")
    tags: TagChanges = Field(default_factory=dict)


class ModelChanges(NotesRequest):
    """New notes, tags and gates of a model; what is left out stays."""

    gates: Annotated[dict[AliasName, Assertions | None], Field(max_length=MAX_TAGS)] = Field(
        default_factory=dict,
        description="By alias, the assertions that a promotion must satisfy; null removes them.",
    )


class AliasRequest(RequestModel):
    """The request to give an alias to a version."""

    version: VersionNumber
    if_version: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = Field(
        None,
        description="Only if this version has the alias; 0: only if none has it.",
    )
    reason: Reason | None = None


class PromotionRequest(AliasRequest):
    """The request to give an alias to a version if assertions hold."""

    assertions: Assertions = Field(
        default_factory=list,
        description="Such as `val_accuracy >= base - 0.5 points`, besides those of the alias's "
        "gate. `base` is the version that has the alias.",
    )
