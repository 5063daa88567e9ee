"""Finds and loads what installed packages offer as entry points, such as models."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from ampspec.documents.text import join_names
from ampspec.errors import InvalidModel, TrainingError
from ampspec.references.package import ENTRY_POINT_GROUPS, EntryPointGroup, PackageReference

BROKEN: Final = (Exception, SystemExit)
"""What code of others may raise when it is imported; the worker must start anyway."""


class NoOptions(BaseModel):
    """The options of an entry point without any."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class PackageEntry:
    """What a package offers as an entry point.

    Attributes:
        build: Makes it from the options.
        options: The pydantic model of the options.
    """

    build: Callable[..., Any]
    options: type[BaseModel] = NoOptions


class PackageModel(PackageEntry):
    """A model of a package; its entry point is in the group `ampcore.models`.

    `build` is a function of (options, signature) that returns a functional float32 keras.Model, or
    several by name. The signature (`ampcore.data.Signature`) has the shapes and dtypes of the
    inputs and the kinds and sizes of the targets. Outputs are logits, or plain values.
    """


class PackageLoss(PackageEntry):
    """A loss of a package; its entry point is in the group `ampcore.losses`.

    `build` is a function of (options) that returns a keras.losses.Loss, or a function of
    (y_true, y_pred) that returns the loss of each example or their mean. Both arguments are
    float32: the targets, and the model's output for them.
    """


class PackageMetric(PackageEntry):
    """A metric of a package; its entry point is in the group `ampcore.metrics`.

    `build` is a function of (options) that returns a new keras.metrics.Metric, or a function of
    (y_true, y_pred) that returns a value for each example, of which the mean is shown. Both
    arguments are as those of a loss. Its name is that of the entry point.
    """


class PackageOptimizer(PackageEntry):
    """An optimizer of a package; its entry point is in the group `ampcore.optimizers`.

    `build` is a function of (options, learning_rate) that returns a new keras.optimizers.Optimizer
    with that learning rate: a number, or a schedule of Keras. Its gradients are unscaled, finite
    and clipped. Everything that it remembers is in its variables, so that a job resumes exactly.
    """


class PackageDataset(PackageEntry):
    """A dataset of a package; its entry point is in the group `ampcore.datasets`.

    `build` is a function of (options, seed) that returns NumPy arrays whose first axis counts the
    examples: (x, y), (x, y, x_validation, y_validation), or any arrays by name, as in an .npz. The
    seed is that of the job; for the same options and seed the arrays must be the same, so that a
    job resumes exactly.
    """


TYPES: Final[dict[EntryPointGroup, type[PackageEntry]]] = {
    "ampcore.models": PackageModel,
    "ampcore.losses": PackageLoss,
    "ampcore.metrics": PackageMetric,
    "ampcore.optimizers": PackageOptimizer,
    "ampcore.datasets": PackageDataset,
}
"""What the entry points of each group are."""


def normalized(name: str) -> str:
    """The name of a distribution as package indexes compare it: lower case, with dashes."""
    return re.sub(r"[-_.]+", "-", name).lower()


def find(reference: PackageReference) -> tuple[PackageEntry, BaseModel]:
    """What a spec names of an installed package, and its validated options.

    Raises:
        InvalidModel: It is not installed, its module cannot be imported, or the options are not
            valid.
    """
    group = reference.group
    installed = {
        (package_of(entry_point), entry_point.name): entry_point
        for entry_point in entry_points(group=group)
    }
    if (reference.package, reference.name) not in installed:
        choices = join_names((f"{name} of {package}" for package, name in installed), 20) or "none"
        raise InvalidModel(
            f"{reference.section}.name",
            expected=f"one of the {group} of installed packages: {choices}",
            received=reference.label,
        )
    entry = _load(group, installed[reference.package, reference.name], reference.section)
    try:
        return entry, entry.options.model_validate(reference.options)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise InvalidModel(
            ".".join(map(str, (reference.section, "options", *problem["loc"]))),
            expected=f"{problem['msg']} ({reference.label})",
            received=repr(problem["input"]),
        ) from None


def build(reference: PackageReference, what: str, *arguments: Any) -> Any:
    """What the function of an entry point returns for its options and `arguments`.

    Args:
        reference: What the spec names.
        what: What it should build, in errors: `a loss`.
        *arguments: Those after the options.

    Raises:
        InvalidModel: As `find`, or the function raises an error.
    """
    entry, options = find(reference)
    try:
        return entry.build(options, *arguments)
    except TrainingError:
        raise
    except Exception as error:
        raise unusable(reference, f"to build {what}", error) from error


def unusable(reference: PackageReference, expected: str, error: Exception) -> InvalidModel:
    """The error of a spec whose package raised `error` where it was `expected` to do something."""
    return InvalidModel(
        f"{reference.section}.package",
        expected=f"{reference.label} {expected}",
        received=f"{type(error).__name__}: {error}",
    )


def package_of(entry_point: EntryPoint) -> str:
    """The normalized name of the distribution that an entry point belongs to."""
    return normalized(entry_point.dist.name) if entry_point.dist is not None else "unknown"


def load_all() -> None:
    """Import every entry point, so that a fork has it; those that cannot be are left out."""
    for _ in descriptions():
        pass


def descriptions() -> Iterator[dict[str, Any]]:
    """Group, package, version and name of every entry point, with its schema or an error."""
    for group in ENTRY_POINT_GROUPS:
        for entry_point in entry_points(group=group):
            yield {
                "group": group,
                "package": package_of(entry_point),
                "version": entry_point.dist.version if entry_point.dist is not None else "",
                "name": entry_point.name,
            } | _schema_or_error(group, entry_point)


def _schema_or_error(group: EntryPointGroup, entry_point: EntryPoint) -> dict[str, Any]:
    try:
        entry = _load(group, entry_point, group)
        description = (entry.build.__doc__ or "").strip()
        return {"description": description, "schema": entry.options.model_json_schema()}
    except BROKEN as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _load(group: EntryPointGroup, entry_point: EntryPoint, section: str) -> PackageEntry:
    label = f"{entry_point.name} of {package_of(entry_point)}"
    try:
        entry = entry_point.load()
    except BROKEN as error:
        raise InvalidModel(
            f"{section}.package",
            expected=f"a module that can be imported for {label}",
            received=f"{type(error).__name__}: {error}",
        ) from error
    if not isinstance(entry, TYPES[group]):
        raise InvalidModel(
            f"{section}.package",
            expected=f"an ampcore.plugins.{TYPES[group].__name__} as {entry_point.value} "
            f"for {label}",
            received=type(entry).__name__,
        )
    return entry
