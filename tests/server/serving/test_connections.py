import asyncio
import socket
import threading
from contextlib import suppress
from time import monotonic

import pytest
import uvicorn

from server.serving import connections
from server.serving.connections import Connection


@pytest.fixture
def address(monkeypatch):
    """Where a server answers with 'ok', and is not patient."""
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    monkeypatch.setattr(connections, "BODY_S", 0.3)

    async def app(scope, receive, send):
        if scope["path"] == "/refused":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body"})
            return
        while (await receive()).get("more_body"):
            pass
        await asyncio.sleep(0.5)  # longer than a client may take for its head, or its body
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, http=Connection, lifespan="off", log_config=None, access_log=False, ws="none"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield listener.getsockname()
    server.should_exit = True
    thread.join(20)
    listener.close()


@pytest.mark.parametrize("begun", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow:"])
def test_a_client_that_never_finishes_its_head_is_hung_up_on(address, begun):
    with socket.create_connection(address, timeout=20) as client:
        client.sendall(begun)
        assert client.recv(100) == b""


@pytest.mark.parametrize("path", [b"/", b"/refused"])
def test_a_client_that_never_finishes_its_body_is_hung_up_on(address, path):
    with socket.create_connection(address, timeout=20) as client:
        client.sendall(b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n")
        with suppress(ConnectionError):  # it is gone between two letters
            deadline = monotonic() + 20
            while monotonic() < deadline:
                client.sendall(b"x")  # never silent for long
                client.settimeout(0.05)
                with suppress(TimeoutError):
                    if not client.recv(1000):
                        return
            pytest.fail("the connection is still open")


def test_an_answer_may_take_its_time(address):
    with socket.create_connection(address, timeout=20) as client:
        for _ in range(2):  # over one connection
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            received = b""
            while not received.endswith(b"0\r\n\r\n"):
                received += (piece := client.recv(1000))
                assert piece
            assert b"ok" in received
