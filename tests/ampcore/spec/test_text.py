import pytest

from ampcore.spec.text import join_names, plural


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 steps"), (1, "1 step"), (2, "2 steps"), (12345, "12,345 steps")]
)
def test_a_noun_agrees_with_its_count(count, text):
    assert plural(count, "step") == text


@pytest.mark.parametrize(
    ("names", "text"), [([], ""), (["a"], "a"), ([1, 2], "1, 2"), ("abcd", "a, b and 2 more")]
)
def test_names_beyond_the_limit_are_counted(names, text):
    assert join_names(names, 2) == text
