"""Writes checks of a comparison as JUnit XML and as Markdown."""

from collections.abc import Sequence
from typing import Final
from xml.etree import ElementTree

from ampclient._compare.check import Check
from ampclient._display import formats
from ampclient._job.view import JobView
from ampspec.comparison.assertions import SUCCEEDED, number_text
from ampspec.documents.text import plural

SUITE: Final = "ampctl compare"
SIGNS: Final = {"passed": "✅", "failed": "❌", "skipped": "➖"}


def junit_xml(checks: Sequence[Check]) -> str:
    """A document with one suite; CI systems read test cases, failures and skipped ones.

    Source: https://github.com/testmoapp/junitxml, the elements that common CI systems read.
    """
    counts = {
        "tests": len(checks),
        "failures": sum(check.outcome == "failed" for check in checks),
        "errors": 0,
        "skipped": sum(check.outcome == "skipped" for check in checks),
    }
    facts = {"name": SUITE} | {name: str(count) for name, count in counts.items()}
    root = ElementTree.Element("testsuites", facts)
    suite = ElementTree.SubElement(root, "testsuite", facts)
    for check in checks:
        names = {"classname": _job_name(check.job), "name": formats.printable(check.assertion)}
        case = ElementTree.SubElement(suite, "testcase", names)
        if check.outcome != "passed":
            kind = "failure" if check.outcome == "failed" else "skipped"
            ElementTree.SubElement(case, kind, {"message": formats.printable(check.message)})
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, "unicode")}\n'


def markdown(baseline: JobView, checks: Sequence[Check]) -> str:
    """A heading, a sentence, and a table with a row for each assertion and job."""
    passed = all(check.outcome == "passed" for check in checks)
    held = sum(check.outcome == "passed" for check in checks)
    lines = [
        f"### {'Passed' if passed else 'Failed'}: comparison with {_escaped(_job_name(baseline))}",
        "",
        f"{held} of {plural(len(checks), 'assertion')} hold.",
        "",
        "| | job | assertion | baseline | job's value | allowed |",
        "| --- | --- | --- | ---: | ---: | --- |",
        *map(_row, checks),
    ]
    return "\n".join(lines) + "\n"


def _row(check: Check) -> str:
    base, value = _number(check.base), _number(check.value)
    if check.assertion == SUCCEEDED:
        value = str(check.job.state)
    cells = (_job_name(check.job), check.assertion, base, value, check.allowed)
    return f"| {SIGNS[check.outcome]} | {' | '.join(map(_escaped, cells))} |"


def _number(value: float | None) -> str:
    return "" if value is None else number_text(value)


def _job_name(job: JobView) -> str:
    return f"{formats.printable(job.name)} ({job.id})"


def _escaped(text: str) -> str:
    """The text without a meaning in Markdown or HTML."""
    shown = formats.printable(text)
    for sign in "\\`*_[]|":
        shown = shown.replace(sign, f"\\{sign}")
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
