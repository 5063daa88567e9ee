"""Landlock: a process irrevocably restricts its access to files, signals and connections.

Processes and threads that it starts later are restricted too; existing threads are not, so this
runs before TensorFlow starts any. A restricted process cannot trace a process outside of its
restriction, or read that process's memory and environment.

Source: Linux, landlock(7) and include/uapi/linux/landlock.h.
"""

import ctypes
import os
import platform
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

CREATE_RULESET: Final = 444
ADD_RULE: Final = 445
RESTRICT_SELF: Final = 446
"""System call numbers, equal on every architecture but Alpha."""
CREATE_RULESET_VERSION: Final = 1
RULE_PATH_BENEATH: Final = 1
RULE_NET_PORT: Final = 2

EXECUTE: Final = 1 << 0
WRITE_FILE: Final = 1 << 1
READ_FILE: Final = 1 << 2
READ_DIR: Final = 1 << 3
REMOVE_DIR: Final = 1 << 4
REMOVE_FILE: Final = 1 << 5
MAKE_DIR: Final = 1 << 7
MAKE_REG: Final = 1 << 8
REFER: Final = 1 << 13
TRUNCATE: Final = 1 << 14
IOCTL_DEV: Final = 1 << 15

FILE_RIGHTS_BY_ABI: Final = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""The file rights that each ABI version adds."""
SINGLE_FILE_RIGHTS: Final = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""The rights that a rule for anything but a folder may give."""

READ: Final = EXECUTE | READ_FILE | READ_DIR
USE: Final = READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | IOCTL_DEV
"""The rights for devices and for the process's own files in /proc."""
WRITE: Final = (
    READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | REFER
    | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG
)  # fmt: skip
"""The rights in the trainer's own folder: no execution, links, pipes, sockets or devices."""

TCP_ABI: Final = 4
ALL_TCP: Final = 0b11  # bind, connect
SCOPES_ABI: Final = 6
ALL_SCOPES: Final = 0b11  # abstract sockets, signals

NO_NEW_PRIVILEGES: Final = 38  # linux/prctl.h, PR_SET_NO_NEW_PRIVS


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


class _NetPort(ctypes.Structure):
    _fields_ = (("allowed_access", ctypes.c_uint64), ("port", ctypes.c_uint64))


def abi() -> int:
    """The ABI version of this kernel; 0 without Landlock."""
    if sys.platform != "linux" or platform.machine() == "alpha":
        return 0
    try:
        return _call(CREATE_RULESET, None, 0, CREATE_RULESET_VERSION)
    except OSError:  # not built in, disabled, or blocked by a seccomp filter
        return 0


def restrict(
    readable: Iterable[Path],
    usable: Iterable[Path],
    writable: Iterable[Path],
    *,
    tcp_ports: Iterable[int] | None = (),
) -> None:
    """Restrict this thread, and all that it starts, to these files and folders.

    Where the kernel supports it, TCP is forbidden but for listening on `tcp_ports` and connecting
    to them (None: all), and so are signals and connections to abstract sockets outside of the
    restriction. Paths that do not exist are left out. Raises OSError.
    """
    version = abi()
    files = max(rights for since, rights in FILE_RIGHTS_BY_ABI.items() if since <= version)
    ruleset_attributes = _Ruleset(
        handled_access_fs=files,
        handled_access_net=ALL_TCP if version >= TCP_ABI and tcp_ports is not None else 0,
        scoped=ALL_SCOPES if version >= SCOPES_ABI else 0,
    )
    attributes_size = 24 if version >= SCOPES_ABI else 16 if version >= TCP_ABI else 8
    ruleset = _call(CREATE_RULESET, ctypes.byref(ruleset_attributes), attributes_size, 0)
    try:
        for paths, rights in ((readable, READ), (usable, USE), (writable, WRITE)):
            for path in paths:
                _allow(ruleset, path, rights & files)
        for port in (tcp_ports or ()) if version >= TCP_ABI else ():
            rule = _NetPort(allowed_access=ALL_TCP, port=port)
            _call(ADD_RULE, ruleset, RULE_NET_PORT, ctypes.byref(rule), 0)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0):
            raise _error()
        _call(RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # missing or not accessible for this user: nothing to allow
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= SINGLE_FILE_RIGHTS
        rule = _PathBeneath(allowed_access=rights, parent_fd=descriptor)
        _call(ADD_RULE, ruleset, RULE_PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(descriptor)


def _call(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    converted = [
        ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments
    ]
    result = int(libc.syscall(ctypes.c_long(number), *converted))
    if result < 0:
        raise _error()
    return result


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
