"""Services and e-mail: apprise in a process of its own, whose connections are all checked."""

import json
import socket
import threading

import pytest

from ampspec.jobs import State
from infra.address_policy import AddressPolicy
from server.notifications.deliverer import Deliverer
from server.notifications.services import address_error, send_email, send_to_service
from server.notifications.targets import SERVICES
from tests.databases import ON_SQLITE
from tests.server.notifications.conftest import LOOPBACK
from tests.waiting import join
from tests.webhook_receiver import answer_with

SCHEMES = SERVICES | {"json"}
pytestmark = pytest.mark.slow  # each starts a process that imports apprise


@ON_SQLITE
def test_a_message_reaches_a_service(receiver, subscribe, make_job, database, channels):
    subscribe(f"json://127.0.0.1:{receiver.port}/hook", "service", link_base="https://a.example")
    job = make_job(State.PAUSED)
    deliverer = Deliverer(database, channels)
    [claimed] = deliverer.claim(10)
    deliverer.deliver(claimed)
    document = json.loads(receiver.received[0].body)
    assert document["title"] == f"{job.name} is paused"
    assert f"https://a.example/#/jobs/{job.id}" in document["message"]


def test_a_private_address_is_refused_when_the_connection_is_made(receiver):
    """Also for localhost, a name: what counts is what it resolves to at that moment."""
    for host in ("127.0.0.1", "localhost"):
        url = f"json://{host}:{receiver.port}/hook"
        error = send_to_service(url, "title", "text", AddressPolicy(), SCHEMES)
        assert "Expected a public address" in error
    assert receiver.received == []


def test_a_redirect_of_a_service_is_not_followed(receiver):
    receiver.answer = answer_with(307, Location=f"http://127.0.0.1:{receiver.port}/elsewhere")
    url = f"json://127.0.0.1:{receiver.port}/hook"
    assert send_to_service(url, "title", "text", LOOPBACK, SCHEMES) is not None
    assert {request.path for request in receiver.received} == {"/hook"}


def test_an_answer_of_500_is_an_error_with_its_reason(receiver):
    receiver.answer = answer_with(500)
    error = send_to_service(
        f"json://127.0.0.1:{receiver.port}/", "title", "text", LOOPBACK, SCHEMES
    )
    assert "500" in error


def test_addresses_are_checked_without_a_connection():
    webhook = "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
    assert address_error(webhook, SERVICES) is None
    assert address_error("slack://x", SERVICES).startswith("Expected a complete address")
    assert "that the server allows" in address_error("json://127.0.0.1/", SERVICES)


def test_an_email_goes_through_the_server_of_the_operator():
    lines, port, thread = smtp_server()
    smtp_url = f"mailto://127.0.0.1:{port}?from=ampcore@example.com"
    assert send_email(smtp_url, "ann@example.com", "resnet failed", "Out of memory.") is None
    join(thread)
    assert any("<ann@example.com>" in line and line[:4].upper() == "RCPT" for line in lines)
    assert any("resnet failed" in line for line in lines)


def smtp_server():
    """A mail server for one message: the lines that it received, its port and its thread."""
    lines = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listener.accept()
        with connection, connection.makefile("rwb") as stream, listener:

            def reply(text):
                stream.write(text + b"\r\n")
                stream.flush()

            reply(b"220 ready")
            is_data = False
            while line := stream.readline():
                lines.append(line.decode().rstrip("\r\n"))
                if is_data:
                    is_data = lines[-1] != "."
                    if not is_data:
                        reply(b"250 stored")
                elif lines[-1].upper() == "DATA":
                    is_data = True
                    reply(b"354 go on")
                elif lines[-1].upper() == "QUIT":
                    reply(b"221 bye")
                    return
                else:
                    reply(b"250 ok")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return lines, listener.getsockname()[1], thread
