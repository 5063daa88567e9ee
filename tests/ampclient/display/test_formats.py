import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ampclient._display import formats, numbers
from tests.tables import every_row


@every_row(
    ("value", "text"),
    [
        (2.0**15, "2^15"),
        (1024.0, "2^10"),
        (512.0, "512"),
        (1.0, "1"),
        (3000.0, "3,000"),
        (0.5, "0.5"),
        (float("inf"), "∞"),
        (float("nan"), "NaN"),
        (None, "–"),
    ],
)
def test_large_powers_of_two_are_written_as_powers(value, text):
    assert formats.loss_scale(value) == text


EXAMPLES = json.loads((Path(__file__).parents[2] / "number_formats.json").read_text("utf-8"))


@pytest.mark.parametrize("kind", EXAMPLES)
def test_numbers_are_written_by_the_rule_of_the_dashboard(kind):
    write = {"bytes": numbers.size}.get(kind) or getattr(numbers, kind)
    rows = [(float(v) if isinstance(v, str) else v, text) for v, text in EXAMPLES[kind]]
    assert [write(value) for value, _ in rows] == [text for _, text in rows]


def test_an_unmeasured_throughput_is_written_as_a_dash():
    assert [formats.rate(v) for v in (None, float("nan"), 12345.6)] == ["–", "–", "12,346"]


def test_control_characters_are_replaced():
    assert formats.printable("a\x1b[2J b\r\nc\u202e") == "a�[2J b c�"
    assert formats.printable("Größe 8 × 8 – 数字") == "Größe 8 × 8 – 数字"


def test_times_are_written_to_the_second():
    moment = datetime(2030, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC)
    assert formats.moment(moment) == f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"


def test_a_log_keeps_lines_and_colours_but_no_other_control_sequences():
    text = "a\t\x1b[31mred\x1b[0m\r\n\x1b[2Jb\x07 数字\n"
    assert formats.log_text(text) == "a\t\x1b[31mred\x1b[0m\n�[2Jb� 数字\n"


@every_row(
    ("text", "shown"),
    [
        ("rm -rf /\rls      \n", "rm -rf /\nls      \n"),
        ("secret\b\b\b\b\b\bpublic", "secret" + "�" * 6 + "public"),
        ("\x1b[8mhidden\x1b[0m", "�[8mhidden\x1b[0m"),
        ("\x1b[1;08mhidden", "�[1;08mhidden"),
        ("\x1b[30;40mhidden", "�[30;40mhidden"),
        ("\x1b[1;32m10/10\x1b[m", "\x1b[1;32m10/10\x1b[m"),
        ("\x1b[" + "1;" * 3000 + "m", "�[" + "1;" * 3000 + "m"),
        ("a\r\r\nb\r", "a\nb\n"),
    ],
)
def test_a_log_cannot_overwrite_or_hide_text(text, shown):
    assert formats.log_text(text) == shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("pinned at the floor", "at minimum scale"),
        ("pinned at the cap", "at maximum scale"),
        ("steady", "steady"),
    ],
)
def test_the_health_of_a_scale_is_a_text(value, text):
    assert formats.scale_health(value) == text
