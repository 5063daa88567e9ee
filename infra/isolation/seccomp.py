"""seccomp: a process irrevocably gives up system calls that no training job needs.

The filter is a program for the kernel's classic BPF. It applies to all later processes, too.

Sources: Linux, seccomp(2); include/uapi/linux/seccomp.h, filter.h and audit.h. The numbers are from
arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
"""

import ctypes
import errno
import os
import platform
import socket
import sys
from collections.abc import Iterable, Sequence
from typing import Final

# fmt: off
DENIED: Final[dict[str, tuple[int, int | None]]] = {
    # Processes and memory of others.
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "kcmp": (312, 272), "pidfd_getfd": (438, 438),
    "perf_event_open": (298, 241),
    # Namespaces and mounts.
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "move_mount": (429, 429), "open_tree": (428, 428), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "pivot_root": (155, 41), "chroot": (161, 51), "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    # Connections. `socket` and `socketpair` have rules of their own.
    "connect": (42, 203),
    # Memory that no limit counts, or that remains when the process ends.
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "shmat": (30, 196),
    "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
    # Large and rarely used parts of the kernel.
    "bpf": (321, 280), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "fanotify_init": (300, 262),
    "personality": (135, 92), "quotactl": (179, 60), "quotactl_fd": (443, 443), "acct": (163, 89),
    "syslog": (103, 116), "modify_ldt": (154, None), "uselib": (134, None),
    # The machine.
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171),
    "sethostname": (170, 161), "setdomainname": (171, 162), "iopl": (172, None),
    "ioperm": (173, None),
}
"""System calls that fail with EPERM, with their numbers on x86-64 and on ARM64."""
# fmt: on
SOCKET: Final = (41, 198)
SOCKETPAIR: Final = (53, 199)
SETSOCKOPT: Final = (54, 208)
BUFFER_SIZES: Final = (7, 8, 32, 33)
"""SO_SNDBUF, SO_RCVBUF, SO_SNDBUFFORCE and SO_RCVBUFFORCE (asm-generic/socket.h): buffers are
memory of the kernel, which no limit of a process counts."""
CLONE: Final = (56, 220)
CLONE3: Final = (435, 435)
NEW_NAMESPACES: Final = 0x7E020080
"""The flags of clone(2) that make a namespace: CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER,
NEWPID, NEWNET and NEWTIME."""

ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # linux/audit.h
X32_CALLS: Final = 0x40000000
"""The second set of system calls of x86-64 begins here; it would evade the numbers above."""

NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16
"""Offsets in struct seccomp_data; an argument has 8 bytes, of which the low 4 come first."""
LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
AND: Final = 0x54  # BPF_ALU | BPF_AND | BPF_K
IF_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
IF_AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
IF_ANY_BIT: Final = 0x45  # BPF_JMP | BPF_JSET | BPF_K
RETURN: Final = 0x06  # BPF_RET | BPF_K
ALLOW: Final = 0x7FFF0000
FAIL: Final = 0x00050000
KILL: Final = 0x80000000

NO_NEW_PRIVILEGES: Final = 38  # linux/prctl.h
GET_SECCOMP: Final = 21
SET_SECCOMP: Final = 22
MODE_FILTER: Final = 2

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, operand; a jump counts the instructions that it skips."""


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("jt", ctypes.c_uint8),
        ("jf", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


def is_supported(machine: str | None = None) -> bool:
    """Whether this kernel filters system calls, and this architecture's numbers are known."""
    if sys.platform != "linux" or (machine or platform.machine()) not in ARCHITECTURES:
        return False
    return int(ctypes.CDLL(None).prctl(GET_SECCOMP, 0, 0, 0, 0)) >= 0


def restrict() -> None:
    """Apply the filter to this thread and all that it starts. Raises OSError."""
    program = build(platform.machine())
    array = (_Instruction * len(program))(*(_Instruction(*instruction) for instruction in program))
    filter_program = _Program(len(program), array)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(
        SET_SECCOMP, MODE_FILTER, ctypes.byref(filter_program), 0, 0
    ):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def build(machine: str) -> list[Instruction]:
    """The filter's program for an architecture of `ARCHITECTURES`."""
    index = list(ARCHITECTURES).index(machine)
    numbers = [row[index] for row in DENIED.values()]
    return [
        (LOAD, 0, 0, ARCHITECTURE_AT),
        (IF_EQUAL, 1, 0, ARCHITECTURES[machine]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER_AT),
        (IF_AT_LEAST, 0, 1, X32_CALLS),
        _fail(errno.ENOSYS),
        *_deny(number for number in numbers if number is not None),
        # The flags of clone3 lie behind a pointer. The C library uses clone where there is
        # no clone3.
        (IF_EQUAL, 0, 1, CLONE3[index]),
        _fail(errno.ENOSYS),
        *_rule_for(
            CLONE[index],
            [(LOAD, 0, 0, _argument(0)), (IF_ANY_BIT, 0, 1, NEW_NAMESPACES), _fail(errno.EPERM)],
        ),
        # CUDA opens such a socket for its own processes; without `connect` it reaches nobody.
        *_rule_for(
            SOCKET[index],
            [*_allow_only(0, [socket.AF_UNIX]), *_allow_only(1, [socket.SOCK_SEQPACKET], 0xF)],
        ),
        # A datagram socket of a pair can send to any address.
        *_rule_for(
            SOCKETPAIR[index],
            [
                *_allow_only(0, [socket.AF_UNIX]),
                *_allow_only(1, [socket.SOCK_STREAM, socket.SOCK_SEQPACKET], 0xF),
            ],
        ),
        *_rule_for(SETSOCKOPT[index], _deny_option(socket.SOL_SOCKET, BUFFER_SIZES)),
        (RETURN, 0, 0, ALLOW),
    ]


def _deny(numbers: Iterable[int]) -> list[Instruction]:
    rules = [((IF_EQUAL, 0, 1, number), _fail(errno.EPERM)) for number in numbers]
    return [instruction for rule in rules for instruction in rule]


def _rule_for(number: int, rule: list[Instruction]) -> list[Instruction]:
    """Apply a rule to one system call; a call that passes the rule is allowed."""
    return [(IF_EQUAL, 0, len(rule) + 1, number), *rule, (RETURN, 0, 0, ALLOW)]


def _allow_only(argument: int, values: list[int], mask: int = 0xFFFFFFFF) -> list[Instruction]:
    """Fail unless an argument, masked, is one of the values."""
    tests = [(IF_EQUAL, len(values) - place, 0, int(value)) for place, value in enumerate(values)]
    return [(LOAD, 0, 0, _argument(argument)), (AND, 0, 0, mask), *tests, _fail(errno.EPERM)]


def _deny_option(level: int, options: Sequence[int]) -> list[Instruction]:
    """Fail if the call sets one of these options of a level."""
    count = len(options)
    tests = [
        (IF_EQUAL, count - place - 1, 1 if place == count - 1 else 0, option)
        for place, option in enumerate(options)
    ]
    return [
        (LOAD, 0, 0, _argument(1)),
        (IF_EQUAL, 0, count + 2, level),
        (LOAD, 0, 0, _argument(2)),
        *tests,
        _fail(errno.EPERM),
    ]


def _argument(index: int) -> int:
    return ARGUMENTS_AT + 8 * index


def _fail(number: int) -> Instruction:
    return RETURN, 0, 0, FAIL | number
