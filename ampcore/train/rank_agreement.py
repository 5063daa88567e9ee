"""What the ranks of a job must agree on: its settings, the state it starts from, and its weights.

A difference ends the attempt: the ranks would train different models, or wait for each other.
"""

import hashlib
import json
from collections.abc import Sequence

from ampcore.checkpoint import Checkpoint, Manifest
from ampcore.checkpoint.saver import versions
from ampcore.checkpoint.state import Arrays
from ampcore.distributed import Replicas
from ampcore.distributed.arrays import broadcast_arrays
from ampcore.errors import InvalidModel, RanksDiffer
from ampcore.spec.run import RunSpec, micro_batches
from ampcore.spec.text import join_names
from ampcore.train.run_context import RunContext
from ampcore.train.session import Session


def check_rank_count(spec: RunSpec, size: int) -> None:
    """Raise InvalidModel if the job cannot be trained by so many ranks."""
    possible = spec.runtime.possible_ranks(spec.train.accumulate)
    if size in possible:
        return
    if spec.runtime.elastic is not None:
        expected = f"one of {join_names(possible)} ranks, which divide {micro_batches(spec)}"
        raise InvalidModel("runtime.elastic", expected=expected, received=str(size))
    raise InvalidModel(
        "runtime.devices",
        expected=f"{spec.runtime.ranks} ranks (workers × devices); start them with "
        "`python -m ampcore launch`",
        received=str(size),
    )


def check_equal_settings(replicas: Replicas, context: RunContext) -> None:
    """Raise RanksDiffer if the ranks have other settings, versions or numbers of examples."""
    if replicas.size == 1:
        return
    spec = json.dumps(context.job.spec.to_json(), sort_keys=True)
    own = {
        "the spec": hashlib.sha256(spec.encode()).hexdigest(),
        "the versions of libraries": versions(),
        "the number of steps": [context.plan.total_steps, context.plan.steps_per_epoch],
        "the kind of the device": context.device.kind,
    }
    found = replicas.all_gather_object(own)
    for name, value in found[0].items():
        others = [rank for rank, other in enumerate(found) if other[name] != value]
        if others:
            shown = "" if name == "the spec" else f": {value} and {found[others[0]][name]}"
            raise RanksDiffer(f"{_names(others)} cannot train with rank 0: {name} differs{shown}.")


def share_checkpoint(replicas: Replicas, saved: Checkpoint | None) -> Checkpoint | None:
    """The checkpoint that rank 0 has read, on every rank."""
    if replicas.size == 1:
        return saved
    header = replicas.broadcast_object(
        {
            "manifest": saved.manifest.model_dump_json(),
            "good": saved.good_arrays is not None,
            "best": saved.best_arrays is not None,
        }
        if saved is not None
        else None
    )
    if header is None:
        return None
    arrays = broadcast_arrays(replicas, saved.arrays if saved else None)
    good = best = None
    if header["good"]:
        good = broadcast_arrays(replicas, saved.good_arrays if saved else None)
    if header["best"]:
        best = broadcast_arrays(replicas, saved.best_arrays if saved else None)
    return Checkpoint(Manifest.model_validate_json(header["manifest"]), arrays, good, best)


def share_state(session: Session) -> None:
    """Give every rank the variables and loss scales of rank 0."""
    replicas = session.replicas
    if replicas.size > 1:
        own = session.capture() if replicas.rank == 0 else None
        session.restore(broadcast_arrays(replicas, own))


def check_equal_state(session: Session, step: int) -> None:
    """Raise RanksDiffer if weights, optimizer or loss scales differ before `step`.

    Statistics that each rank keeps for itself are left out.
    """
    replicas = session.replicas
    if replicas.size == 1:
        return
    digests = replicas.all_gather_object(_digest(session))
    others = [rank for rank, digest in enumerate(digests) if digest != digests[0]]
    if others:
        raise RanksDiffer(
            f"Before step {step} {_names(others)} did not have the weights, optimizer state or "
            "loss scale of rank 0. Check the memory and the processor of these machines, and that "
            "own code computes the same on all of them."
        )


def _digest(session: Session) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(_compared(session).items()):
        digest.update(name.encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _compared(session: Session) -> Arrays:
    arrays = session.capture()
    if session.step.exchange.batch_norm != "local":
        return arrays
    own = set(session.statistic_names())
    return {name: array for name, array in arrays.items() if name not in own}


def _names(ranks: Sequence[int]) -> str:
    return join_names([f"rank {rank}" for rank in ranks])
