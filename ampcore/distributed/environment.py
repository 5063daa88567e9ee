"""The environment variables of a rank: which rank it is, and how many threads it may use."""

import json
import os
from collections.abc import Mapping
from typing import Final

from ampcore.distributed.cluster import Cluster

CLUSTER: Final = "AMPCORE_CLUSTER"
"""The JSON of this rank's Cluster."""

ADDRESS_IN_USE: Final = 75
"""The exit code of a rank whose port is in use, EX_TEMPFAIL of sysexits.h: the launcher then
starts all ranks again with other ports."""

THREADS: Final = ("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS")
"""Read by TensorFlow, and by the libraries that it calls, when they start."""
INTER_OP_THREADS: Final = "TF_NUM_INTEROP_THREADS"
"""How many operations TensorFlow runs at the same time; its default is the number of cores."""


def cluster() -> Cluster | None:
    """The cluster that our launcher set; None without it. Raises ValueError."""
    text = os.environ.get(CLUSTER)
    if text is None:
        return None
    try:
        return Cluster.from_json(text)
    except ValueError as error:
        raise ValueError(f"{CLUSTER}: {error}") from None


def of_rank(cluster: Cluster, threads: int) -> Mapping[str, str]:
    """The variables of a rank that computes with so many threads on a CPU."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2")}
    text = json.dumps(cluster.to_json())
    inter_op = inter_op_threads(threads, os.environ)
    return {CLUSTER: text, **dict.fromkeys(THREADS, str(threads)), **inter_op, **quiet}


def inter_op_threads(threads: int, environ: Mapping[str, str]) -> Mapping[str, str]:
    """A second thread for operations, if a rank computes with one and its user has set none.

    The only thread would take the newest operation that is ready: an exchange would wait until the
    last gradient is computed.
    """
    return {INTER_OP_THREADS: "2"} if threads == 1 and INTER_OP_THREADS not in environ else {}
