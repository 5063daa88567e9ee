"""CSV files: all cells come back with the right types; errors name the line and the column."""

import csv
import io
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampdata import Limits, list_splits, open_source
from ampdata.csv.csv_rows import MAX_LINE_BYTES
from ampspec.data.file_formats import CsvOptions
from ampspec.errors import InvalidData

CELL = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
ROWS = st.lists(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(),
        CELL,
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=80, deadline=None)
@given(ROWS, st.sampled_from([",", ";", "\t", "|"]), st.sampled_from(["\n", "\r\n"]))
def test_rows_are_read_as_they_were_written(rows, delimiter, newline):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "it.csv")
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(
                stream,
                delimiter=delimiter,
                lineterminator=newline,
                quoting=csv.QUOTE_NONNUMERIC,
            )
            writer.writerow(["i", "f", "b", "t"])
            writer.writerows((i, f, str(b).lower(), t) for i, f, b, t in rows)
        declared = {"t": "string", "f": "float64"}
        options = CsvOptions(delimiter=delimiter, dtypes=declared)
        source = open_source(path, options, cache=Path(folder))
        assert [column.dtype for column in source.columns.values()] == [
            "int64",
            "float64",
            "bool",
            "string",
        ]
        read = source.read(np.arange(source.rows))
        assert list(zip(*(array.tolist() for array in read.values()), strict=True)) == rows


@pytest.fixture
def write(tmp_path):
    """Writes birds.csv."""

    def write_text(text):
        path = tmp_path / "birds.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write_text


# Types.


@pytest.mark.parametrize(
    ("cells", "dtype", "values"),
    [
        (["1", "-2", " 3 "], "int64", [1, -2, 3]),
        (["0", "1"], "int64", [0, 1]),
        (["1", "2.5", "1e3"], "float64", [1, 2.5, 1000]),
        (["true", "FALSE", "True"], "bool", [True, False, True]),
        (["true", "1"], "string", ["true", "1"]),
        (["1", "x"], "string", ["1", "x"]),
        (["0x1F", "1"], "string", ["0x1F", "1"]),
        (["1", "word"], "string", ["1", "word"]),
        (["9223372036854775808"], "float64", [2.0**63]),
        (["1e999"], "string", ["1e999"]),
        (["2024-01-01"], "string", ["2024-01-01"]),
    ],
)
def test_a_type_is_inferred_from_all_cells(write, open_file, cells, dtype, values):
    path = write("a,b\n" + "".join(f"{cell},x\n" for cell in cells))
    source = open_file(path, CsvOptions())
    assert source.columns["a"].dtype == dtype
    assert source.read(np.arange(source.rows))["a"].tolist() == values


def test_a_type_is_inferred_beyond_the_first_block(write, open_file):
    count = MAX_LINE_BYTES // 4
    source = open_file(write("a,b\n" + "1,2\n" * count + "0.5,x\n"), CsvOptions())
    assert [column.dtype for column in source.columns.values()] == ["float64", "string"]
    assert source.rows == count + 1
    last = source.read(np.array([count]))
    assert (last["a"].tolist(), last["b"].tolist()) == ([0.5], ["x"])


@pytest.mark.parametrize(
    ("dtype", "cell"),
    [
        ("uint8", "256"),
        ("uint8", "-1"),
        ("int32", "2147483648"),
        ("int64", "1.5"),
        ("int64", "NaN"),
        ("int64", "0x10"),
        ("float16", "70000"),
        ("float32", "1e39"),
        ("float64", "n/a"),
        ("float64", "nan"),
        ("float64", "inf"),
        ("float64", "1,5"),
        ("bool", "yes"),
    ],
)
def test_a_cell_of_another_type_is_an_error_with_its_line(write, open_file, dtype, cell):
    rows = "".join(f"{'true' if dtype == 'bool' else number},x\n" for number in range(200))
    path = write(f'price,name\n{rows}1,"two\nlines"\n\n"{cell}",x\n0,x\n')
    with pytest.raises(InvalidData) as caught:
        open_file(path, CsvOptions(dtypes={"price": dtype}))
    assert caught.value.source == "birds.csv"
    assert caught.value.field == "line 205, column price"
    assert caught.value.received == repr(cell)


def test_declared_types_are_used(write, read_all):
    dtypes = {"a": "float32", "b": "bool", "c": "string", "d": "uint8", "e": "float16"}
    read = read_all(write("a,b,c,d,e\n1,0,2,255,0.1\n"), CsvOptions(dtypes=dtypes))
    assert {name: str(array.dtype) for name, array in read.items()} == {
        "a": "float32",
        "b": "bool",
        "c": "object",
        "d": "uint8",
        "e": "float16",
    }
    assert read["c"].tolist() == ["2"]


def test_whole_numbers_with_a_decimal_point_are_integers_where_these_are_declared(write, read_all):
    path = write("a,b\n1.0,x\n2,x\n,x\n3e2,x\n")
    read = read_all(path, CsvOptions(dtypes={"a": "int64"}, missing="keep"))
    np.testing.assert_array_equal(read["a"], [1, 2, np.nan, 300])


def test_a_declared_type_of_an_unknown_column_is_an_error(write, open_file):
    with pytest.raises(InvalidData, match="dtypes, z: expected one of the columns a, b"):
        open_file(write("a,b\n1,2\n"), CsvOptions(dtypes={"z": "int64"}))


def test_a_decimal_comma(write, read_all):
    path = write('a;b\n"1,5";2\n-3,25;4\n')
    read = read_all(path, CsvOptions(delimiter=";", decimal_point=","))
    assert read["a"].tolist() == [1.5, -3.25]


# Missing values.


def test_a_missing_value_is_an_error_by_default(write, open_file):
    with pytest.raises(InvalidData, match=r"line 3, column b: expected .* or `missing: keep`"):
        open_file(write("a,b\n1,2\n3,\n"), CsvOptions())


def test_kept_missing_values_are_nan_and_none(write, open_file):
    path = write('a,b,c,d\n1,x,true,0.5\n,,,-\n3,"",false,1\n')
    source = open_file(path, CsvOptions(missing="keep", missing_values=("", "-")))
    assert [(column.dtype, column.missing) for column in source.columns.values()] == [
        ("float64", 1),
        ("string", 1),
        ("float64", 1),
        ("float64", 1),
    ]
    read = source.read(np.arange(3))
    np.testing.assert_array_equal(read["a"], [1, np.nan, 3])
    assert read["b"].tolist() == ["x", None, ""]
    np.testing.assert_array_equal(read["c"], [1, np.nan, 0])


def test_large_integers_beside_missing_values_are_not_rounded(write, read_all):
    path = write(f"a,b\n{2**53 + 1},1\n,1\n")
    with pytest.raises(InvalidData, match=r"integers up to 2\^53"):
        read_all(path, CsvOptions(missing="keep"))


# Structure.


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ("", None, "at least one row"),
        ("\n\n", None, "at least one row"),
        ("a,b\n", None, "at least one row"),
        ("a,b\n1,2\n1,2,3\n", "line 3", "2 cells"),
        ("a,b\n1,2\n\n1\n", "line 4", "2 cells"),
        ("a,a\n1,2\n", "line 1", "a different name"),
        ("a,b\né,2\n1,".encode() + b"\xff\n", "line 3", "text in UTF-8"),
        ("é,".encode() + b"\xff\n1,2\n", "line 1", "text in UTF-8"),
        ("слово,b\n1,2\n".encode("windows-1251"), "encoding", "text in UTF-8, or the option"),
        ("a,b\n1,2\n" + "x" * (MAX_LINE_BYTES + 9) + "\n", "line 3", "at most 1,048,576 bytes"),
        ("x" * (MAX_LINE_BYTES + 9) + "\n1\n", "line 1", "at most 1,048,576 bytes"),
        ('a,b\n1,2\n1,"2\n3,4\n', "row after line 2", "a closing quotation mark"),
        ('a,b\n1,2\n1,"2\n' + "3,4\n" * 60_000, "row after line 2", "a closing quotation mark"),
        ('a,b\n1,"' + "2\n" * MAX_LINE_BYTES + '"\n', None, "rows of at most 1,048,576 bytes"),
    ],
    ids=range(14),
)
def test_a_malformed_file_is_an_error_with_its_line(write, open_file, text, field, expected):
    with pytest.raises(InvalidData, match=expected) as caught:
        open_file(write(text), CsvOptions())
    assert caught.value.field == field


def test_quotation_marks_inside_cells_are_text(write, read_all):
    path = write('a,b\n1,5" pipe\n2,"6"" pipe"\n')
    assert read_all(path, CsvOptions())["b"].tolist() == ['5" pipe', '6" pipe']


def test_a_byte_order_mark_is_no_part_of_the_first_name(write, open_file):
    source = open_file(write(b"\xef\xbb\xbfa,b\n1,2\n"), CsvOptions())
    assert list(source.columns) == ["a", "b"]


def test_columns_without_a_name_are_numbered(write, open_file):
    assert list(open_file(write(",b\n1,2\n"), CsvOptions()).columns) == ["column_1", "b"]
    source = open_file(write("1,2\n3,4\n"), CsvOptions(header=False))
    assert (list(source.columns), source.rows) == (["column_1", "column_2"], 2)


def test_a_long_name_is_an_error(write, open_file):
    with pytest.raises(InvalidData, match="line 1: expected column names of at most 256") as caught:
        open_file(write("a," + "b" * 100_000 + "\n1,2\n"), CsvOptions())
    assert len(str(caught.value)) < 200


def test_too_many_columns_are_an_error(write, open_file):
    with pytest.raises(InvalidData, match="at most 2 columns; received 3"):
        open_file(write("a,b,c\n1,2,3\n"), CsvOptions(), limits=Limits(columns=2))


@pytest.mark.parametrize(
    ("limits", "expected"),
    [(Limits(rows=2), "at most 2 rows"), (Limits(cache_bytes=16), "at most 16 bytes")],
)
def test_a_table_beyond_the_limits_is_an_error(write, open_file, tmp_path, limits, expected):
    with pytest.raises(InvalidData, match=expected):
        open_file(write("a,b\n1,2\n3,4\n5,6\n"), CsvOptions(), limits=limits)
    assert not list((tmp_path / "cache").rglob("*.arrow"))


def test_a_file_whose_name_ends_in_gz_is_not_decompressed(tmp_path, open_file):
    path = tmp_path / "it.csv.gz"
    path.write_text("a,b\n1,2\n")
    assert open_file(path, CsvOptions()).rows == 1


# Several files.


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "birds"
    folder.mkdir()
    (folder / "train-1.csv").write_text("a,b\n1,x\n")
    (folder / "train-2.csv").write_text("a,b\n2,y\n")
    (folder / "test.csv").write_text("a,b\n0.5,z\n")
    (folder / "README.md").write_text("about birds")
    return folder


def test_files_of_a_folder_are_joined_by_split(folder, tmp_path, read_all):
    assert list_splits(folder, CsvOptions(), cache=tmp_path) == ("train", "test")
    assert read_all(folder, CsvOptions())["b"].tolist() == ["x", "y"]
    assert read_all(folder, CsvOptions(), split="test")["b"].tolist() == ["z"]


def test_a_row_of_a_folder_has_its_file_and_the_row_in_it(folder, open_file):
    (folder / "train-1.csv").write_text('a,b\n1,x\n3,"two\nlines"\n')
    places = open_file(folder, CsvOptions()).row_places()
    found = [(place.file, place.row) for place in map(places.of, range(3))]
    names = [f"birds/train-{number}.csv" for number in (1, 1, 2)]
    assert found == list(zip(names, [1, 2, 1], strict=True))


def test_all_splits_have_the_same_types(folder, open_file):
    assert open_file(folder, CsvOptions()).columns["a"].dtype == "float64"


def test_an_error_names_the_file_of_the_folder(folder, open_file):
    (folder / "train-2.csv").write_text("a,b\n2\n")
    with pytest.raises(InvalidData, match=r"birds/train-2.csv, line 2: expected 2 cells"):
        open_file(folder, CsvOptions())


def test_all_files_must_have_the_same_columns(folder, open_file):
    (folder / "train-2.csv").write_text("a,c\n2,y\n")
    with pytest.raises(InvalidData, match=r"train-2.csv, line 1: expected the columns of"):
        open_file(folder, CsvOptions())


def test_files_in_several_encodings_are_an_error_that_names_both(folder, open_file):
    (folder / "train-1.csv").write_bytes("a,b\n1,é\n".encode())
    (folder / "train-2.csv").write_bytes("a,b\n2,é\n".encode("windows-1252"))
    with pytest.raises(InvalidData, match=r"in utf-8, as birds/train-1.csv is; received text in w"):
        open_file(folder, CsvOptions())


def test_lines_above_a_table_are_left_out_with_a_word(write, open_file):
    text = "Report of May\n\nname,price\n" + "a,1\n" * 9
    source = open_file(write(text), CsvOptions())
    assert [(part.name, part.reason) for part in source.left_out] == [
        ("2 lines", "above the table")
    ]
    assert not open_file(write(text), CsvOptions(skip_lines=2)).left_out


def test_a_file_without_a_split_among_others_is_an_error(folder, open_file):
    (folder / "more.csv").write_text("a,b\n2,y\n")
    with pytest.raises(InvalidData, match=r"birds/more.csv: expected a name with train"):
        open_file(folder, CsvOptions())


def test_a_link_out_of_the_folder_is_an_error(folder, tmp_path, open_file):
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    (folder / "train-3.csv").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(InvalidData, match="a link to a file in the same folder"):
        open_file(folder, CsvOptions())
    (folder / "train-3.csv").unlink()
    (folder / "train-3.csv").symlink_to(folder / "train-1.csv")
    assert open_file(folder, CsvOptions()).rows == 3


def test_the_cache_is_used_until_the_file_changes(write, read_all, tmp_path):
    path = write("a,b\n1,2\n")
    for _ in range(2):
        assert read_all(path, CsvOptions())["a"].tolist() == [1]
        assert len(list((tmp_path / "cache").glob("*/table.arrow"))) == 1
    assert read_all(write("a,b\n10,2\n"), CsvOptions())["a"].tolist() == [10]


def test_random_tables_agree_with_pandas(tmp_path, read_all):
    import pandas as pd

    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {
            "i": rng.integers(-(10**12), 10**12, 5000),
            "f": rng.normal(size=5000) * 10.0 ** rng.integers(-20, 20, 5000),
            "t": rng.choice(["a", "b,c", 'd"e', "f\ng"], 5000),
        }
    )
    text = io.StringIO()
    table.to_csv(text, index=False)
    (tmp_path / "it.csv").write_text(text.getvalue())
    read = read_all(tmp_path / "it.csv", CsvOptions())
    for name in table:
        assert read[name].tolist() == table[name].tolist()
