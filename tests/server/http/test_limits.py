import anyio
import pytest

from server.http.limits import BodyLimit


@pytest.mark.parametrize("begun", [[], [b'{"set": '], [b"{", b"}"]])
def test_half_a_request_is_not_carried_out(begun):
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in begun]
    waiting = iter([*messages, {"type": "http.disconnect"}])

    async def application(scope, receive, send):
        pytest.fail("it was carried out")

    async def receive():
        return next(waiting)

    async def send(message):
        pytest.fail("nobody hears that")

    limit = BodyLimit(application)
    anyio.run(limit, {"type": "http", "headers": [(b"content-length", b"99")]}, receive, send)
