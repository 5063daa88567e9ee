import pytest

from ampspec.documents.text import first_names, join_names, plural


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


@pytest.mark.parametrize(
    ("names", "text"),
    [([], ""), (["a"], "a"), ("abcde", "a, b, c, d, e"), ("abcdef", "a, b, c, d, e, …")],
)
def test_the_rest_of_an_incomplete_list_is_not_counted(names, text):
    assert first_names(names) == text
