"""Preprocessing of a column: options that exclude each other."""

import pytest
from pydantic import ValidationError

from ampspec.data.preprocessing import Preprocessing

ENCODINGS = [{"categories": "integer"}, {"tokens": {}}, {"keys": True}]
NUMERIC = [{"rescaling": "pixels"}, {"normalize": True}, {"missing": "zero"}]


@pytest.mark.parametrize("options", [{}, *ENCODINGS, *NUMERIC, NUMERIC[0] | NUMERIC[1]])
def test_one_encoding_or_any_numeric_options_are_accepted(options):
    assert Preprocessing.model_validate(options).model_fields_set == set(options)


@pytest.mark.parametrize(
    "options",
    [
        *(encoding | other for encoding in ENCODINGS for other in NUMERIC),
        ENCODINGS[0] | ENCODINGS[1],
        ENCODINGS[0] | ENCODINGS[2],
        ENCODINGS[1] | ENCODINGS[2],
    ],
)
def test_several_encodings_or_numeric_options_with_one_are_refused(options):
    with pytest.raises(ValidationError, match="either categories, tokens, keys, or rescaling"):
        Preprocessing.model_validate(options)
