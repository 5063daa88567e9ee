import io

from rich.console import Console

from ampclient._display.terminal_table import TableColumn, fitted_table
from tests.tables import every_row

COLUMNS = (
    TableColumn("ID"),
    TableColumn("NAME", min_width=6),
    TableColumn("POLICY", drop_order=1),
    TableColumn("AGE", align_right=True, drop_order=2),
)
ROWS = [("0a1b2c", "a name of some length", "mixed_float16", "3 d ago")]


def drawn(width, columns=COLUMNS):
    stream = io.StringIO()
    Console(file=stream, width=width).print(fitted_table(columns, ROWS, width))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


@every_row(
    ("width", "heads", "row"),
    [
        (60, "ID NAME POLICY AGE", "0a1b2c  a name of some length  mixed_float16  3 d ago"),
        (45, "ID NAME POLICY AGE", "0a1b2c  a name of so…  mixed_float16  3 d ago"),
        (30, "ID NAME AGE", "0a1b2c  a name of so…  3 d ago"),
        (20, "ID NAME", "0a1b2c  a name of s…"),
    ],
)
def test_a_narrow_table_truncates_names_and_then_drops_columns_in_order(width, heads, row):
    head, line = drawn(width)
    assert head.split() == heads.split()
    assert line == row


def test_a_wrapping_column_keeps_every_word():
    text = " ".join(drawn(16, (COLUMNS[0], TableColumn("NAME", min_width=6, wraps=True))))
    assert [word in text for word in ROWS[0][1].split()] == [True] * 5
