"""A port that listens on all interfaces is closed to other machines."""

import socket
import subprocess
import sys
import threading

import pytest

from ampcore.distributed.control.loopback import close_to_other_machines
from tests.machines import connect, created_machine, working_on
from tests.waiting import DEADLINE_S, join

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux binds sockets to devices"
)
SERVER = """
import socket
from ampcore.distributed import connection
from ampcore.distributed.cluster import Cluster
with socket.socket() as probe:
    probe.bind(("", 0))
    port = probe.getsockname()[1]
connection._start_server(Cluster((f"127.0.0.1:{port}", "127.0.0.1:1"), 0))
from ampcore.distributed.control.loopback import DEVICE, _listeners
devices = [
    listener.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
    for listener in _listeners(port)
]
print(bool(devices) and all(device == DEVICE for device in devices), flush=True)
"""


@pytest.mark.needs("network namespaces")
def test_only_this_machine_reaches_a_closed_port():
    with created_machine("lo-a") as own, created_machine("lo-b") as other:
        connect(own, "10.200.0.1", other, "10.200.0.2")
        with working_on(own):
            listener = socket.create_server(("", 0))
        with listener:
            port = listener.getsockname()[1]
            assert reaches(other, "10.200.0.1", port)
            assert close_to_other_machines(port)
            assert not reaches(other, "10.200.0.1", port)
            assert reaches(own, "127.0.0.1", port)


def reaches(machine, host, port):
    """Whether a process on a machine connects to the port."""
    found = []

    def try_to_connect():
        with working_on(machine):
            try:
                socket.create_connection((host, port), DEADLINE_S).close()
                found.append(True)
            except ConnectionRefusedError:
                found.append(False)

    thread = threading.Thread(target=try_to_connect)
    thread.start()
    join(thread)
    return found == [True]


def test_a_port_that_this_process_does_not_listen_on_is_not_closed():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert not close_to_other_machines(bound.getsockname()[1])


@pytest.mark.slow
def test_the_server_of_tensorflow_is_closed_to_other_machines_if_all_ranks_are_on_this_one():
    done = subprocess.run(
        [sys.executable, "-c", SERVER],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.stdout.strip() == "True", done.stderr
