import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampcore.preflight.effort import MOST_WAYS, ways_to_match

PIECES = st.sampled_from(["a", "b", ".", "[ab]", r"\w", "(a|b)", "(?:ab)?", "a*", "b+", "a?"])


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(.*)*x", r"(a|a)*b", r".?" * 40, r"(.|.)" * 40,
     r"(.?){64}", r"(.?)(\1?){40}", r"(?:^){4000000000}", r"(?:(?:){65535}){65535}"])  # fmt: skip
def test_patterns_that_blow_up_have_too_many_ways(pattern):
    assert ways_to_match(pattern, 40) == MOST_WAYS


@pytest.mark.parametrize(
    ("pattern", "ways"),
    [
        ("predictions", 40),
        (r"conv_\d+", 40 * 40),
        ("^(conv|dense)_[12]$", 2 * 40),
        ("a{2,3}", 2 * 40),
        (r"(a)\1", 40),
        ("(?=a)b", 40),
    ],
)
def test_ordinary_patterns_have_few(pattern, ways):
    assert ways_to_match(pattern, 40) == ways


@given(st.lists(PIECES, min_size=1, max_size=6))
def test_any_pattern_that_compiles_can_be_judged(pieces):
    pattern = "".join(pieces)
    re.compile(pattern)
    assert 40 <= ways_to_match(pattern, 40) <= MOST_WAYS
