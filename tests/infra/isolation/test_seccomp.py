"""The filter of system calls, applied to a real process."""

import json
import subprocess
import sys
import textwrap

import pytest

from infra.isolation import seccomp

needs_seccomp = pytest.mark.needs("seccomp")


def run_filtered(body: str) -> object:
    """What the code assigns to `found`, in a process with the filter."""
    code = f"""
import ctypes, errno, json, os, platform, socket, sys, threading
from infra.isolation import seccomp
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def error_of(number, *arguments):
    if libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)) >= 0:
        return None
    return errno.errorcode[ctypes.get_errno()]
here = list(seccomp.ARCHITECTURES).index(platform.machine())
seccomp.restrict()
{textwrap.dedent(body)}
print(json.dumps(found))
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@needs_seccomp
def test_each_denied_call_fails() -> None:
    errors = run_filtered(
        """
        numbers = {name: both[here] for name, both in seccomp.DENIED.items()}
        found = {name: error_of(number, -1, -1, -1) for name, number in numbers.items()
                 if number is not None}
        """
    )
    assert isinstance(errors, dict)
    assert errors.keys() >= {"ptrace", "unshare", "mount", "bpf", "io_uring_setup", "connect"}
    assert set(errors.values()) == {"EPERM"}


@needs_seccomp
@pytest.mark.parametrize("flag", ["CLONE_NEWUSER", "CLONE_NEWNS", "CLONE_NEWPID", "CLONE_NEWNET"])
def test_a_new_process_gets_no_new_namespace(flag: str) -> None:
    flags = {
        "CLONE_NEWUSER": 0x10000000,
        "CLONE_NEWNS": 0x20000,
        "CLONE_NEWPID": 0x20000000,
        "CLONE_NEWNET": 0x40000000,
    }
    assert run_filtered(f"found = error_of(seccomp.CLONE[here], {flags[flag]} | 17, 0)") == "EPERM"


@needs_seccomp
def test_clone3_looks_missing_so_that_the_c_library_uses_clone() -> None:
    assert run_filtered("found = error_of(seccomp.CLONE3[here], 0, 0)") == "ENOSYS"


@needs_seccomp
@pytest.mark.parametrize(
    ("family", "kind", "is_allowed"),
    [
        ("AF_UNIX", "SOCK_SEQPACKET", True),
        ("AF_UNIX", "SOCK_STREAM", False),
        ("AF_UNIX", "SOCK_DGRAM", False),
        ("AF_INET", "SOCK_STREAM", False),
        ("AF_INET", "SOCK_SEQPACKET", False),
        ("AF_INET6", "SOCK_DGRAM", False),
        ("AF_NETLINK", "SOCK_RAW", False),
        ("AF_VSOCK", "SOCK_STREAM", False),
    ],
)
def test_only_sockets_that_reach_nobody_can_be_made(
    family: str, kind: str, is_allowed: bool
) -> None:
    for flags in ("0", "socket.SOCK_CLOEXEC", "socket.SOCK_NONBLOCK"):
        error = run_filtered(
            f"found = error_of(seccomp.SOCKET[here], socket.{family}, socket.{kind} | {flags}, 0)"
        )
        assert (error is None) == is_allowed
        assert is_allowed or error == "EPERM"


@needs_seccomp
def test_pairs_of_sockets_can_be_connected_except_for_datagrams() -> None:
    results = run_filtered(
        """
        found = []
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
            try:
                socket.socketpair(socket.AF_UNIX, kind)
                found.append(True)
            except PermissionError:
                found.append(False)
        """
    )
    assert results == [True, True, False]


@needs_seccomp
def test_buffers_of_sockets_cannot_be_enlarged_and_other_options_be_set() -> None:
    results = run_filtered(
        """
        found = []
        here, there = socket.socketpair()
        for level, option in (
            (socket.SOL_SOCKET, socket.SO_SNDBUF),
            (socket.SOL_SOCKET, socket.SO_RCVBUF),
            (socket.SOL_SOCKET, 32),
            (socket.SOL_SOCKET, 33),
            (socket.SOL_SOCKET, socket.SO_REUSEADDR),
            (socket.SOL_SOCKET, socket.SO_PASSCRED),
        ):
            try:
                here.setsockopt(level, option, 2**20)
                found.append(True)
            except PermissionError:
                found.append(False)
        """
    )
    assert results == [False, False, False, False, True, True]


@needs_seccomp
def test_threads_processes_and_programs_can_be_started() -> None:
    results = run_filtered(
        """
        import subprocess
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
        pid = os.fork()
        if pid == 0:
            os._exit(3)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        found = [code, subprocess.run(["/bin/true"]).returncode]
        """
    )
    assert results == [3, 0]


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_no_jump_of_the_filter_leaves_it(machine: str) -> None:
    program = seccomp.build(machine)
    jumps = {seccomp.IF_EQUAL, seccomp.IF_AT_LEAST, seccomp.IF_ANY_BIT}
    for place, (code, if_true, if_false, _) in enumerate(program):
        assert code not in jumps or place + 1 + max(if_true, if_false) < len(program)
    assert program[-1] == (seccomp.RETURN, 0, 0, seccomp.ALLOW)


def test_other_architectures_are_not_supported() -> None:
    assert not seccomp.is_supported("riscv64")
