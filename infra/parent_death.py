"""End a process when its parent ends (Linux).

Source: prctl(2), PR_SET_PDEATHSIG.
"""

import ctypes
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h


def die_with_parent() -> None:
    """Ask Linux to kill this process when the thread that started it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
