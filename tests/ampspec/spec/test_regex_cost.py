import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampspec.documents.regex_cost import MAX_COST, match_cost
from ampspec.jobs import JobSpec, SpecValidationError

PIECES = st.sampled_from(["a", "b", ".", "[ab]", r"\w", "(a|b)", "(?:ab)?", "a*", "b+", "a?"])


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(.*)*x", r"(a|a)*b", r".?" * 40, r"(.|.)" * 40,
     r"(.?){64}", r"(.?)(\1?){40}", r"(?:^){4000000000}", r"(?:(?:){65535}){65535}"])  # fmt: skip
def test_expensive_patterns_have_the_maximum_cost(pattern):
    assert match_cost(pattern, 40) == MAX_COST


@pytest.mark.parametrize(
    ("pattern", "cost"),
    [
        ("predictions", 40),
        (r"conv_\d+", 40 * 40),
        ("^(conv|dense)_[12]$", 2 * 40),
        ("a{2,3}", 2 * 40),
        (r"(a)\1", 40),
        ("(?=a)b", 40),
    ],
)
def test_the_cost_of_an_ordinary_pattern_is_low(pattern, cost):
    assert match_cost(pattern, 40) == cost


@given(st.lists(PIECES, min_size=1, max_size=6))
def test_every_pattern_that_compiles_has_a_cost(pieces):
    pattern = "".join(pieces)
    re.compile(pattern)
    assert 40 <= match_cost(pattern, 40) <= MAX_COST


def parsed(*patterns):
    overrides = [{"layers": pattern, "dtype": "float32"} for pattern in patterns]
    parts = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}
    return JobSpec.parse({**parts, "precision": {"overrides": overrides}})


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(.*)*x", "(.+)+x$", ".*" * 5, "(?:(?:){65535}){65535}"]
)
def test_a_spec_with_an_expensive_pattern_is_refused(pattern):
    with pytest.raises(SpecValidationError) as refused:
        parsed("^conv", pattern)
    [problem] = refused.value.problems
    assert problem.pointer == "/precision/overrides/1/layers"
    assert "within a second" in problem.expected


def test_patterns_that_are_too_expensive_in_total_are_refused():
    several = [f"{letter}.*.*.*" for letter in "abcdefgh"]
    parsed(*several[:7])
    with pytest.raises(SpecValidationError) as refused:
        parsed(*several)
    [problem] = refused.value.problems
    assert problem.pointer == "/precision/overrides"


@pytest.mark.parametrize(
    "pattern",
    [
        "^block_1/",
        r"^(conv|dense)_\d+$",
        "^(?!predictions)",
        r"encoder/.*/attention_\d+",
        ".*norm.*",
    ],
)
def test_common_patterns_are_accepted(pattern):
    assert parsed(pattern).precision.overrides[0].layers == pattern
