"""A run as one of several ranks: its connection to the others, and what it reports of itself."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from ampcore import distributed
from ampcore.distributed import Cluster, Communicator, SingleRank
from ampcore.training.callback_buffer import OnEvent
from ampspec.errors import InvalidModel, TrainingError
from ampspec.telemetry import Event, EventType
from ampspec.training.ranks import Exchange

OWN_EVENTS: Final = (EventType.STARTED,)
"""What a rank other than 0 reports: the rest is about the job, and rank 0 reports it."""
RANK_SETTINGS: Final = ("workers", "devices", "elastic")


@contextmanager
def connected(cluster: Cluster | None, exchange: Exchange) -> Iterator[Communicator]:
    """The ranks of a job while it trains. An error in one rank ends all of them.

    A program that has connected before uses its ranks afterwards, too: they are closed only
    after an error.

    Raises:
        RankDisconnected: Another rank does not connect in time, or was lost.
        RankFailed: Another rank has failed.
    """
    if cluster is None:
        yield SingleRank()
        return
    earlier = distributed.communicator_of(cluster)
    communicator = earlier or distributed.connect(cluster, exchange.bucket_bytes)
    try:
        yield communicator
        communicator.barrier()  # rank 0 may still have been saving
    except Exception as error:
        cause = communicator.explain(error) or error
        communicator.close(_as_training_error(cause))
        if cause is error:
            raise
        raise cause from error
    except BaseException:
        communicator.close(TrainingError("It was interrupted."))
        raise
    if earlier is None:
        communicator.close()


def check_connected(cluster: Cluster | None) -> None:
    """Raise InvalidModel if a model was created before its process connected with other ranks."""
    if cluster is not None and cluster.size > 1 and distributed.communicator_of(cluster) is None:
        raise InvalidModel(
            "model",
            expected="a model that is created after ampcore.distributed.connect_from_environment()",
            received=f"one of a process that is not connected with the {cluster.size} ranks",
        )


def only_own_events(on_event: OnEvent | None) -> OnEvent:
    """Passes on only what a rank other than 0 reports."""

    def report(event: Event) -> None:
        if on_event is not None and event.type in OWN_EVENTS:
            on_event(event)

    return report


def with_ranks_of(cluster: Cluster | None, runtime: Mapping[str, Any]) -> dict[str, Any]:
    """The section `runtime`, with as many ranks as the cluster unless it names a number."""
    if cluster is None or any(name in runtime for name in RANK_SETTINGS):
        return dict(runtime)
    return {**runtime, "devices": cluster.size}


def _as_training_error(error: Exception) -> TrainingError:
    if isinstance(error, TrainingError):
        return error
    first = (str(error).strip().splitlines() or ["no details"])[0]
    return TrainingError(f"{type(error).__name__}: {first}")
