"""The API server and worker processes of a stack."""

import signal
from pathlib import Path

import httpx

from ampclient import Client
from tests.chaos.process import Process
from tests.waiting import DEADLINE_S, wait_until

PROGRAMS = Path(__file__).parent / "programs"
"""The programs that run instead of the real worker and trainer."""
CLEAN_EXIT_CODES = (0, -signal.SIGTERM)
"""The server re-raises the signal after a clean shutdown."""


class Api(Process):
    """An API server on its own port, with an authenticated client."""

    clean_exit_codes = CLEAN_EXIT_CODES

    def sign_in(self, url: str, token: str) -> None:
        self.url = url
        self.client = Client(url, token, timeout_s=DEADLINE_S)
        signed_in = {"Authorization": f"Bearer {token}"}
        self.http = httpx.Client(base_url=url, headers=signed_in, timeout=DEADLINE_S)

    def wait_ready(self) -> None:
        wait_until(self._is_ready, f"{self.name} is ready", show=lambda: self.log)

    def sign_out(self) -> None:
        self.client.close()
        self.http.close()

    def close(self) -> None:
        """Stop it, and assert a clean exit."""
        self.sign_out()
        if self.running:
            assert self.stop() in self.clean_exit_codes, self.log

    def _is_ready(self) -> bool:
        assert self.running, self.log
        try:
            return self.http.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False


class Worker(Process):
    """A worker with one slot."""

    clean_exit_codes = (0,)
    scratch_dir: Path
    kind: tuple[object, ...]
    """Its trainer program, its grace period or None for the default, and further settings."""
