"""The problems of a spec: pointer, expected and received values, and a suggestion."""

import difflib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from ampspec.documents.text import plural

Location = tuple[int | str, ...]
Parts = dict[str, Any]
"""The valid sections of a spec by name."""
MAX_RECEIVED = 80
MAX_PROBLEMS = 100
"""Further problems are only counted, because suggestions take time to compute."""
BOUNDS = ("greater than", "less than")
MISSING = "missing"
"""The code of a problem whose field is required and absent."""


@dataclass(frozen=True)
class Problem:
    """One mistake in a spec; `pointer` is a JSON pointer (RFC 6901) into the document."""

    pointer: str
    code: str
    expected: str
    received: str | None = None
    suggestion: str | None = None

    @property
    def detail(self) -> str:
        """The whole problem in a sentence or two."""
        if self.code == MISSING:
            return "Required field is missing."
        received = f"; received {self.received}" if self.received is not None else ""
        suggestion = f" Did you mean '{self.suggestion}'?" if self.suggestion else ""
        return f"Expected {self.expected}{received}.{suggestion}"

    def __str__(self) -> str:
        return f"{self.pointer or '/'}: {self.detail}"

    def to_json(self) -> dict[str, str]:
        """The problem as an entry of `errors` in a problem+json response."""
        fields = {
            "pointer": self.pointer,
            "code": self.code,
            "detail": self.detail,
            "expected": self.expected,
            "received": self.received,
            "suggestion": self.suggestion,
        }
        return {name: value for name, value in fields.items() if value is not None}


class SpecValidationError(ValueError):
    """A job spec is not valid; `problems` holds every mistake."""

    code = "invalid_spec"

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        super().__init__(f"The job spec has {plural(len(self.problems), 'problem')}:\n{lines}")


def json_pointer(location: Iterable[int | str]) -> str:
    """The JSON pointer of a path of keys and indices."""
    return "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in location)


def format_value(value: object) -> str:
    """A received value as JSON, cut to a length that fits in a message."""
    try:
        text = json.dumps(value, default=repr, ensure_ascii=False)
    except ValueError:  # Python refuses to format very large integers
        return "a number with too many digits"
    return text if len(text) <= MAX_RECEIVED else f"{text[: MAX_RECEIVED - 1]}…"


def closest_match(word: object, candidates: Iterable[str]) -> str | None:
    """The candidate that is closest to `word`, if any is close."""
    if not isinstance(word, str) or len(word) > MAX_RECEIVED:  # the comparison is quadratic
        return None
    names = {name.lower(): name for name in candidates}
    matches = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.65)
    return names[matches[0]] if matches else None


def from_pydantic(error: ValidationError, root: type[BaseModel]) -> list[Problem]:
    """The problems for pydantic's errors, at most MAX_PROBLEMS of them."""
    mistakes = [
        details
        for details in error.errors(include_url=False)
        if details["type"] != "default_factory_not_called"  # a consequence, not a mistake
    ]
    problems = [_problem(details, root) for details in mistakes[:MAX_PROBLEMS]]
    if len(mistakes) > MAX_PROBLEMS:
        expected = f"at most {MAX_PROBLEMS} problems (only these are listed)"
        problems.append(Problem("", "too_many_problems", expected, str(len(mistakes))))
    return problems


def _problem(details: Any, root: type[BaseModel]) -> Problem:
    location, names = _resolve(details["loc"], root)
    context = details.get("ctx", {})
    names = context.get("fields", names)
    received = details["input"]
    match details["type"]:
        case "extra_forbidden":
            unknown = str(location[-1])
            expected = f"one of the fields {', '.join(names)}"
            return _problem_at(
                location, "unknown_field", expected, unknown, closest_match(unknown, names)
            )
        case "missing":
            return Problem(json_pointer(location), MISSING, "a value", "nothing")
        case "two_names":
            return Problem(json_pointer(location), "invalid_value", details["msg"], "both")
        case "literal_error":
            # The allowed values come back as "'a', 'b' or 'c'".
            allowed = context["expected"].replace(" or ", ", ").replace("'", "").split(", ")
            suggestion = closest_match(received, allowed)
            return _problem_at(location, "unknown_value", context["expected"], received, suggestion)
        case "union_tag_invalid":
            tags = context["expected_tags"].replace("'", "")
            key = context["discriminator"].strip("'")
            suggestion = closest_match(context["tag"], tags.split(", "))
            return _problem_at(
                (*location, key), "unknown_kind", f"one of {tags}", context["tag"], suggestion
            )
        case "unknown_layer":
            return _problem_at(
                (*location, "layer"),
                "unknown_kind",
                context["expected"],
                context["received"],
                closest_match(context["received"], context["names"]),
            )
        case "union_tag_not_found":
            key = context["discriminator"].strip("'")
            return Problem(json_pointer((*location, key)), MISSING, "a value", "nothing")
        case "model_type" | "model_attributes_type" | "dict_type":
            return _problem_at(location, "wrong_type", "an object", received)
        case "too_long" | "too_short" | "string_too_long" | "string_too_short" as kind:
            is_maximum, unit = kind.endswith("long"), "characters" if "string" in kind else "items"
            limit = context["max_length" if is_maximum else "min_length"]
            expected = f"at {'most' if is_maximum else 'least'} {limit} {unit}"
            return _problem_at(location, "invalid_value", expected, received)
        case "string_pattern_mismatch":
            expected = f"a text that matches {context['pattern']}"
            return _problem_at(location, "invalid_value", expected, received)
        case kind:
            expected = details["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
            expected = f"a number {expected}" if expected.startswith(BOUNDS) else expected
            code = "wrong_type" if kind.endswith("_type") else "invalid_value"
            return _problem_at(location, code, expected[:1].lower() + expected[1:], received)


def fields_at(location: Location, root: type[BaseModel]) -> list[str]:
    """The names of the fields of the object that pydantic's location is in."""
    return _resolve(location, root)[1]


def _problem_at(
    location: Location, code: str, expected: str, received: object, suggestion: str | None = None
) -> Problem:
    return Problem(json_pointer(location), code, expected, format_value(received), suggestion)


def _resolve(location: Location, root: type[BaseModel]) -> tuple[Location, list[str]]:
    """Pydantic's location without union tags, and the fields of the last object in it."""
    kept: list[int | str] = []
    here: Any = root
    names: list[str] = sorted(root.model_fields)
    for key in location:
        variants = list(_variants(here))
        tagged = [model for model in variants if _tag(model) == key]
        if len(variants) > 1 and tagged:
            here = tagged[0]
            names = sorted(here.model_fields)
            continue
        kept.append(key)
        model = variants[0] if len(variants) == 1 else None
        if model is not None:
            names = sorted(model.model_fields)
            field = model.model_fields.get(str(key))
            here = field.annotation if field is not None else None
        elif isinstance(key, int):
            here = next(iter(get_args(here)), None)
    return tuple(kept), names


def _variants(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a value of this annotation may be."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) is Annotated:
        yield from _variants(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, UnionType):
        for option in get_args(annotation):
            if option is not NoneType:
                yield from _variants(option)


def _tag(model: type[BaseModel]) -> str | None:
    """The value of `kind` or `mode` that picks this model out of its union."""
    for key in ("kind", "mode"):
        field = model.model_fields.get(key)
        if field is not None and get_origin(field.annotation) is Literal:
            return str(get_args(field.annotation)[0])
    return None
