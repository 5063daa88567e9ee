"""One request to a receiver: signed, to a checked address, with little read of the response."""

import socket
import ssl
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from standardwebhooks.webhooks import WebhookVerificationError

from infra.address_policy import AddressPolicy
from server.notifications.retry_schedule import DELAYS_S, retry_delay_s
from server.notifications.webhook import MAX_RESPONSE_BYTES, send_webhook, signed_headers
from store.notifications.subscriptions import new_secret
from tests.server.notifications.conftest import LOOPBACK
from tests.tables import every_row
from tests.waiting import POLL_S, join
from tests.webhook_receiver import answer_with

BODY = '{"type":"job.failed","data":{"text":"größer"}}'
SHORT_S = 0.5
"""The time limit of a request that a test lets hang."""


def send(url, *, policy=LOOPBACK, secrets=(), **options):
    return send_webhook(url, BODY, signed_headers("msg_1", BODY, secrets), policy, **options)


def test_a_receiver_verifies_the_signature_of_each_secret(receiver):
    secrets = [new_secret(), new_secret()]
    response = send(receiver.url, secrets=secrets)
    assert (response.error, response.status_code) == (None, 204)
    [request] = receiver.received
    for secret in secrets:
        assert request.verify(secret)["type"] == "job.failed"
    assert request.headers["webhook-id"] == "msg_1"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["host"] == f"127.0.0.1:{receiver.port}"
    with pytest.raises(WebhookVerificationError):
        request.verify(new_secret())


def test_the_timestamp_is_that_of_the_try():
    """Fails for the time of the event: receivers refuse a retry that is older than 5 minutes."""
    headers = signed_headers("msg_1", BODY, [new_secret()])
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 300


@every_row("status", [200, 201, 299])
def test_every_2xx_is_a_success(receiver, status):
    receiver.answer = answer_with(status, b"ok")
    assert send(receiver.url).error is None


@every_row("status", [300, 301, 308, 400, 404, 410, 429, 500, 503])
def test_every_other_status_is_a_failure(receiver, status):
    receiver.answer = answer_with(status, b"why")
    response = send(receiver.url)
    assert f"received {status}" in response.error
    assert (response.status_code, response.excerpt) == (status, "why")


def test_a_redirect_is_not_followed(receiver):
    receiver.answer = answer_with(307, Location=f"http://127.0.0.1:{receiver.port}/elsewhere")
    assert "Redirects are not followed" in send(receiver.url).error
    assert [request.path for request in receiver.received] == ["/hook"]


def test_little_is_read_of_a_response_of_a_gigabyte(receiver):
    sent = []

    def endless(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(2**30))
        handler.end_headers()
        for _ in range(2**14):
            handler.wfile.write(b"x" * 2**16)
            sent.append(2**16)

    receiver.answer = endless
    response = send(receiver.url)
    assert (response.error, len(response.excerpt)) == (None, min(500, MAX_RESPONSE_BYTES))
    assert sum(sent) < 2**28


def hang(receiver, handler, start=b""):
    handler.wfile.write(start)
    handler.wfile.flush()
    receiver.close.wait()


def test_a_receiver_that_hangs_is_given_up(receiver):
    receiver.answer = lambda handler: hang(receiver, handler)
    assert f"within {SHORT_S:g} s" in send(receiver.url, timeout_s=SHORT_S).error


def test_a_receiver_that_sends_a_byte_now_and_then_is_given_up(receiver):
    """Fails with a timeout for each read alone: every byte would start it again."""

    def drip(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
        while not receiver.close.wait(POLL_S):
            handler.wfile.write(b"x")

    receiver.answer = drip
    assert f"within {SHORT_S:g} s" in send(receiver.url, timeout_s=SHORT_S).error


@every_row(
    "answer",
    [b"no HTTP at all\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"a" * 2**18],
)
def test_a_receiver_that_does_not_speak_http_is_an_error(receiver, answer):
    receiver.answer = lambda handler: handler.wfile.write(answer)
    response = send(receiver.url)
    assert response.error.startswith("The request failed")
    assert response.status_code is None


def test_a_port_that_nobody_listens_on_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert send(f"http://127.0.0.1:{port}/").error.startswith("The request failed")


def resolver(*answers):
    """A resolver that gives another answer each time; what was asked for is in `asked`."""
    asked = []

    def resolve(host, port, **_):
        addresses = answers[min(len(asked), len(answers) - 1)]
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (name, port)) for name in addresses]

    resolve.asked = asked
    return resolve


def test_the_address_that_was_checked_is_the_one_that_is_connected_to(receiver):
    """DNS rebinding: the second answer is another address. Fails if the name is resolved twice."""
    resolve = resolver(["127.0.0.1"], ["10.0.0.1"])
    url = f"http://rebinding.example:{receiver.port}/hook"
    assert send(url, resolve=resolve).error is None
    assert resolve.asked == ["rebinding.example"]
    assert receiver.received[0].headers["host"] == f"rebinding.example:{receiver.port}"


def test_a_name_whose_second_try_resolves_to_a_private_address_is_refused(receiver):
    public_first = resolver(["93.184.215.14", "127.0.0.1"], ["127.0.0.1"])
    url = f"http://rebinding.example:{receiver.port}/hook"
    for _ in range(2):
        # Of the first answer one address is private: then none is connected to.
        assert "received 127.0.0.1" in send(url, policy=AddressPolicy(), resolve=public_first).error
    assert receiver.received == []


@every_row("host", ["127.0.0.1", "[::ffff:127.0.0.1]", "2130706433", "0x7f000001", "localhost"])
def test_no_spelling_of_this_machine_is_connected_to(receiver, host):
    error = send(f"http://{host}:{receiver.port}/hook", policy=AddressPolicy()).error
    assert "Expected a public address" in error or "cannot be resolved" in error
    assert receiver.received == []


def test_a_name_that_cannot_be_resolved_is_an_error():
    def fail(*_, **__):
        raise socket.gaierror(-2, "Name or service not known")

    assert "cannot be resolved" in send("http://nowhere.example/", resolve=fail).error


def test_https_is_verified_with_the_name_of_the_address(receiver, tls):
    """The certificate is that of the name, although the connection is to an address."""
    server_context, client_context, name = tls
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    names = []
    server_context.sni_callback = lambda _socket, requested, _context: names.append(requested)

    def serve():
        for _ in range(2):
            connection, _address = listener.accept()
            with connection:
                try:
                    secure = server_context.wrap_socket(connection, server_side=True)
                except (ssl.SSLError, OSError):
                    continue
                with secure:
                    request = b""
                    while BODY.encode() not in request:  # it may arrive in parts
                        request += secure.recv(2**16)
                    secure.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    options = {"resolve": resolver(["127.0.0.1"]), "ssl_context": client_context}
    assert send(f"https://{name}:{port}/", **options).error is None
    assert "certificate" in send(f"https://other.example:{port}/", **options).error.lower()
    join(thread)
    listener.close()
    assert names == [name, "other.example"]


@pytest.fixture
def tls(tmp_path):
    """Contexts of a server and a client, and the name in the certificate."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    name = "receiver.example"
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, key_pem = tmp_path / "certificate.pem", tmp_path / "key.pem"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_pem.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(pem, key_pem)
    client_context = ssl.create_default_context(cafile=str(pem))
    return server_context, client_context, name


# ---- When it is tried again


def test_the_schedule_is_that_of_standard_webhooks_with_jitter():
    pauses = [retry_delay_s(attempts) for attempts in range(1, 11)]
    assert pauses[-1] is None
    for pause, delay in zip(pauses[:-1], DELAYS_S, strict=True):
        assert delay <= pause <= 1.2 * delay
    assert sum(DELAYS_S) == 75 * 3600 + 35 * 60 + 5


def test_a_receiver_may_ask_for_a_longer_pause_but_not_for_a_shorter_one():
    assert retry_delay_s(1, 600.0) == 600.0
    assert retry_delay_s(2, 1.0) >= 300.0
    assert retry_delay_s(1, 10.0**9) == 86_400.0
    assert retry_delay_s(10, 600.0) is None


@every_row(
    ("header", "lowest", "highest"),
    [
        (lambda: "120", 120, 120),
        (lambda: format_datetime(datetime.now(UTC) + timedelta(hours=1)), 3000, 3600),
        (lambda: format_datetime(datetime(2000, 1, 1, tzinfo=UTC)), 0, 0),
    ],
)
def test_retry_after_is_a_number_or_a_date(receiver, header, lowest, highest):
    receiver.answer = answer_with(429, Retry_After=header())
    assert lowest <= send(receiver.url).retry_after_s <= highest


@every_row("header", ["soon", "-5", "9" * 30, ""])
def test_another_retry_after_is_ignored(receiver, header):
    receiver.answer = answer_with(503, Retry_After=header)
    assert send(receiver.url).retry_after_s is None
