"""References to entry points of Python packages installed on workers."""

from typing import Annotated, Any, ClassVar, Final, Literal, get_args

from pydantic import Field

from ampspec.documents.base import SpecModel

EntryPointGroup = Literal[
    "ampcore.models", "ampcore.losses", "ampcore.metrics", "ampcore.optimizers", "ampcore.datasets"
]
"""A group of entry points; see `ampcore.plugins`."""
ENTRY_POINT_GROUPS: Final[tuple[EntryPointGroup, ...]] = get_args(EntryPointGroup)


class PackageReference(SpecModel):
    """An entry point of an installed package, with its options."""

    group: ClassVar[EntryPointGroup]
    section: ClassVar[str]
    """The section of the spec, for errors."""

    package: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
    """The name of the package: lower case, with dashes."""
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$")]
    """The name of the entry point in the package."""
    options: dict[str, Any] = Field(default_factory=dict, max_length=256)
    """Its options; `GET /models` and the other catalog lists have their schemas."""

    @property
    def label(self) -> str:
        """Its name in messages."""
        return f"{self.name} of {self.package}"
