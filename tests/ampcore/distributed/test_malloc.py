"""Freed memory stays in the process: using it again causes no page faults."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import ctypes, resource
from ampcore.distributed.malloc import keep_freed_memory

keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]

def use_blocks():
    blocks = [libc.malloc(4 * 2**20) for _ in range(4)]
    for block in blocks:
        ctypes.memset(block, 1, 4 * 2**20)
    for block in blocks:
        libc.free(block)

use_blocks()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    use_blocks()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_blocks_of_a_message_are_used_again_without_page_faults():
    """Checked: without `keep_freed_memory` there are 81,000 page faults."""
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert int(found.stdout) < 1000
