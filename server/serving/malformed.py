"""What is no HTTP at all: answered as every other mistake is, before there is a request."""

from typing import Final

from fastapi import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from server.errors import HeadersTooLarge, MalformedHttp, answer
from server.http.limits import MAX_HEADER_BYTES

SLACK: Final = 2
"""The bytes before a body may be so many times MAX_HEADER_BYTES: the rest is for the address."""


class ProblemProtocol(HttpToolsProtocol):
    """uvicorn's HTTP; says what is wrong in problem+json, and waits for no endless headers."""

    _head_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Hand on what came in, unless a head has no end."""
        if self._head_bytes > SLACK * MAX_HEADER_BYTES:
            self._refuse(answer(HeadersTooLarge("Expected an end of the headers by now.")))
            return
        self._head_bytes += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        """A new request begins."""
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """What comes now is a body, which has a limit of its own."""
        super().on_headers_complete()
        self._head_bytes = 0

    def on_body(self, body: bytes) -> None:
        """A piece of a body."""
        self._head_bytes = 0
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        """The bytes that came were no HTTP."""
        self._refuse(answer(MalformedHttp(msg)))

    def _refuse(self, response: Response) -> None:
        headers = [*response.raw_headers, (b"connection", b"close")]
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        status = STATUS_LINE[response.status_code]
        self.transport.write(status + lines + b"\r\n" + bytes(response.body))
        self.transport.close()
