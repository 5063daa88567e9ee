import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from time import monotonic

import pytest
import uvicorn

from server.http.serving import connections
from server.http.serving.connection_limits import ConnectionLimits, OpenConnections
from server.http.serving.connections import connection_class
from tests.waiting import DEADLINE_S

MAX_CONNECTIONS = 4
LIMITS = ConnectionLimits(total=MAX_CONNECTIONS, per_address=3, unfinished_per_address=2)
PROXY = "127.0.0.9"
held = threading.Semaphore(0)
"""Released once for each request to /held."""


@pytest.fixture
def short_timeouts(monkeypatch):
    """Set short timeouts for headers and bodies."""
    monkeypatch.setattr(connections, "HEAD_TIMEOUT_S", 0.2)
    monkeypatch.setattr(connections, "BODY_TIMEOUT_S", 0.3)


@pytest.fixture
def active_timeouts():
    """For each response, whether a timeout of the request was active when it started."""
    return []


@pytest.fixture
def address(active_timeouts):
    """The address of a server that answers 'ok'."""
    protocols = []

    class RecordingProtocol(connection_class(OpenConnections(LIMITS, PROXY.__eq__))):
        def connection_made(self, transport):
            protocols.append(self)
            super().connection_made(transport)

    released = threading.Event()
    threads = ThreadPoolExecutor(10)

    async def app(scope, receive, send):
        if scope["path"] == "/refused":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body"})
            return
        while (await receive()).get("more_body"):
            pass
        if scope["path"] == "/held":
            held.release()
            await asyncio.get_running_loop().run_in_executor(threads, released.wait, DEADLINE_S)
        active_timeouts.append(protocols[-1]._timeout is not None)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,
        http=RecordingProtocol,
        lifespan="off",
        log_config=None,
        access_log=False,
        ws="none",
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield listener.getsockname()
    released.set()
    server.should_exit = True
    thread.join(DEADLINE_S)
    listener.close()
    threads.shutdown()


@pytest.mark.usefixtures("short_timeouts")
@pytest.mark.parametrize("begun", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow:"])
def test_a_client_that_never_finishes_its_headers_is_disconnected(address, begun):
    with socket.create_connection(address, timeout=DEADLINE_S) as client:
        client.sendall(begun)
        assert client.recv(100) == b""


@pytest.mark.usefixtures("short_timeouts")
@pytest.mark.parametrize("path", [b"/", b"/refused"])
def test_a_client_that_never_finishes_its_body_is_disconnected(address, path):
    with socket.create_connection(address, timeout=DEADLINE_S) as client:
        client.sendall(b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n")
        with suppress(ConnectionError):  # disconnected between two bytes
            deadline = monotonic() + DEADLINE_S
            while monotonic() < deadline:
                client.sendall(b"x")  # never idle for long
                client.settimeout(0.05)
                with suppress(TimeoutError):
                    if not client.recv(1000):
                        return
            pytest.fail("the connection is still open")


def test_no_timeout_is_active_while_a_request_is_being_answered(address, active_timeouts):
    """Fails if `on_message_complete` does not cancel the timeout."""
    with socket.create_connection(address, timeout=DEADLINE_S) as client:
        for _ in range(2):  # on one connection
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            received = b""
            while not received.endswith(b"0\r\n\r\n"):
                received += (piece := client.recv(1000))
                assert piece
            assert b"ok" in received
    assert active_timeouts == [False, False]


def ask(client):
    """The status, the headers and the body of a complete response."""
    client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nxx")
    answer = b""
    while not answer.endswith((b"0\r\n\r\n", b"}")):
        piece = client.recv(10_000)
        assert piece, "the server disconnected"
        answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.lower(), body


@pytest.fixture
def connect(address, monkeypatch):
    """Connect from the given loopback address."""
    # No connection times out here.
    monkeypatch.setattr(connections, "HEAD_TIMEOUT_S", 2 * DEADLINE_S)
    monkeypatch.setattr(connections, "BODY_TIMEOUT_S", 2 * DEADLINE_S)
    with ExitStack() as stack:

        def connect(source):
            client = socket.create_connection(
                address, timeout=DEADLINE_S, source_address=(source, 0)
            )
            return stack.enter_context(client)

        yield connect


HELD = b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n"
BEGUN = [b"", b"GET / HT", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx"]


def hold(client):
    """Send a request whose answer does not come before the end of the test."""
    client.sendall(HELD)
    assert held.acquire(timeout=DEADLINE_S)


@pytest.mark.parametrize("begun", BEGUN, ids=["nothing", "head", "body"])
def test_an_address_with_too_many_unfinished_requests_loses_its_oldest_ones(connect, begun):
    other = connect("127.0.0.2")
    other.sendall(begun)
    many = [connect("127.0.0.3") for _ in range(6)]
    for client in many:
        with suppress(ConnectionError):  # disconnected already
            client.sendall(begun)
    assert [is_disconnected(client) for client in many[:4]] == [True] * 4
    other.sendall(rest_of(begun))
    assert other.recv(12) == b"HTTP/1.1 200"
    many[-1].sendall(rest_of(begun))
    assert many[-1].recv(12) == b"HTTP/1.1 200"


def rest_of(begun):
    whole = BEGUN[2] + b"x" * 8 if begun == BEGUN[2] else b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    return whole.removeprefix(begun)


def is_disconnected(client):
    """Whether the server has ended the connection; waits until it has."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


def test_a_new_connection_replaces_one_of_the_address_with_the_most_unfinished_ones(connect):
    first, *others = [connect(f"127.0.0.{number}") for number in (3, 3, 4, 5)]
    assert ask(connect("127.0.0.6"))[0] == 200
    assert is_disconnected(first)
    for client in others:
        assert ask(client)[0] == 200


def test_a_new_connection_replaces_an_idle_one(connect):
    idle = [connect(f"127.0.0.{number}") for number in (3, 4, 4, 5)]
    for client in idle:
        assert ask(client)[0] == 200
    assert ask(connect("127.0.0.6"))[0] == 200
    assert is_disconnected(idle[1])
    assert ask(idle[0])[0] == 200


def test_an_address_with_too_many_requests_gets_429_and_others_do_not(connect):
    for _ in range(3):
        hold(connect("127.0.0.3"))
    status, head, body = ask(connect("127.0.0.3"))
    assert status == 429
    assert b"retry-after" in head
    assert b"too_many_open" in body
    assert ask(connect("127.0.0.4"))[0] == 200


def test_a_trusted_proxy_has_no_limit_per_address(connect):
    for _ in range(3):
        hold(connect(PROXY))
    assert ask(connect(PROXY))[0] == 200


def test_a_connection_above_the_limit_gets_503_and_busy_ones_stay(connect):
    """Fails with uvicorn's own limit, which answers with plain text."""
    busy = [connect(f"127.0.0.{number}") for number in (3, 4, 5, 6)]
    for client in busy:
        hold(client)
    status, head, body = ask(connect("127.0.0.7"))
    assert status == 503
    assert b"content-type: application/problem+json" in head
    assert b"retry-after" in head
    assert b"connections open" in body
    for client in busy:
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)


def test_the_number_of_refused_connections_is_limited(connect, monkeypatch):
    monkeypatch.setattr("server.http.serving.connection_limits.MAX_REFUSED", 1)
    for number in (3, 4, 5, 6):
        hold(connect(f"127.0.0.{number}"))
    refused, dropped = connect("127.0.0.7"), connect("127.0.0.8")
    assert is_disconnected(dropped)
    assert ask(refused)[0] == 503
    assert is_disconnected(refused)


def test_an_incomplete_pipelined_request_does_not_make_a_busy_connection_replaceable(connect):
    """The first request is being answered while the second is incomplete."""
    busy = connect("127.0.0.3")
    busy.sendall(HELD + BEGUN[1])
    assert held.acquire(timeout=DEADLINE_S)
    for number in (4, 5, 6):
        hold(connect(f"127.0.0.{number}"))
    assert ask(connect("127.0.0.7"))[0] == 503
