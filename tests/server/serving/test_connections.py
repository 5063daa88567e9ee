import socket
import threading
from contextlib import ExitStack, suppress
from time import monotonic

import pytest
import uvicorn

from server.serving import connections
from server.serving.connections import Connection
from tests.waiting import DEADLINE_S

MOST = 3


@pytest.fixture
def impatient(monkeypatch):
    """A client may take no time worth the name."""
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    monkeypatch.setattr(connections, "BODY_S", 0.3)


@pytest.fixture
def waits():
    """Whether somebody waits for the client, at each moment at which an answer is being made."""
    return []


@pytest.fixture
def address(waits):
    """Where a server answers with 'ok'."""
    made = []

    class Seen(Connection):
        def connection_made(self, transport):
            made.append(self)
            super().connection_made(transport)

    async def app(scope, receive, send):
        if scope["path"] == "/refused":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body"})
            return
        while (await receive()).get("more_body"):
            pass
        waits.append(made[-1]._patience is not None)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,
        http=Seen,
        lifespan="off",
        limit_concurrency=MOST,
        log_config=None,
        access_log=False,
        ws="none",
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield listener.getsockname()
    server.should_exit = True
    thread.join(DEADLINE_S)
    listener.close()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("begun", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow:"])
def test_a_client_that_never_finishes_its_head_is_hung_up_on(address, begun):
    with socket.create_connection(address, timeout=DEADLINE_S) as client:
        client.sendall(begun)
        assert client.recv(100) == b""


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("path", [b"/", b"/refused"])
def test_a_client_that_never_finishes_its_body_is_hung_up_on(address, path):
    with socket.create_connection(address, timeout=DEADLINE_S) as client:
        client.sendall(b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n")
        with suppress(ConnectionError):  # it is gone between two letters
            deadline = monotonic() + DEADLINE_S
            while monotonic() < deadline:
                client.sendall(b"x")  # never silent for long
                client.settimeout(0.05)
                with suppress(TimeoutError):
                    if not client.recv(1000):
                        return
            pytest.fail("the connection is still open")


def test_an_answer_may_take_its_time(address, waits):
    """Fails where `on_message_complete` does not stop to wait."""
    with socket.create_connection(address, timeout=DEADLINE_S) as client:
        for _ in range(2):  # over one connection
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            received = b""
            while not received.endswith(b"0\r\n\r\n"):
                received += (piece := client.recv(1000))
                assert piece
            assert b"ok" in received
    assert waits == [False, False]


def ask(client):
    """The status, the headers and the body of an answer, whatever the connection becomes."""
    client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nxx")
    answer = b""
    while b"\r\n\r\n" not in answer:
        piece = client.recv(10_000)
        assert piece, "the server hung up"
        answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.lower(), body


def test_one_connection_too_many_is_told_so_and_those_that_are_there_stay(address):
    """Fails with uvicorn's own limit, which answers with plain text."""
    with ExitStack() as open_ones:
        for _ in range(MOST):
            client = open_ones.enter_context(socket.create_connection(address, timeout=DEADLINE_S))
            assert ask(client)[0] == 200
        with socket.create_connection(address, timeout=DEADLINE_S) as late:
            status, head, body = ask(late)
        assert status == 503
        assert b"content-type: application/problem+json" in head
        assert b"retry-after" in head
        assert b"connections open" in body
        assert ask(client)[0] == 200
