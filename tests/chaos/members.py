"""The members of a stack that are programs of ours: API servers and workers."""

import signal
from pathlib import Path

import httpx

from ampclient import Client
from tests.chaos.process import Process
from tests.waiting import DEADLINE_S, wait_until

PROGRAMS = Path(__file__).parent / "programs"
"""What the processes of a stack run in place of ours, each a file of its own."""
CALM_ENDS = (0, -signal.SIGTERM)
"""The server raises the signal again once all is closed."""


class Api(Process):
    """An API server on a port of its own, and a client that is signed in there."""

    calm_ends = CALM_ENDS

    def sign_in(self, url: str, token: str) -> None:
        self.url = url
        self.client = Client(url, token, timeout_s=DEADLINE_S)
        signed_in = {"Authorization": f"Bearer {token}"}
        self.http = httpx.Client(base_url=url, headers=signed_in, timeout=DEADLINE_S)

    def wait_ready(self) -> None:
        wait_until(self._answers, f"{self.name} answers", show=lambda: self.log)

    def sign_out(self) -> None:
        self.client.close()
        self.http.close()

    def close(self) -> None:
        """Stop it, and see that it came to an orderly end."""
        self.sign_out()
        if self.running:
            assert self.stop() in self.calm_ends, self.log

    def _answers(self) -> bool:
        assert self.running, self.log
        try:
            return self.http.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False


class Worker(Process):
    """A worker with one slot."""

    calm_ends = (0,)
    scratch: Path
    kind: tuple[str, float | None]
    """Its trainer program, and its grace period where that is not the usual one."""
