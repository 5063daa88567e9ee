import anyio
import pytest

from server.http.limits import BodyLimit


@pytest.mark.parametrize("begun", [[], [b'{"set": '], [b"{", b"}"]])
def test_an_incomplete_request_does_not_reach_the_application(begun):
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in begun]
    pending = iter([*messages, {"type": "http.disconnect"}])

    async def application(scope, receive, send):
        pytest.fail("the application was called")

    async def receive():
        return next(pending)

    async def send(message):
        pytest.fail("a response was sent to a closed connection")

    limit = BodyLimit(application)
    anyio.run(limit, {"type": "http", "headers": [(b"content-length", b"99")]}, receive, send)
