"""uvicorn's HTTP protocol with problem+json responses to malformed requests."""

from typing import Final

from fastapi import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from server.errors import HeadersTooLarge, MalformedHttp
from server.http.limits import MAX_HEADER_BYTES
from server.http.problem_responses import problem_response

HEAD_SIZE_FACTOR: Final = 2
"""The maximum size of the head, with the request line, in multiples of MAX_HEADER_BYTES."""


class ProblemProtocol(HttpToolsProtocol):
    """uvicorn's protocol; refuses malformed and endless heads with problem+json."""

    _head_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, unless the head is too long."""
        if self._head_bytes > HEAD_SIZE_FACTOR * MAX_HEADER_BYTES:
            self._refuse(problem_response(HeadersTooLarge("Expected shorter request headers.")))
            return
        self._head_bytes += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        """A new request begins."""
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The body follows, which has its own limit."""
        super().on_headers_complete()
        self._head_bytes = 0

    def on_body(self, body: bytes) -> None:
        """A piece of a body."""
        self._head_bytes = 0
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        """The received bytes are not HTTP."""
        self._refuse(problem_response(MalformedHttp(msg)))

    def _refuse(self, response: Response) -> None:
        headers = [*response.raw_headers, (b"connection", b"close")]
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        status = STATUS_LINE[response.status_code]
        self.transport.write(status + lines + b"\r\n" + bytes(response.body))
        self.transport.close()
