"""How long a job's page takes to load, and the memory it uses, as the browser measures it."""

from typing import Final

from playwright.sync_api import CDPSession, Page

IS_DRAWN_JS: Final = """() => {
    const plots = document.querySelectorAll('.plot .readout');
    return plots.length === 5 && [...plots].every((one) => one.textContent.startsWith('last:'))
        && document.querySelectorAll('.skip-marker').length > 0;
}"""
"""True once the page of a job shows all its plots and the markers of its skipped steps."""


def load_s(page: Page) -> float:
    """Reload a job's page; seconds from the request until everything is drawn."""
    page.reload(wait_until="commit")
    page.wait_for_function(IS_DRAWN_JS, polling="raf")
    return float(page.evaluate("performance.now() / 1000"))


def collected_metrics(devtools: CDPSession) -> dict[str, float]:
    """The browser's metrics after a garbage collection.

    `JSHeapUsedSize` in bytes, `Nodes`, `JSEventListeners`, and others by their names in the
    DevTools protocol, `Performance.getMetrics`.
    """
    devtools.send("HeapProfiler.collectGarbage")
    return metrics(devtools)


def metrics(devtools: CDPSession) -> dict[str, float]:
    """The browser's metrics, garbage included; `TaskDuration` is in seconds."""
    reported = devtools.send("Performance.getMetrics")["metrics"]
    return {metric["name"]: metric["value"] for metric in reported}
