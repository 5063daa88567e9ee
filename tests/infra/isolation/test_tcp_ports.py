"""Landlock's rules about TCP: a rank uses the ports of its cluster and no others."""

import json
import socket
import subprocess
import sys

import pytest

from tests.waiting import DEADLINE_S

PROGRAM = """
import json, socket, sys
from pathlib import Path
from infra.isolation import landlock

import encodings.idna
allowed, others = json.loads(sys.argv[1])
landlock.restrict([Path("/")], [], [], tcp_ports=allowed)
found = []
for port in others:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
        found.append("connected")
    except ConnectionRefusedError:
        found.append("refused")
    except PermissionError:
        found.append("denied")
    try:
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(("127.0.0.1", port))
        found.append("bound")
    except PermissionError:
        found.append("denied")
    except OSError:
        found.append("in use")
print(json.dumps(found))
"""


@pytest.mark.needs("landlock for TCP")
@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        ("first", ["connected", "in use", "denied", "denied"]),
        ("none", ["denied", "denied"] * 2),
        ("all", ["connected", "in use"] * 2),
    ],
)
def test_a_process_uses_only_the_allowed_ports(allowed: str, expected: list[str]) -> None:
    """Checked: without the rules the second port can be reached; with none, not even the first."""
    with (
        socket.create_server(("127.0.0.1", 0)) as first,
        socket.create_server(("127.0.0.1", 0)) as second,
    ):
        ports = [server.getsockname()[1] for server in (first, second)]
        allowed_ports = {"first": ports[:1], "none": [], "all": None}[allowed]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps([allowed_ports, ports])],
            capture_output=True,
            text=True,
            check=True,
            timeout=DEADLINE_S,
        )
    assert json.loads(done.stdout) == expected
