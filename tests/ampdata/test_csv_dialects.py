"""CSV files as public data sets are written: they are read as their authors meant them."""

import pytest

from ampdata.description import describe
from ampspec.data.file_formats import CsvOptions
from ampspec.errors import InvalidData
from tests.tables import every_row


def lines(text, count=30):
    """The text once for each number, in place of `#`."""
    return "".join(text.replace("#", str(10 + number)) for number in range(count))


@every_row(
    ("name", "content", "options", "columns"),
    [
        (
            "wine.data",
            lines("1,14.#,1.71,127\n"),
            {"header": False, "delimiter": ","},
            ["column_1 int64 0", "column_2 float64 0", "column_3 float64 0", "column_4 int64 0"],
        ),
        (
            "winequality-red.csv",
            '"fixed acidity";"pH";"quality"\n' + lines("7.4;3.#;5\n"),
            {"delimiter": ";", "header": True, "decimal_point": "."},
            ["fixed acidity float64 0", "pH float64 0", "quality int64 0"],
        ),
        (
            "adult.data",
            lines("#, State-gov, ?, <=50K\n", 3) + lines("#, Private, Sales, >50K\n") + "\n",
            {"trim": True, "header": False},
            ["column_1 int64 0", "column_2 string 0", "column_3 string 0", "column_4 string 0"],
        ),
        (
            "adult.test",
            "|1x3 Cross validator\n" + lines("#, Private, 3, >50K.\n"),
            {"skip_lines": 1, "trim": True, "header": False},
            ["column_1 int64 0", "column_2 string 0", "column_3 int64 0", "column_4 string 0"],
        ),
        (
            "breast-cancer.csv",
            'id,diagnosis,"concave points_mean",\n' + lines("84#,M,0.#\n"),
            {"header": True},
            ["id int64 0", "diagnosis string 0", "concave points_mean float64 0"],
        ),
        (
            "delimiters-at-the-end.csv",
            "v1,v2,,,\n" + lines("ham,#,,,\n"),
            {"header": True},
            ["v1 string 0", "v2 int64 0"],
        ),
        (
            "telco.csv",
            "tenure,TotalCharges,Churn\n" + lines("#,29.#,No\n") + "0, ,No\n",
            {},
            ["tenure int64 0", "TotalCharges float64 1", "Churn string 0"],
        ),
        (
            "titanic.csv",
            "Id,Name,Age,Cabin\n" + lines('#,"Braund, Mr. ""O"" #",,\n', 3) + '9,"A, B",0.5,C85\n',
            {},
            ["Id int64 0", "Name string 0", "Age float64 3", "Cabin string 3"],
        ),
        (
            "house-prices.csv",
            "Id,LotFrontage,PoolQC\n" + lines("#,NA,NA\n", 3) + lines("#,65,Ex\n"),
            {},
            ["Id int64 0", "LotFrontage float64 3", "PoolQC string 0"],
        ),
        (
            "ratings.dat",
            lines("1::11#::5::9783007#\n"),
            {"delimiter": "::"},
            [f"column_{number} int64 0" for number in (1, 2, 3, 4)],
        ),
        (
            "movies.dat",
            lines("#::Café # (1995)::Children's|Comedy\n").encode("latin-1"),
            {"delimiter": "::", "encoding": "windows-1252"},
            ["column_1 int64 0", "column_2 string 0", "column_3 string 0"],
        ),
        (
            "auto-mpg.data",
            lines('18.#   8   307.0      12.0\t"chevrolet chevelle #"\n'),
            {"delimiter": " ", "header": False},
            [
                "column_1 float64 0",
                "column_2 int64 0",
                "column_3 float64 0",
                "column_4 float64 0",
                "column_5 string 0",
            ],
        ),
        (
            "iris-of-r.txt",
            '"Sepal.Length" "Species"\n' + lines('"#" 5.# "setosa"\n'),
            {"delimiter": " ", "header": True},
            ["column_1 int64 0", "Sepal.Length float64 0", "Species string 0"],
        ),
        (
            "world-bank.csv",
            '"Data Source","World Development Indicators",\n\n"Last Updated","2020-01-01",\n\n'
            '"Country Name","1960","1961",\n' + lines('"C#","#.5","#",\n'),
            {"skip_lines": 4, "header": True},
            ["Country Name string 0", "1960 float64 0", "1961 int64 0"],
        ),
        (
            "excel.csv",
            "sep=;\na;b\n" + lines("#,5;x#\n"),
            {"delimiter": ";", "skip_lines": 1, "decimal_point": ","},
            ["a float64 0", "b string 0"],
        ),
        (
            "euros.csv",
            "Datum;Preis;Menge\n" + lines("01.02.2020;1.234,#;#\n"),
            {"delimiter": ";", "decimal_point": ",", "thousands": "."},
            ["Datum string 0", "Preis float64 0", "Menge int64 0"],
        ),
        (
            "dollars.csv",
            "date,price\n" + lines('2020-01-01,"1,234.#"\n') + '2020-01-02,"12"\n',
            {"decimal_point": ".", "thousands": ","},
            ["date string 0", "price float64 0"],
        ),
        (
            "francs.csv",
            "a;b\n" + lines("1\u202f234,#;#\n"),
            {"decimal_point": ",", "thousands": " "},
            ["a float64 0", "b int64 0"],
        ),
        (
            "weka.csv",
            "a,b\n" + lines("#,'x, #'\n"),
            {"quote": "'"},
            ["a int64 0", "b string 0"],
        ),
        (
            "old-mac.csv",
            ("a,b\n" + lines("#,é#\n")).replace("\n", "\r"),
            {"header": True},
            ["a int64 0", "b string 0"],
        ),
        (
            "unicode-text.csv",
            ("a\tb\n" + lines("#\tñ#\n")).encode("utf-16"),
            {"encoding": "utf-16", "delimiter": "\t"},
            ["a int64 0", "b string 0"],
        ),
        (
            "comments.csv",
            "# made by hand\n# second, line\nx,y,z\n" + lines("#,#.5,q\n"),
            {"skip_lines": 2, "header": True},
            ["x int64 0", "y float64 0", "z string 0"],
        ),
        (
            "pandas.csv",
            ",0,1\n" + lines("#,#.5,#.2\n"),
            {"header": True},
            ["column_1 int64 0", "0 float64 0", "1 float64 0"],
        ),
        (
            "quoted.csv",
            '"a","b"\n' + lines('"#","x#"\n') + '"",""\n',
            {},
            ["a float64 1", "b string 0"],
        ),
        (
            "line-breaks.csv",
            "id,text\n" + lines('#,"one\nline, two"\n'),
            {"delimiter": ","},
            ["id int64 0", "text string 0"],
        ),
        (
            "numbered.csv",
            "0,1,2,label\n" + lines("0.#,2.#,1.5,1\n"),
            {"header": True},
            ["0 float64 0", "1 float64 0", "2 float64 0", "label int64 0"],
        ),
        (
            "years.csv",
            "Country,1960,1961\n" + lines("C#,54#,55#\n"),
            {"header": True},
            ["Country string 0", "1960 int64 0", "1961 int64 0"],
        ),
        (
            "numbers.csv",
            lines("6,148,#,35\n"),
            {"header": False},
            [f"column_{number} int64 0" for number in (1, 2, 3, 4)],
        ),
        (
            "agaricus-lepiota.data",
            lines("p,x,s,#\n", 2) + lines("e,x,y,#\np,b,s,#\n"),
            {"header": False},
            [f"column_{number} string 0" for number in (1, 2, 3)] + ["column_4 int64 0"],
        ),
        (
            "tic-tac-toe.data",
            lines("x,o,b,positive\no,o,x,negative\nb,x,x,positive\n"),
            {"header": False},
            [f"column_{number} string 0" for number in (1, 2, 3, 4)],
        ),
        (
            "put-together.csv",
            "name,kind\n" + lines("n#,a\n") + "name,kind\n" + lines("m#,b\n"),
            {"header": True},
            ["name string 0", "kind string 0"],
        ),
        (
            "german.data",
            lines("A11 6 A34 A43 11# A65 1\n"),
            {"delimiter": " ", "header": False},
            [
                *("column_1 string 0", "column_2 int64 0", "column_3 string 0"),
                *("column_4 string 0", "column_5 int64 0", "column_6 string 0", "column_7 int64 0"),
            ],
        ),
        (
            "semicolons-after-rows.csv",
            "a;b;c\n" + lines("#;2;x;\n"),
            {"delimiter": ";", "header": True},
            ["a int64 0", "b int64 0", "c string 0"],
        ),
        (
            "mysql.txt",
            lines("#\tname #\t\\N\t2.5\n", 3) + lines("#\tname #\t7\t2.5\n"),
            {"delimiter": "\t", "header": False},
            ["column_1 int64 0", "column_2 string 0", "column_3 float64 3", "column_4 float64 0"],
        ),
        (
            "000000_0",
            lines("#\x01name #\x01\\N\n", 3) + lines("#\x01name #\x017\n"),
            {"delimiter": "\x01", "header": False},
            ["column_1 int64 0", "column_2 string 0", "column_3 float64 3"],
        ),
        (
            "of-sql-server.csv",
            ("a\tb\n" + lines("#\tñ#\n")).encode("utf-16-le"),
            {"encoding": "utf-16"},
            ["a int64 0", "b string 0"],
        ),
        (
            "savetxt.csv",
            "a, b, c\n" + lines("#, 1, 2\n"),
            {"delimiter": ",", "trim": True},
            ["a int64 0", "b int64 0", "c int64 0"],
        ),
        (
            "decimal-commas.txt",
            lines("1,# 2,5 3,5\n"),
            {"delimiter": " ", "decimal_point": ","},
            ["column_1 float64 0", "column_2 float64 0", "column_3 float64 0"],
        ),
        (
            "eurostat.tsv",
            "unit,geo\\time\t2019 \t2018 \n"
            + lines("PC,A#\t1.# \t: \n", 3)
            + lines("A\t1.#\t2 \n"),
            {"delimiter": "\t", "header": True},
            ["unit,geo\\time string 0", "2019 float64 0", "2018 float64 3"],
        ),
        (
            "SMSSpamCollection",
            lines("ham\tGo until jurong point, #\nspam\tFree entry # !!\n"),
            {"delimiter": "\t", "header": False},
            ["column_1 string 0", "column_2 string 0"],
        ),
        (
            "one-column.csv",
            "address\n" + lines("Street #\n"),
            {"header": True, "skip_lines": 0},
            ["address string 0"],
        ),
        (
            "multiples.csv",
            "".join(f"{n},{2 * n},{3 * n}\n" for n in range(1, 30)),
            {"header": False},
            ["column_1 int64 0", "column_2 int64 0", "column_3 int64 0"],
        ),
        (
            "consecutive.csv",
            "1,2,3\n4,5,6\n7,8,9\n",
            {"header": False},
            ["column_1 int64 0", "column_2 int64 0", "column_3 int64 0"],
        ),
        ("carets.csv", "a^b\n" + lines("#^x#\n"), {"delimiter": "^"}, ["a int64 0", "b string 0"]),
        ("tildes.csv", "a~b\n" + lines("#~x#\n"), {"delimiter": "~"}, ["a int64 0", "b string 0"]),
        (
            "title.basics.tsv",
            "id\ttitle\n" + lines('#\t"Name #\n', 2) + lines("#\tName #\n"),
            {"delimiter": "\t", "quote": ""},
            ["id int64 0", "title string 0"],
        ),
        (
            "of-spark.csv",
            "id,j\n" + lines('#,"{\\"a\\": #, \\"b\\": 2}"\n'),
            {"delimiter": ",", "quote": '"'},
            ["id int64 0", "j string 0"],
        ),
        (
            "excel-errors.csv",
            "a,b\n" + lines("#.5,#\n") + "#DIV/0!,1\n#N/A,1\n--,1\n-1.#IND,1\n",
            {},
            ["a float64 4", "b int64 0"],
        ),
        (
            "flows.csv",
            " Port, Flow Bytes/s, Label\n" + lines("80,1#.5,BENIGN\n") + "80,Infinity,DDoS\n",
            {},
            ["Port int64 0", "Flow Bytes/s float64 0", "Label string 0"],
        ),
        (
            "codes.csv",
            "zip,month,price\n" + lines("90#0,1,3.5\n") + "02110,1,03.5\n",
            {},
            ["zip string 0", "month int64 0", "price float64 0"],
        ),
    ],
)
def test_a_public_file_is_read_as_its_author_meant_it(tmp_path, name, content, options, columns):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    described = describe(path)
    # Integers with missing values are read as float64.
    assert [f"{one.name} {one.dtype} {one.missing}" for one in described.columns] == columns
    assert described.options.items() >= options.items()


def test_two_short_rows_above_longer_ones_are_no_titles(tmp_path):
    (tmp_path / "it.csv").write_text("a,b\n1,2\n" + "1,2,3\n" * 50)
    with pytest.raises(InvalidData, match="line 3: expected 2 cells"):
        describe(tmp_path / "it.csv")


@every_row(
    ("name", "content", "cells"),
    [
        ("a.csv", 'id,t\n1,"a \\"b, c\\" d"\n2,"e\\\\"\n', ['a "b, c" d', "e\\"]),
        ("a.csv", 'id,t\n1,"C:\\x\\"\n2,"y"\n', ["C:\\x\\", "y"]),
        ("a.csv", 'id,t\n1,"a ""b"" c"\n2,d\\"e\n', ['a "b" c', 'd\\"e']),
        ("a.tsv", 'id\tt\n1\t"a\n2\tb"\n3\t"c" d\n', ['"a', 'b"', '"c" d']),
        ("a.tsv", 'id\tt\n1\t"a\nb"\n2\tc\n', ["a\nb", "c"]),
    ],
)
def test_quotation_marks_are_those_of_the_program_that_wrote_them(tmp_path, name, content, cells):
    path = tmp_path / name
    path.write_text(content)
    assert [row["t"] for row in describe(path).preview] == cells


def test_a_mark_that_another_row_closes_is_an_error_beyond_the_start(tmp_path):
    path = tmp_path / "it.tsv"
    path.write_text("id\tt\n" + "1\tb\n" * 50_000 + '2\t"c\n3\td\n4\te"\n')
    with pytest.raises(
        InvalidData, match=r"line 50002, column t: expected one cell .or `quote: ''`"
    ):
        describe(path)
    options = describe(path, CsvOptions(quote=""))
    assert options.rows == 50_003


@every_row(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"a": 1, "b": 2}\n' * 9, "received JSON"),
        ("a.json", '[\n  {"a": 1}\n]', "received JSON"),
        ("a.arff", "% iris\n@RELATION iris\n@DATA\n1,2\n", "received ARFF"),
        ("a.txt", "+1 1:0.5 3:1\n-1 2:1e-3\n", "received LIBSVM"),
    ],
)
def test_tables_of_other_formats_are_no_text(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(InvalidData, match=message):
        describe(tmp_path / name)


def test_numbers_for_missing_values_may_be_quoted(tmp_path):
    (tmp_path / "it.csv").write_text('"a","b"\n"1","2"\n"-9999","3"\n')
    described = describe(tmp_path / "it.csv", CsvOptions(missing_values=("-9999",)))
    assert [column.missing for column in described.columns] == [1, 0]


def test_an_empty_line_after_the_lines_to_skip_is_no_header(tmp_path):
    (tmp_path / "it.csv").write_text("title\n\r\n\na,b\n1,2\n")
    described = describe(tmp_path / "it.csv", CsvOptions(skip_lines=1))
    assert described.rows == 1
    assert [column.dtype for column in described.columns] == ["int64", "int64"]
