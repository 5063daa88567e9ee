"""What the ranks of a job must agree on: its settings, the state it starts from, and its weights.

A difference ends the attempt: the ranks would train different models, or wait for each other.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ampcore.checkpoint import Checkpoint, Manifest
from ampcore.checkpoint.saver import versions
from ampcore.checkpoint.state import Arrays
from ampcore.distributed import Communicator
from ampcore.distributed.arrays import broadcast_arrays
from ampcore.distributed.tables.whole_tables import OwnRows
from ampcore.training.context import RunContext
from ampcore.training.step.step_runner import StepRunner
from ampspec.documents.text import join_names
from ampspec.errors import IncompatibleCheckpoint, InvalidModel, RanksDiffer
from ampspec.training.run import RunSpec, micro_batches


def check_rank_count(spec: RunSpec, size: int) -> None:
    """Raise InvalidModel if the job cannot be trained by so many ranks."""
    possible = spec.runtime.possible_ranks(spec.train.accumulate)
    if size in possible:
        return
    if spec.runtime.elastic is not None:
        expected = f"one of {join_names(possible)} ranks, which divide {micro_batches(spec)}"
        raise InvalidModel("runtime.elastic", expected=expected, received=str(size))
    if size > 1:
        expected = f"workers × devices = {size}, the number of ranks that were started"
        raise InvalidModel("runtime.devices", expected=expected, received=str(spec.runtime.ranks))
    raise InvalidModel(
        "runtime.devices",
        expected=f"{spec.runtime.ranks} ranks (workers × devices); start them with "
        "`python -m ampcore launch`",
        received=str(size),
    )


def check_equal_settings(communicator: Communicator, context: RunContext) -> None:
    """Raise RanksDiffer if the ranks have other settings, versions or numbers of examples."""
    if communicator.size == 1:
        return
    spec = json.dumps(context.job.spec.to_json(), sort_keys=True)
    settings = {
        "the spec": hashlib.sha256(spec.encode()).hexdigest(),
        "the versions of libraries": versions(),
        "the number of steps": [context.plan.total_steps, context.plan.steps_per_epoch],
        "the kind of the device": context.device.kind,
    }
    settings_by_rank = communicator.all_gather_object(settings)
    for name, value in settings_by_rank[0].items():
        differing = [
            rank for rank, of_rank in enumerate(settings_by_rank) if of_rank[name] != value
        ]
        if differing:
            shown = (
                ""
                if name == "the spec"
                else f": {value} and {settings_by_rank[differing[0]][name]}"
            )
            raise RanksDiffer(
                f"{_names(differing)} cannot train with rank 0: {name} differs{shown}."
            )


def share_checkpoint(communicator: Communicator, saved: Checkpoint | None) -> Checkpoint | None:
    """The checkpoint that rank 0 has read, on every rank; of others than rank 0 without arrays."""
    if communicator.size == 1:
        return saved
    text = communicator.broadcast_object(saved and saved.manifest.model_dump_json())
    if text is None or saved is not None:
        return saved
    return Checkpoint(Manifest.model_validate_json(text), {})


def share_arrays(runner: StepRunner, saved: Checkpoint) -> Checkpoint:
    """The checkpoint with the arrays of rank 0, on every rank those of its own runner.

    Of tables whose rows are on several ranks it may have `OwnRows`, which all ranks must receive.
    """
    communicator = runner.communicator
    if communicator.size == 1:
        return saved
    is_leader = communicator.rank == 0
    shared_states: list[Arrays | None] = []
    for arrays in (saved.good_arrays, saved.best_arrays):
        if communicator.broadcast_object(arrays is not None):
            arrays_of_state = _share(runner, arrays or {} if is_leader else None)
            shared_states.append(_with_received_rows(arrays_of_state))
        else:
            shared_states.append(None)
    good_arrays, best_arrays = shared_states
    shared = _share(runner, saved.arrays if is_leader else None)
    # Rows arrive while they are assigned, unless they are changed before.
    expected = runner.state.expected_arrays()
    changed = {
        name: rows
        for name, rows in shared.items()
        if isinstance(rows, OwnRows) and rows.dtype != np.dtype(expected[name][1])
    }
    return Checkpoint(
        saved.manifest, shared | _with_received_rows(changed), good_arrays, best_arrays
    )


def _with_received_rows(arrays: Mapping[str, Any]) -> Arrays:
    return {
        name: array.receive() if isinstance(array, OwnRows) else array
        for name, array in arrays.items()
    }


def _share(runner: StepRunner, arrays: Arrays | None) -> dict[str, Any]:
    """The arrays of rank 0; of tables whose rows are on several ranks the `OwnRows` of this one."""
    communicator, shards = runner.communicator, runner.tables.shards
    whole = None if arrays is None else {n: a for n, a in arrays.items() if n not in shards}
    shared: dict[str, Any] = broadcast_arrays(communicator, whole)
    tables = {name: array for name, array in (arrays or {}).items() if name in shards}
    header = communicator.broadcast_object(
        [[name, array.dtype.name, list(array.shape)] for name, array in tables.items()]
    )
    for name, dtype, (rows, *row_shape) in header:
        shard = shards[name]
        if rows != shard.rows:
            raise IncompatibleCheckpoint(
                f"The checkpoint does not match this job: {name} has {rows} rows instead of "
                f"{shard.rows}."
            )
        like = np.empty((0, *row_shape), tf.as_dtype(dtype).as_numpy_dtype)
        shared[name] = OwnRows(communicator, shard, tables.get(name), like)
    return shared


def share_state(runner: StepRunner) -> None:
    """Give every rank the variables and loss scales of rank 0; rows of tables are its own."""
    communicator = runner.communicator
    if communicator.size > 1:
        arrays = runner.state.capture_common() if communicator.rank == 0 else None
        runner.state.restore_common(broadcast_arrays(communicator, arrays))


def check_equal_state(runner: StepRunner, step: int) -> None:
    """Raise RanksDiffer if weights, optimizer or loss scales differ before `step`.

    Statistics that each rank keeps for itself are left out, and so are the rows of tables that it
    owns.
    """
    communicator = runner.communicator
    if communicator.size == 1:
        return
    digests = communicator.all_gather_object(_digest(runner))
    differing = [rank for rank, digest in enumerate(digests) if digest != digests[0]]
    if differing:
        raise RanksDiffer(
            f"Before step {step} {_names(differing)} did not have the weights, optimizer state or "
            "loss scale of rank 0. Check the memory and the processor of these machines, and that "
            "custom code computes the same on all of them."
        )


def _digest(runner: StepRunner) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(_compared(runner).items()):
        digest.update(name.encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _compared(runner: StepRunner) -> Arrays:
    arrays = runner.state.capture_common()
    if runner.train_step.exchange.batch_norm != "local":
        return arrays
    local_statistics = set(runner.state.statistic_names())
    return {name: array for name, array in arrays.items() if name not in local_statistics}


def _names(ranks: Sequence[int]) -> str:
    return join_names([f"rank {rank}" for rank in ranks])
