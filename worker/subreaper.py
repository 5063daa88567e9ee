"""Adopt the orphans of our trainers, so that a group can be seen to be gone.

Source: Linux, prctl(2), PR_SET_CHILD_SUBREAPER.
"""

import ctypes
import sys
from typing import Final

PR_SET_CHILD_SUBREAPER: Final = 36  # linux/prctl.h


def adopt_orphans() -> None:
    """What a dead trainer has left becomes this process's child; elsewhere it is the system's."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
