import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from time import monotonic

import pytest
import uvicorn

from server.serving import connections
from server.serving.connection_limits import ConnectionLimits, OpenConnections
from server.serving.connections import connection_class
from tests.waiting import DEADLINE_S

MOST = 4
BOUNDS = ConnectionLimits(total=MOST, per_address=3, unfinished_per_address=2)
PROXY = "127.0.0.9"
held = threading.Semaphore(0)
"""Released for each request that is being held."""


@pytest.fixture
def impatient(monkeypatch):
    """A client may take no time worth the name."""
    monkeypatch.setattr(connections, "HEAD_TIMEOUT_S", 0.2)
    monkeypatch.setattr(connections, "BODY_TIMEOUT_S", 0.3)


@pytest.fixture
def waits():
    """Whether somebody waits for the client, at each moment at which an answer is being made."""
    return []


@pytest.fixture
def address(waits):
    """Where a server answers with 'ok'."""
    made = []

    class Seen(connection_class(OpenConnections(BOUNDS, PROXY.__eq__))):
        def connection_made(self, transport):
            made.append(self)
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
        waits.append(made[-1]._timeout is not None)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,
        http=Seen,
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
    """The status, the headers and the body of an answer, which is there as a whole."""
    client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nxx")
    answer = b""
    while not answer.endswith((b"0\r\n\r\n", b"}")):
        piece = client.recv(10_000)
        assert piece, "the server hung up"
        answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.lower(), body


@pytest.fixture
def connect(address, monkeypatch):
    """Connect from an address of this machine's many."""
    # Nothing ends by itself here.
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
def test_an_address_with_too_many_unfinished_requests_loses_its_own_oldest(connect, begun):
    other = connect("127.0.0.2")
    other.sendall(begun)
    many = [connect("127.0.0.3") for _ in range(6)]
    for client in many:
        with suppress(ConnectionError):  # it is dropped already
            client.sendall(begun)
    assert [gone(client) for client in many[:4]] == [True] * 4
    other.sendall(rest_of(begun))
    assert other.recv(12) == b"HTTP/1.1 200"
    many[-1].sendall(rest_of(begun))
    assert many[-1].recv(12) == b"HTTP/1.1 200"


def rest_of(begun):
    whole = BEGUN[2] + b"x" * 8 if begun == BEGUN[2] else b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    return whole.removeprefix(begun)


def gone(client):
    """Whether the server has ended the connection; waits until it has."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


def test_a_new_connection_takes_the_place_of_the_address_with_the_most_unfinished(connect):
    first, *others = [connect(f"127.0.0.{number}") for number in (3, 3, 4, 5)]
    assert ask(connect("127.0.0.6"))[0] == 200
    assert gone(first)
    for client in others:
        assert ask(client)[0] == 200


def test_a_new_connection_takes_the_place_of_an_idle_one(connect):
    idle = [connect(f"127.0.0.{number}") for number in (3, 4, 4, 5)]
    for client in idle:
        assert ask(client)[0] == 200
    assert ask(connect("127.0.0.6"))[0] == 200
    assert gone(idle[1])
    assert ask(idle[0])[0] == 200


def test_an_address_with_too_many_requests_gets_429_and_others_do_not(connect):
    for _ in range(3):
        hold(connect("127.0.0.3"))
    status, head, body = ask(connect("127.0.0.3"))
    assert status == 429
    assert b"retry-after" in head
    assert b"too_many_open" in body
    assert ask(connect("127.0.0.4"))[0] == 200


def test_a_proxy_may_have_as_many_as_the_server(connect):
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
    monkeypatch.setattr("server.serving.connection_limits.MAX_REFUSED", 1)
    for number in (3, 4, 5, 6):
        hold(connect(f"127.0.0.{number}"))
    told, unheard = connect("127.0.0.7"), connect("127.0.0.8")
    assert gone(unheard)
    assert ask(told)[0] == 503
    assert gone(told)


def test_a_request_behind_another_one_does_not_make_an_answer_less_safe(connect):
    """The first is being answered while the second is not complete."""
    busy = connect("127.0.0.3")
    busy.sendall(HELD + BEGUN[1])
    assert held.acquire(timeout=DEADLINE_S)
    for number in (4, 5, 6):
        hold(connect(f"127.0.0.{number}"))
    assert ask(connect("127.0.0.7"))[0] == 503
