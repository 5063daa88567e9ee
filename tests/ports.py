"""Ports that a test may leave and come back to."""

import random
import socket
from pathlib import Path

GIVEN = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST = 10_000


def free_port() -> int:
    """A port of 127.0.0.1 that is free, and that the system gives to nobody.

    Who names no port, as every client, gets one of a range of the system's: one of those could be
    another program's before the test uses it, or while its server restarts.
    """
    first_given = int(GIVEN.read_text().split()[0]) if GIVEN.exists() else 32_768
    while True:
        port = random.SystemRandom().randrange(LOWEST, first_given)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:  # somebody has it
            continue
