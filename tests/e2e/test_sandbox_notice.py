"""Where no sandbox works, the terminal of `ampserver up` says it, and a job with code waits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.waiting import wait_until

NOTICE = "Custom code is off"


def test_a_stack_without_a_sandbox_says_so_at_its_start_and_lets_jobs_with_code_wait(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    stack = start(tmp_path / "data", AMPCORE_BUNDLE_SANDBOX="off")
    log = tmp_path / "data.log"
    code = tmp_path / "code"
    code.mkdir()
    (code / "net.py").write_text("def build(options, signature): ...")
    try:
        wait_until(lambda: NOTICE in log.read_text(), "the notice", show=log.read_text)
        spec = {"model": {"kind": "bundle"}, "data": {"kind": "digits"}}
        job = stack.client.jobs.submit(spec, code=code)
        assert "has a sandbox" in stack.client.jobs.get(job.id).waiting
    finally:
        assert stack.stop() == 0
    printed = log.read_text()
    assert printed.count(NOTICE) == 1
    assert "AMPCORE_BUNDLE_SANDBOX is off. To turn it on, remove that setting" in printed
