"""Closes a listening port of this process to other machines.

TensorFlow's server listens on all interfaces, whatever its address is. Once a socket is bound to
the loopback device, the kernel gives it only what comes from this machine.

Source: Linux, socket(7), SO_BINDTODEVICE; without privileges since Linux 5.7.
"""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

DEVICE: Final = b"lo\0"


def close_to_other_machines(port: int) -> bool:
    """Let only this machine connect to a port that this process listens on.

    Returns whether every listening socket of the port is closed to others now.
    """
    if sys.platform != "linux":
        return False
    closed = [_bind_to_loopback(listener) for listener in _listeners(port)]
    return bool(closed) and all(closed)


def _listeners(port: int) -> Iterator[socket.socket]:
    """The sockets of this process that listen on a TCP port, as duplicates."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as duplicate:
                is_tcp = duplicate.family in (socket.AF_INET, socket.AF_INET6)
                is_listening = duplicate.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                if is_tcp and is_listening and duplicate.getsockname()[1] == port:
                    yield duplicate


def _bind_to_loopback(listener: socket.socket) -> bool:
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, DEVICE)
    except OSError:
        return False
    return True
