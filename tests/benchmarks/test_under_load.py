"""The HTTP client and the statistics of benchmarks/under_load."""

import socket
import threading

import pytest

from tests.tables import every_row
from tests.waiting import DEADLINE_S


@pytest.fixture
def under_load(monkeypatch, request):
    """The package benchmarks/under_load."""
    monkeypatch.syspath_prepend(request.config.rootpath / "benchmarks")
    import under_load.http_connection
    import under_load.load

    return under_load


@pytest.fixture
def start_server():
    """Starts servers that send these pieces; the first piece of a response follows a request."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads = []

    def start(*responses):
        def serve():
            connection, _ = listener.accept()
            with connection:
                for pieces in responses:
                    received.append(connection.recv(1 << 16))
                    for piece in pieces:
                        connection.sendall(piece)

        received = []
        threads.append(threading.Thread(target=serve, daemon=True))
        threads[-1].start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}", received

    yield start
    for thread in threads:
        thread.join(DEADLINE_S)
    listener.close()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"


def test_a_connection_is_reused_and_responses_may_arrive_in_pieces(under_load, start_server):
    url, received = start_server([HEAD + b"fi", b"rs"], [HEAD[:9], HEAD[9:], b"next"])
    connection = under_load.http_connection.Connection(url, "secret")
    assert connection.request("GET", "/one") == b"firs"
    assert connection.request("POST", "/two", {"a": 1}) == b"next"
    connection.close()
    assert received[0].startswith(b"GET /one HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer secret\r\n" in received[0]
    assert received[1].endswith(b'Content-Length: 8\r\n\r\n{"a": 1}')


def test_a_response_without_a_body_returns_at_once(under_load, start_server):
    url, _ = start_server([b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n"], [HEAD + b"body"])
    connection = under_load.http_connection.Connection(url, "secret")
    assert connection.request("GET", "/") == b""
    assert connection.request("GET", "/") == b"body"
    connection.close()


def test_a_chunked_response_is_assembled(under_load, start_server):
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    url, _ = start_server(
        [chunked, b"3\r\none", b"\r\n1", b"0\r\n", b"s" * 16 + b"\r\n0\r\n\r\n"], [HEAD + b"next"]
    )
    connection = under_load.http_connection.Connection(url, "secret")
    assert connection.request("GET", "/") == b"one" + b"s" * 16
    assert connection.request("GET", "/") == b"next"
    connection.close()


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (b"HTTP/1.1 429 Too Many\r\nContent-Length: 4\r\n\r\nslow", RuntimeError),
        (b"HTTP/1.1 200 OK\r\n\r\n", RuntimeError),
        (b"HTTP/1.1 200 OK\r\n", ConnectionError),
    ],
    ids=["refused", "without a length", "closed"],
)
def test_an_error_response_is_an_error_and_not_counted(under_load, start_server, response, error):
    url, _ = start_server([response])
    connection = under_load.http_connection.Connection(url, "secret")
    with pytest.raises(error):
        connection.request("GET", "/")
    connection.close()


@every_row(("percent", "value"), [(50, 50), (99, 99), (100, 100), (1, 1)])
def test_a_percentile_is_an_observed_value(under_load, percent, value):
    assert under_load.load.percentile(range(1, 101), percent) == value


def test_an_error_in_a_thread_fails_the_round(under_load):
    def work(number):
        if number == 2:
            raise ValueError("two")

    with pytest.raises(ValueError, match="two"):
        under_load.load.in_threads(work, range(4))
