"""The members of a stack that are programs of ours: API servers and workers."""

import signal
from pathlib import Path

import httpx
import psutil

from ampclient import Client
from tests.chaos.process import Process, command_of
from tests.chaos.waiting import wait_until

TRAINER = "ampcore.child"
READY_S = 90.0
CALM_ENDS = (0, -signal.SIGTERM)
"""The server raises the signal again once all is closed."""


class Api(Process):
    """An API server on a port of its own, and a client that is signed in there."""

    def sign_in(self, url: str, token: str) -> None:
        self.url = url
        self.client = Client(url, token)
        signed_in = {"Authorization": f"Bearer {token}"}
        self.http = httpx.Client(base_url=url, headers=signed_in, timeout=30)

    def wait_ready(self) -> None:
        wait_until(self._answers, READY_S, f"{self.name} answers")

    def close(self) -> None:
        """Stop it, and see that it came to an orderly end."""
        self.client.close()
        self.http.close()
        if self.running:
            assert self.stop() in CALM_ENDS, self.log

    def _answers(self) -> bool:
        assert self.running, self.log
        try:
            return self.http.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False


class Worker(Process):
    """A worker with one slot."""

    scratch: Path

    @property
    def trainer(self) -> psutil.Process:
        """The process that trains its job: of those it has made, the one that it made first."""
        return self.trainers()[0]

    def trainers(self) -> list[psutil.Process]:
        """The processes that train or stand by."""
        return [child for child in self.children() if TRAINER in command_of(child)]
