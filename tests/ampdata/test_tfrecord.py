"""TFRecord files without TensorFlow: framing, protobuf, inferred features, and errors."""

import contextlib
import gzip
import struct
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampdata import Column, Limits, list_columns, list_splits, open_source
from ampdata.tfrecord.tf_example import Malformed, parse_example
from ampdata.tfrecord.tfrecord import masked_crc
from ampspec.data.file_formats import ImageOptions, RawBytes, TfrecordOptions
from ampspec.errors import InvalidData
from tests.ampdata.samples import example, field, noise, png, png_of, record, varint, write_records

TFRECORD = TfrecordOptions()
KEEP = TfrecordOptions(missing="keep")
INT64 = st.integers(-(2**63), 2**63 - 1)
FLOAT32 = st.floats(width=32, allow_nan=False)


def features_of(rows):
    """Lists of rows whose features have the same kinds and lengths in each row."""
    return st.tuples(st.integers(1, 20), st.integers(1, 60)).flatmap(
        lambda lengths: st.lists(
            st.fixed_dictionaries(
                {
                    "i": INT64,
                    "ints": st.lists(INT64, min_size=lengths[1], max_size=lengths[1]),
                    "f": FLOAT32,
                    "floats": st.lists(FLOAT32, min_size=lengths[0], max_size=lengths[0]),
                    "text": st.text(max_size=20),
                }
            ),
            min_size=1,
            max_size=rows,
        )
    )


@settings(max_examples=40, deadline=None)
@given(features_of(rows=8), st.booleans())
def test_features_are_read_as_they_were_written(rows, compressed):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "it.tfrecord")
        examples = [
            example(
                i=np.array(row["i"]),
                ints=np.array(row["ints"], np.int64),
                f=np.float32(row["f"]),
                floats=np.array(row["floats"], np.float32),
                text=row["text"].encode(),
            )
            for row in rows
        ]
        write_records(path, *examples)
        if compressed:
            path.write_bytes(gzip.compress(path.read_bytes()))
        source = open_source(path, TFRECORD, cache=Path(folder))
        read = source.read(np.arange(len(rows)))
        for name, dtype in {"i": np.int64, "ints": np.int64, "f": np.float32}.items():
            expected = np.array([row[name] for row in rows], dtype)
            np.testing.assert_array_equal(read[name].reshape(expected.shape), expected)
        assert read["text"].tolist() == [row["text"] for row in rows]


def test_a_feature_with_one_value_is_a_scalar_and_others_are_vectors(tmp_path, open_file):
    path = write_records(tmp_path / "it", example(a=[1], b=[1, 2], c=[0.5], d=[0.5, 1.0]))
    assert open_file(path, TFRECORD).columns == {
        "a": Column((), "int64"),
        "b": Column((2,), "int64"),
        "c": Column((), "float32"),
        "d": Column((2,), "float32"),
    }


def test_images_text_and_bytes_are_distinguished_by_all_records(tmp_path, open_file):
    pixels = [noise(3, 5, seed=seed) for seed in range(2)]
    rows = [
        example(image=png_of(one), text="é".encode(), raw=bytes([65, 200 * at, 0]))
        for at, one in enumerate(pixels)
    ]
    source = open_file(write_records(tmp_path / "it", *rows), TFRECORD)
    assert {name: (one.dtype, one.shape) for name, one in source.columns.items()} == {
        "image": ("image", (3, 5, 3)),
        "text": ("string", ()),
        "raw": ("uint8", (3,)),
    }
    read = source.read(np.array([1, 0]))
    np.testing.assert_array_equal(read["image"], pixels[::-1])
    assert read["raw"].tolist() == [[65, 200, 0], [65, 0, 0]]
    assert source.image_bytes("image", 1) == png_of(pixels[1])


def test_too_many_features_and_long_names_are_an_error(tmp_path, open_file):
    path = write_records(tmp_path / "it", example(a=[1], b=[1], c=[1]))
    with pytest.raises(InvalidData, match="it: expected at most 2 columns; received 3"):
        open_file(path, TFRECORD, limits=Limits(columns=2))
    path = write_records(tmp_path / "long", example(**{"x" * 257: [1]}))
    with pytest.raises(InvalidData, match="names of at most 256 characters; received 257"):
        open_file(path, TFRECORD)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "float16", "float32", "bool"])
def test_raw_bytes_become_arrays_of_the_declared_type(tmp_path, read_all, dtype):
    values = np.arange(12).reshape(2, 3, 2).astype(dtype)
    path = write_records(tmp_path / "it", *(example(x=value.tobytes()) for value in values))
    read = read_all(path, TfrecordOptions(raw={"x": RawBytes(dtype=dtype, shape=(3, 2))}))["x"]
    assert read.dtype == dtype
    np.testing.assert_array_equal(read, values)


def test_raw_bytes_of_another_size_are_an_error(tmp_path, open_file):
    path = write_records(tmp_path / "it", example(x=b"1234"), example(x=b"123"))
    options = TfrecordOptions(raw={"x": RawBytes(dtype="int32")})
    with pytest.raises(InvalidData, match="record 2, feature x: expected 4 bytes"):
        open_file(path, options)
    with pytest.raises(InvalidData, match="raw, z: expected one of the features x"):
        open_file(path, TfrecordOptions(raw={"z": RawBytes(dtype="int32")}))


def test_images_are_resized(tmp_path, read_all):
    path = write_records(tmp_path / "it", example(x=png(4, 4, 7)), example(x=png(9, 5, 7)))
    options = TfrecordOptions(image=ImageOptions(size=(2, 2)))
    assert (read_all(path, options)["x"] == 7).all()


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (
            example(x=[1]),
            "feature x: .* received 1 to 2 values of kind int64 in a record: pad them",
        ),
        (example(x=[1.0, 2.0]), "feature x: .* received values of the kinds float, int64"),
        (example(), "record 2, feature x: expected a value; received none"),
        (example(y=[1]), "feature"),
    ],
)
def test_a_record_that_differs_is_an_error(tmp_path, open_file, second, expected):
    path = write_records(tmp_path / "it", example(x=[1, 2]), second)
    with pytest.raises(InvalidData, match=expected):
        open_file(path, TFRECORD)


def test_a_feature_that_differs_far_behind_names_the_record(tmp_path, open_file):
    rows = [example(x=[1, 2], y=[1])] * 300 + [example(x=[1], y=[1])]
    path = write_records(tmp_path / "it", *rows)
    source = open_file(path, TFRECORD)
    assert list(source.columns) == ["y"]
    reason = "record 301, feature x: expected 2 values of kind int64, as in the first records"
    assert reason in source.left_out[0].reason
    with pytest.raises(InvalidData, match=f"column x: .* or other `inputs`; received .*{reason}"):
        open_file(path, TFRECORD, columns=["x"])


def test_a_feature_that_only_later_records_have_is_a_column(tmp_path, open_file):
    rows = [example(x=[1])] * 300 + [example(x=[1], z=[7])]
    path = write_records(tmp_path / "it", *rows)
    assert open_file(path, KEEP).read(np.array([300]))["z"].tolist() == [7]
    assert open_file(path, KEEP).columns["z"].missing == 300
    with pytest.raises(InvalidData, match="record 1, feature z: expected a value, or `missing"):
        open_file(path, TFRECORD)


def test_the_steps_of_a_sequence_are_left_out_with_the_reason(tmp_path, open_file):
    steps = field(2, field(1, field(1, b"audio") + field(2, field(1, field(2, b"")))))
    path = write_records(tmp_path / "it", *[example(x=[1]) + steps] * 2)
    source = open_file(path, TFRECORD)
    assert list(source.columns) == ["x"]
    assert [one.name for one in source.left_out] == ["audio"]
    assert "tf.train.SequenceExample" in source.left_out[0].reason


def test_features_of_several_lengths_are_left_out_with_the_reason(tmp_path, open_file):
    rows = [
        example(x=[1, 2], tokens=[*range(count)], none=[1.0][: count % 2]) for count in range(1, 5)
    ]
    source = open_file(write_records(tmp_path / "it", *rows), KEEP)
    assert list(source.columns) == ["none", "x"]
    (left_out,) = source.left_out
    assert left_out.name == "tokens"
    assert left_out.reason == "1 to 4 values of kind int64 in a record: pad them to one number"


def test_bad_features_do_not_matter_if_others_are_asked_for(tmp_path, open_file):
    rows = [example(x=[1], image=png(3, 3), y=[1]), example(x=[2], image=png(3, 3)[:20])]
    path = write_records(tmp_path / "it", *rows)
    listed = list_columns(path, TFRECORD, cache=tmp_path / "cache").columns
    assert list(listed) == ["image", "x", "y"]
    assert open_file(path, TFRECORD, columns=["x"]).rows == 2
    with pytest.raises(InvalidData, match="record 2, feature image: expected an undamaged"):
        open_file(path, TFRECORD)
    with pytest.raises(InvalidData, match="record 2, feature y: expected a value, or `missing"):
        open_file(path, TFRECORD, columns=["x", "y"])


def test_kept_missing_values_are_nan_and_none(tmp_path, open_file):
    raw = {"r": RawBytes(dtype="float32")}
    one = np.float32(2.5).tobytes()
    rows = [example(i=[1], f=[0.5], t=b"x", r=one), example(i=[2]), example(t=b"")]
    path = write_records(tmp_path / "it", *rows)
    source = open_file(path, TfrecordOptions(missing="keep", raw=raw))
    read = source.read(np.arange(3))
    np.testing.assert_array_equal(read["i"], [1, 2, np.nan])
    np.testing.assert_array_equal(read["f"], [0.5, np.nan, np.nan])
    np.testing.assert_array_equal(read["r"], [2.5, np.nan, np.nan])
    assert read["t"].tolist() == ["x", None, ""]
    with pytest.raises(InvalidData, match="feature f: expected a value, or `missing: keep`"):
        open_file(path, TFRECORD)


def test_missing_images_are_an_error(tmp_path, open_file):
    path = write_records(tmp_path / "it", example(x=png(3, 3)), example(y=[1]))
    with pytest.raises(InvalidData, match="feature x: expected text if values are missing"):
        open_file(path, KEEP, columns=["x"])


def test_bytes_of_several_lengths_that_are_no_text_are_an_error(tmp_path, open_file):
    path = write_records(tmp_path / "it", example(x=b"\xff"), example(x=b"\xff\xff"))
    with pytest.raises(InvalidData, match="feature x: expected text, images, or bytes of one"):
        open_file(path, TFRECORD)


def test_images_followed_by_other_bytes_are_an_error(tmp_path, open_file):
    path = write_records(tmp_path / "it", example(x=png(4, 4, 7)), example(x=b"\xff" * 10))
    with pytest.raises(InvalidData, match="feature x: expected text, images, or bytes of one"):
        open_file(path, TFRECORD)


def test_shards_are_joined_by_split(tmp_path, read_all, open_file):
    folder = tmp_path / "mnist"
    folder.mkdir()
    for at, name in enumerate(["train.tfrecord-00000-of-00002", "train.tfrecord-00001-of-00002"]):
        write_records(folder / name, example(x=[at]))
    write_records(folder / "test.tfrecord.gz", example(x=[7]))
    assert list_splits(folder, TFRECORD, cache=tmp_path) == ("train", "test")
    assert read_all(folder, TFRECORD)["x"].tolist() == [0, 1]
    assert read_all(folder, TFRECORD, split="test")["x"].tolist() == [7]
    last = open_file(folder, TFRECORD).row_places().of(1)
    assert (last.file, last.row) == ("mnist/train.tfrecord-00001-of-00002", 1)


# Framing.


def test_the_checksum_is_that_of_the_format():
    # CRC-32C of "123456789" is 0xE3069283 (RFC 3720, B.4); rotated right by 15, plus a constant.
    rotated = (0xE306_9283 >> 15 | 0xE306_9283 << 17) & 0xFFFF_FFFF
    assert masked_crc(b"123456789") == (rotated + 0xA282_EAD8) % 2**32


def test_no_changed_bit_goes_unnoticed(tmp_path, open_file):
    path = write_records(tmp_path / "it", example(x=[1, 2, 3], t=b"text"), example(x=[4, 5, 6]))
    content = path.read_bytes()
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1 << position % 8
        path.write_bytes(changed)
        with pytest.raises(InvalidData, match=r"record [12]: expected"):
            open_file(path, KEEP)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_truncated_file_is_an_error(tmp_path, open_file, compressed):
    path = write_records(tmp_path / "it", example(x=[1]), example(x=[2]))
    content = path.read_bytes()
    boundaries = {0, len(record(example(x=[1])))}
    if compressed:
        content, boundaries = gzip.compress(content), {0}
    for length in set(range(len(content))) - boundaries:
        path.write_bytes(content[:length])
        with pytest.raises(InvalidData):
            open_file(path, TFRECORD)


def test_a_record_beyond_the_limit_is_not_read(tmp_path, open_file):
    length = struct.pack("<Q", 2**62)
    (tmp_path / "it").write_bytes(length + struct.pack("<I", masked_crc(length)))
    with pytest.raises(InvalidData, match="record 1: expected at most 67,108,864 bytes"):
        open_file(tmp_path / "it", TFRECORD)


def test_a_compressed_bomb_is_an_error(tmp_path, open_file):
    rows = b"".join([record(example(x=[0.0] * 10_000))] * 500)
    (tmp_path / "it").write_bytes(gzip.compress(rows))
    assert (tmp_path / "it").stat().st_size < 200_000
    with pytest.raises(InvalidData, match="at most 1,000,000 bytes"):
        open_file(tmp_path / "it", TFRECORD, limits=Limits(cache_bytes=1_000_000))


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b", b"not a record at all"])
def test_a_file_of_another_kind_is_an_error(tmp_path, open_file, content):
    (tmp_path / "it").write_bytes(content)
    with pytest.raises(InvalidData):
        open_file(tmp_path / "it", TFRECORD)


# Protobuf.


def test_values_that_are_not_packed_are_read():
    floats = b"".join(varint(1 << 3 | 5) + struct.pack("<f", one) for one in (0.5, 1.5))
    integers = b"".join(varint(1 << 3) + varint(one) for one in (-1, 300))
    entries = [
        field(1, field(1, b"f") + field(2, field(2, floats))),
        field(1, field(1, b"i") + field(2, field(3, integers))),
    ]
    parsed = parse_example(field(1, b"".join(entries)))
    assert parsed["f"].values.tolist() == [0.5, 1.5]
    assert parsed["i"].values.tolist() == [-1, 300]


def test_unknown_fields_are_skipped():
    unknown = varint(9 << 3) + varint(5) + varint(10 << 3 | 1) + b"12345678" + field(11, b"x")
    assert parse_example(unknown + example(a=[1]) + unknown)["a"].values.tolist() == [1]


@pytest.mark.parametrize("count", [1, 3, 31, 32, 33, 1000])
def test_packed_integers_of_all_lengths_are_read(count):
    rng = np.random.default_rng(count)
    values = rng.integers(-(2**63), 2**63 - 1, count) >> rng.integers(0, 64, count)
    assert parse_example(example(x=values))["x"].values.tolist() == values.tolist()


@pytest.mark.parametrize(
    "content",
    [
        b"\x0a\xff",
        b"\x0a\x05abc",
        b"\x0b",
        b"\x08",
        b"\xff" * 11,
        b"\x08\x01",
        field(1, field(1, field(1, b"\xff") + field(2, b""))),
        field(1, field(1, field(1, b"a") + field(2, field(2, field(1, b"123"))))),
        field(1, field(1, field(1, b"a") + field(2, field(3, field(1, b"\xff" * 40))))),
        field(
            1, field(1, field(1, b"a") + field(2, field(3, field(1, b"\xff" * 11 + b"\1" * 40))))
        ),
    ],
)
def test_malformed_bytes_are_an_error(content, tmp_path, open_file):
    with pytest.raises(Malformed):
        parse_example(content)
    with pytest.raises(InvalidData, match=r"record 1: expected a tf.train.Example"):
        open_file(write_records(tmp_path / "it", content), TFRECORD)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=100))
def test_arbitrary_bytes_are_parsed_or_malformed(content):
    with contextlib.suppress(Malformed):
        parse_example(content)
