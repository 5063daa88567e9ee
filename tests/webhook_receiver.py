"""An HTTP server that records webhooks, and answers as a test says."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook

from tests.waiting import join


@dataclass(frozen=True)
class Received:
    """A request as it arrived."""

    path: str
    headers: dict[str, str]
    body: bytes

    def verify(self, secret: str) -> Any:
        """The document, if the signature is valid for this secret."""
        return Webhook(secret).verify(self.body, self.headers)


Answer = Callable[[BaseHTTPRequestHandler], None]


def answer_with(status: int, body: bytes = b"", **headers: str) -> Answer:
    """Answer with this status."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@dataclass
class Receiver:
    """The server, and what has arrived."""

    port: int
    received: list[Received] = field(default_factory=list)
    answer: Answer = field(default_factory=lambda: answer_with(204))
    close: threading.Event = field(default_factory=threading.Event)
    """Set at the end of the test: an answer that hangs waits for it."""

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}/hook"


@contextmanager
def webhook_receiver(port: int = 0) -> Iterator[Receiver]:
    """Run a receiver on 127.0.0.1."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.received.append(Received(self.path, headers, body))
            receiver.answer(self)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            pass  # the client has closed the connection

    server = Server(("127.0.0.1", port), Handler)
    receiver = Receiver(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.close.set()
        server.shutdown()
        join(thread)
        server.server_close()
