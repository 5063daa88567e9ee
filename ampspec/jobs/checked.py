"""The base class of specs whose sections must fit together."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Self

from pydantic import ValidationError, ValidationInfo, model_validator

from ampspec.documents.base import SpecModel
from ampspec.documents.problems import Parts, Problem, SpecValidationError, from_pydantic

Rule = Callable[[Parts], Iterator[Problem]]
"""Yields the problems between sections that are valid on their own."""

WITHOUT_RULES: Final = {"rules": False}
"""The context of a validation that checks each section alone."""


class CheckedSpec(SpecModel):
    """A spec with rules between its sections; they hold however it is made, also by `model_copy`.

    `parse` raises SpecValidationError with all mistakes; pydantic's own ways raise its
    ValidationError.
    """

    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _follow_rules(self, info: ValidationInfo) -> Self:
        if info.context == WITHOUT_RULES:
            return self
        sections = {name: getattr(self, name) for name in type(self).model_fields}
        if problems := self._problems(sections):
            raise SpecValidationError(problems)
        return self

    @classmethod
    def parse(cls, document: object) -> Self:
        """Parse a decoded JSON or YAML document.

        Raises SpecValidationError with all mistakes: of single fields, between fields, and fields
        that this version does not support yet.
        """
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise SpecValidationError(cls._all_problems(error, document)) from None

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other sections, which are checked. Raises ValidationError."""
        if update:
            sections = {
                name: section.model_dump(mode="json") if isinstance(section, SpecModel) else section
                for name, section in update.items()
            }
            type(self).model_validate({**self.model_dump(mode="json"), **sections})
        return super().model_copy(update=update, deep=deep)

    def unchecked_copy(self, update: Mapping[str, Any]) -> Self:
        """A copy with other sections, for estimates of specs that could not be trained."""
        return super().model_copy(update=update)

    @classmethod
    def _problems(cls, sections: Parts) -> list[Problem]:
        return [problem for rule in cls.rules for problem in rule(sections)]

    @classmethod
    def _all_problems(cls, error: ValidationError, document: object) -> Sequence[Problem]:
        for details in error.errors(include_url=False):
            broken_rules = details.get("ctx", {}).get("error")
            if isinstance(broken_rules, SpecValidationError):
                return broken_rules.problems
        return from_pydantic(error, cls) + cls._problems(cls._valid_sections(document))

    @classmethod
    def _valid_sections(cls, document: object) -> Parts:
        """The sections of an invalid document that are valid on their own."""
        return {}
