"""Writes checks of a comparison as JUnit XML and as Markdown."""

from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree

from ampclient import formats
from ampclient.assertions import SUCCEEDED, number_text
from ampspec.documents.text import plural

if TYPE_CHECKING:
    from ampclient.checks import Check, Checks
    from ampclient.job_view import JobView

SUITE: Final = "ampctl compare"
SIGNS: Final = {"passed": "✅", "failed": "❌", "skipped": "➖"}


def junit_xml(checks: "Checks") -> str:
    """A document with one suite; CI systems read test cases, failures and skipped ones.

    Source: https://github.com/testmoapp/junitxml, the elements that common CI systems read.
    """
    counts = {
        "tests": len(checks.checks),
        "failures": len(checks.failures),
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


def markdown(checks: "Checks") -> str:
    """A heading, a sentence, and a table with a row for each assertion and job."""
    held = sum(check.outcome == "passed" for check in checks)
    lines = [
        f"### {'Passed' if checks.passed else 'Failed'}: comparison with "
        f"{_escaped(_job_name(checks.baseline))}",
        "",
        f"{held} of {plural(len(checks.checks), 'assertion')} hold.",
        "",
        "| | job | assertion | baseline | job's value | allowed |",
        "| --- | --- | --- | ---: | ---: | --- |",
        *map(_row, checks),
    ]
    return "\n".join(lines) + "\n"


def _row(check: "Check") -> str:
    base, value = ("" if one is None else number_text(one) for one in (check.base, check.value))
    if check.assertion == SUCCEEDED:
        value = str(check.job.state)
    cells = (_job_name(check.job), check.assertion, base, value, check.allowed)
    return f"| {SIGNS[check.outcome]} | {' | '.join(map(_escaped, cells))} |"


def _job_name(job: "JobView") -> str:
    return f"{formats.printable(job.name)} ({job.id})"


def _escaped(text: str) -> str:
    """The text without a meaning in Markdown or HTML."""
    shown = formats.printable(text)
    for sign in "\\`*_[]|":
        shown = shown.replace(sign, f"\\{sign}")
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
