"""What a job's page takes to open and holds while it is open, as the browser itself measures it."""

from typing import Final

from playwright.sync_api import CDPSession, Page

DRAWN: Final = """() => {
    const plots = document.querySelectorAll('.plot .readout');
    return plots.length === 5 && [...plots].every((one) => one.textContent.startsWith('last:'))
        && document.querySelectorAll('.mark').length > 0;
}"""
"""True once the page of a job shows all its plots and the marks of its skipped steps."""


def opening_s(page: Page) -> float:
    """Load a job's page anew; seconds from asking for it until all of it is drawn."""
    page.reload(wait_until="commit")
    page.wait_for_function(DRAWN, polling="raf")
    return float(page.evaluate("performance.now() / 1000"))


def held(devtools: CDPSession) -> dict[str, float]:
    """The browser's figures, once all that the page does not hold is thrown away.

    `JSHeapUsedSize` in bytes, `Nodes`, `JSEventListeners`, and others by their names in the
    DevTools protocol, `Performance.getMetrics`.
    """
    devtools.send("HeapProfiler.collectGarbage")
    return figures(devtools)


def figures(devtools: CDPSession) -> dict[str, float]:
    """The same, with whatever is still to be thrown away; `TaskDuration` is in seconds."""
    told = devtools.send("Performance.getMetrics")["metrics"]
    return {metric["name"]: metric["value"] for metric in told}
