"""The ranks that TF_CONFIG names, as TensorFlow's strategies and Kubeflow's TFJob set it."""

import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from ampcore.distributed.cluster import Cluster
from ampcore.distributed.launchers.placement import alone_hint

TF_CONFIG: Final = "TF_CONFIG"

_TRAINING_TASKS: Final = ("chief", "master", "worker")
"""The tasks that train, in order of rank."""


def cluster_of_tf_config(environ: Mapping[str, str], timeout_s: float) -> Cluster | None:
    """The ranks that TF_CONFIG names; None without it, or for one worker.

    Args:
        environ: The variables of this process.
        timeout_s: That of the cluster.

    Raises:
        ValueError: It cannot be used; the message names the field.
    """
    text = environ.get(TF_CONFIG)
    if not text:
        return None
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{TF_CONFIG}: expected JSON; received {error}.") from None
    config = _object(document, "")
    if "sparseCluster" in config:  # TFJob with enableDynamicWorker
        _refuse("cluster", f"the addresses of all workers, {alone_hint()}", "sparseCluster")
    tasks = _object(config.get("cluster") or {}, "cluster")
    task = _object(config.get("task") or {}, "task")
    if "ps" in tasks:
        _refuse("cluster.ps", "workers that train together", "parameter servers")
    addresses = {name: _addresses(tasks[name], name) for name in _TRAINING_TASKS if name in tasks}
    count = sum(map(len, addresses.values()))
    if count <= 1 and task.get("index", 0) in (0, "0"):
        return None
    return _cluster(addresses, task, timeout_s)


def _cluster(
    addresses: Mapping[str, list[str]], task: Mapping[str, Any], timeout_s: float
) -> Cluster:
    name, index = str(task.get("type")), task.get("index", 0)
    if name not in addresses:
        expected = f"one of {', '.join(addresses)}, whose addresses are in cluster, {alone_hint()}"
        _refuse("task.type", expected, repr(name))
    if isinstance(index, str) and index.isdigit():
        index = int(index)
    count = len(addresses[name])
    if type(index) is not int or not 0 <= index < count:
        _refuse("task.index", f"an integer from 0 to {count - 1}", repr(task.get("index")))
    tasks_before = list(addresses)[: list(addresses).index(name)]
    rank = sum(len(addresses[task_name]) for task_name in tasks_before) + index
    of_ranks = tuple(address for of_task in addresses.values() for address in of_task)
    host = _host(of_ranks[rank])
    local_rank = [_host(address) for address in of_ranks[:rank]].count(host)
    try:
        return Cluster(of_ranks, rank, local_rank, timeout_s)
    except ValueError as error:
        raise ValueError(f"{TF_CONFIG}: {error}") from None


def _addresses(value: object, name: str) -> list[str]:
    """The addresses of a task: a list, or an object by number as of tf.train.ClusterSpec."""
    if isinstance(value, Mapping):
        by_number = {str(number): address for number, address in value.items()}
        numbers = [str(number) for number in range(len(value))]
        if by_number.keys() != set(numbers):
            _refuse(f"cluster.{name}", f"the numbers {', '.join(numbers)}", ", ".join(by_number))
        return [by_number[number] for number in numbers]
    if not isinstance(value, list):
        _refuse(f"cluster.{name}", "a list of addresses", type(value).__name__)
    return value


def _object(value: object, field: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        _refuse(field, "an object", type(value).__name__)
    return value


def _host(address: object) -> str:
    return str(address).rpartition(":")[0]


def _refuse(field: str, expected: str, received: str) -> NoReturn:
    place = f"{TF_CONFIG}.{field}" if field else TF_CONFIG
    raise ValueError(f"{place}: expected {expected}; received {received}.")
