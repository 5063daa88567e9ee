"""How long the last row of a run waits for more columns."""

from ampclient.tracking.rows import OPEN_S, RowBuffer


def test_a_row_waits_for_columns_of_its_step_but_not_for_long():
    seconds = 0.0
    rows = RowBuffer(clock=lambda: seconds)
    rows.add(5, {"loss": 1.0})
    assert rows.encode() == []
    rows.add(5, {"val_acc": 0.5})
    seconds = OPEN_S
    assert len(rows.encode()) == 1
    assert rows.encode() == []
    rows.add(5, {"val_f1": 0.25})
    rows.add(6, {"loss": 0.5})
    assert (rows.next_step, rows.renumbered) == (8, 2)


def test_a_row_that_has_a_successor_is_not_kept():
    rows = RowBuffer(clock=lambda: 0.0)
    rows.add(1, {"loss": 1.0})
    rows.add(2, {"loss": 0.5})
    assert len(rows.encode()) == 1
