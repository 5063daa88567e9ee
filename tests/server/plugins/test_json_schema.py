"""The mistakes in options by the JSON schema of their pydantic model."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from server.plugins.json_schema import NotChecked, schema_problems
from tests.tables import every_row


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rate: float = Field(gt=0, lt=1)


class Circle(Part):
    kind: Literal["circle"]
    radius: int = Field(ge=1)


class Square(Part):
    kind: Literal["square"]


class Options(BaseModel):
    model_config = ConfigDict(extra="forbid")

    units: int = Field(ge=1, le=4096)
    mode: Literal["fast", "exact"] = "fast"
    name: str = Field("a", pattern="^[a-z]+$", max_length=4)
    size: int | None = Field(None, ge=2)
    parts: list[Part] = Field(default=[], max_length=2)
    shape: Annotated[Circle | Square, Field(discriminator="kind")] = Square(kind="square", rate=0.5)
    by_name: dict[str, float] = {}
    either: int | list[int] = 0


SCHEMA = Options.model_json_schema()
VALID: dict[str, Any] = {
    "units": 8,
    "mode": "exact",
    "size": None,
    "parts": [{"rate": 0.5}],
    "shape": {"kind": "circle", "rate": 0.5, "radius": 3},
    "by_name": {"any/name": 0.5},
    "either": [1],
}
NO_RATE = {"rate": 0}
CIRCLE = {"kind": "circle", "rate": 0.5}


def found(options: Any) -> list[tuple[str, str, str, str | None, str | None]]:
    return [
        (one.pointer, one.code, one.expected, one.received, one.suggestion)
        for one in schema_problems(SCHEMA, options, "/model/options")
    ]


def test_valid_options_have_no_problem():
    assert found(VALID) == found({"units": 1}) == []


@every_row(
    ("changes", "expected"),
    [
        ({"units": 0}, ("/units", "invalid_value", "a number greater than or equal to 1", "0")),
        ({"units": 5e3}, ("/units", "invalid_value", "a number less than or equal to 4096", "5")),
        ({"units": "many"}, ("/units", "wrong_type", "an integer", '"many"')),
        ({"name": "A"}, ("/name", "invalid_value", "a text that matches ^[a-z]+$", '"A"')),
        ({"name": "abcde"}, ("/name", "invalid_value", "at most 4 characters", '"abcde"')),
        ({"size": 1}, ("/size", "invalid_value", "a number greater than or equal to 2", "1")),
        ({"size": "a"}, ("/size", "wrong_type", "an integer, null", '"a"')),
        ({"either": "a"}, ("/either", "wrong_type", "an integer, an array", '"a"')),
        ({"either": ["a"]}, ("/either/0", "wrong_type", "an integer", '"a"')),
        ({"parts": [NO_RATE]}, ("/parts/0/rate", "invalid_value", "a number greater than 0", "0")),
        ({"parts": [{}]}, ("/parts/0/rate", "missing", "a value", "nothing")),
        ({"parts": [{"rate": 0.5}] * 3}, ("/parts", "invalid_value", "at most 2 items", "")),
        ({"by_name": {"a/b~": "c"}}, ("/by_name/a~1b~0", "wrong_type", "a number", '"c"')),
        ({"shape": CIRCLE}, ("/shape/radius", "missing", "a value", "nothing")),
        ({"shape": {"rate": 0.5}}, ("/shape/kind", "missing", "a value", "nothing")),
    ],
)  # fmt: skip
def test_a_mistake_has_a_pointer_and_says_what_was_expected(changes, expected):
    [(pointer, code, wanted, received, _)] = found(VALID | changes)
    assert (pointer, code, wanted) == ("/model/options" + expected[0], *expected[1:3])
    assert (received or "").startswith(expected[3])
    with pytest.raises(ValidationError):  # the trainer refuses it, too
        Options.model_validate(VALID | changes)


@every_row(
    ("changes", "pointer", "code", "suggestion"),
    [
        ({"mode": "exakt"}, "/mode", "unknown_value", "exact"),
        ({"mode": 1}, "/mode", "unknown_value", None),
        ({"unit": 3}, "/unit", "unknown_field", "units"),
        ({"shape": {"kind": "cirkle", "rate": 0.5}}, "/shape/kind", "unknown_kind", "circle"),
        (
            {"shape": {"kind": "square", "rate": 0.5, "rat": 1}},
            "/shape/rat",
            "unknown_field",
            "rate",
        ),
    ],
)
def test_a_name_that_is_close_to_a_known_one_is_suggested(changes, pointer, code, suggestion):
    [(found_pointer, found_code, _, _, suggested)] = found(VALID | changes)
    assert (found_pointer, found_code) == ("/model/options" + pointer, code)
    assert suggested == suggestion


def test_all_mistakes_are_found():
    pointers = [one[0] for one in found({"mode": 1, "name": "A" * 9, "extra": 1})]
    assert sorted(pointers) == sorted(
        ["/model/options/" + name for name in ("units", "mode", "name", "name", "extra")]
    )


def test_the_number_of_problems_is_limited():
    assert len(found({"units": 1, "by_name": {str(n): "a" for n in range(900)}})) == 100


@every_row(
    "schema",
    [
        {"type": "no such type"},
        {"properties": 3},
        {"$ref": "#/$defs/missing"},
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$ref": "#"},
        {"properties": {"name": {"pattern": "(a+)+$"}}},
        {"properties": {"name": {"pattern": "(?<broken"}}},
        {"patternProperties": {"(a+)+$": {}}},
    ],
)
def test_a_schema_that_cannot_be_used_is_not_used(schema):
    with pytest.raises(NotChecked):
        schema_problems(schema, {"name": "a" * 40 + "b"}, "")


@pytest.mark.filterwarnings("ignore:Automatically retrieving:DeprecationWarning")
def test_a_schema_that_a_schema_names_is_not_read(tmp_path):
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(NotChecked):
        schema_problems({"$ref": (tmp_path / "other.json").as_uri()}, {}, "")


def test_options_that_would_take_long_to_check_are_not_checked():
    deep: Any = {}
    for _ in range(20):
        deep = {"a": deep}
    for options in (deep, {"a": [0] * 3000}, {str(n): [0] * 100 for n in range(100)}):
        with pytest.raises(NotChecked):
            schema_problems({}, options, "")
