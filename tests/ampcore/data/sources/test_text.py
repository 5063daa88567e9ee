import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampcore import data
from ampcore.data.registry import RESIDENT_BYTES, LoadOptions
from ampcore.data.sources.text import text as load_text
from ampspec.data.data import Text
from ampspec.errors import InvalidData


@pytest.fixture
def load(tmp_path):
    """Writes a text, as bytes or in UTF-8, and loads it."""

    def write_and_load(content, sequence=2, batch_size=1, validation_split=0.0):
        raw = content if isinstance(content, bytes) else content.encode()
        (tmp_path / "it.txt").write_bytes(raw)
        spec = Text(
            path="it.txt",
            sequence=sequence,
            batch_size=batch_size,
            validation_split=validation_split,
        )
        return data.load(spec, data_root=tmp_path)

    return write_and_load


def test_windows_follow_each_other_and_labels_are_the_next_characters(load):
    dataset = load("cabbage", sequence=3)
    # a b c e g
    assert dataset.train.arrays.x.tolist() == [[2, 0, 1], [1, 0, 4]]
    assert dataset.train.arrays.y.tolist() == [[0, 1, 1], [0, 4, 3]]
    assert dataset.train.arrays.x.dtype == dataset.train.arrays.y.dtype == np.int32
    assert dataset.signature == data.Signature((3,), "int32", 5, 5)
    second = dataset.place_of(1)
    assert (second.file, second.row, second.character) == ("it.txt", None, 4)


def test_the_last_windows_are_for_validation(load):
    dataset = load("ab" * 50, sequence=9, validation_split=0.2)
    assert (len(dataset.train.arrays.x), len(dataset.validation.arrays.x)) == (8, 3)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)  # each example overwrites the file
@given(
    content=st.text(min_size=2, max_size=60).filter(lambda text: len(set(text)) > 1),
    sequence=st.integers(1, 20),
)
def test_labels_are_the_examples_shifted_by_one_character(tmp_path, content, sequence):
    file = tmp_path / "it.txt"
    file.write_text(content, encoding="utf-8", newline="")
    spec = Text(path=str(file), sequence=sequence, validation_split=0.0)
    content = content.removeprefix("\N{BYTE ORDER MARK}")
    if len(content) <= sequence or len(set(content)) < 2:
        with pytest.raises(InvalidData):
            load_text(spec, LoadOptions(RESIDENT_BYTES))
        return
    dataset = load_text(spec, LoadOptions(RESIDENT_BYTES))
    # A list: arrays of text drop the character 0.
    vocabulary = sorted(set(content))
    used = (len(content) - 1) // sequence * sequence
    assert "".join(vocabulary[index] for index in dataset.train.arrays.x.flat) == content[:used]
    assert (
        "".join(vocabulary[index] for index in dataset.train.arrays.y.flat) == content[1 : used + 1]
    )
    assert dataset.signature.classes == len(vocabulary)


@pytest.mark.parametrize(
    ("content", "field", "message"),
    [
        (b"", None, "at least two different characters; received 0 characters"),
        (b"aaaa", None, "received 4 characters, 1 different"),
        (b"ab\xff\xfe", None, "text in UTF-8; received byte 0xff at 2"),
        (b"ab", "sequence", "expected at most 1, since the file has 2 characters.*received 2"),
    ],
)
def test_bad_text_is_refused_with_file_field_expected_and_received(load, content, field, message):
    with pytest.raises(InvalidData, match=message) as caught:
        load(content)
    assert caught.value.source == "it.txt"
    assert caught.value.field == field


def test_fewer_windows_than_a_batch_are_refused(load):
    with pytest.raises(InvalidData, match="expected at most 4, the number of training examples"):
        load("abcdefghi", batch_size=5)


def test_a_path_cannot_leave_the_data_root(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    with pytest.raises(InvalidData, match="inside the data root"):
        data.load(Text(path="../secret.txt"), data_root=tmp_path / "root")


def test_a_missing_file_is_named_as_in_the_spec(tmp_path):
    with pytest.raises(InvalidData, match=r"^none\.txt: expected a file") as caught:
        data.load(Text(path="none.txt"), data_root=tmp_path)
    assert str(tmp_path) not in str(caught.value)
