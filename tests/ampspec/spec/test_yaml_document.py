import pytest

from ampspec.documents.yaml_document import parse_yaml
from ampspec.jobs import SpecValidationError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1E5", 1e5),
        ("-2.5e+3", -2500.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("12", 12),
        ("1_000", 1000),
        ("true", True),
        ("null", None),
        ("2024-01-01", "2024-01-01"),
        ("'1e-3'", "1e-3"),
        ("1e", "1e"),
        ("e5", "e5"),
    ],
)
def test_scalars_have_the_expected_type(text, value):
    found = parse_yaml(f"key: {text}")["key"]
    assert found == value
    assert type(found) is type(value)


def test_a_json_document_is_parsed_unchanged():
    document = '{"a": [1, 2.5, 1e-3, "x", null, true], "b": {"c": {}}}'
    assert parse_yaml(document) == {"a": [1, 2.5, 1e-3, "x", None, True], "b": {"c": {}}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "in line 3: duplicate key 'a'"),
        ("x: {a: 1, a: 2}", "duplicate key 'a'"),
        ("1: a", "a key must be a name, not 1"),
        ("yes: a", "a key must be a name, not True"),
        ("a: [", "line"),
        ("a: !!python/object:os.system x", "could not determine a constructor"),
        ("a: &x [1]\nb: [*x, *x]", "an alias (*) is not allowed"),
        ("a: \x00", "special characters"),
        ("[" * 5000, "nested too deeply"),
    ],
)
def test_invalid_yaml_is_refused_with_its_line(text, message):
    with pytest.raises(SpecValidationError, match="a YAML or JSON document") as caught:
        parse_yaml(text)
    [problem] = caught.value.problems
    assert problem.code == "not_yaml"
    assert message in problem.received


def test_an_empty_document_is_none():
    assert parse_yaml("") is None
