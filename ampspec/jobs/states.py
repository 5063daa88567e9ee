"""Where a job runs, its states, the changes allowed between them, and the reasons for an end."""

from enum import StrEnum
from typing import Final


class Source(StrEnum):
    """Where a job runs: on a worker, from a submitted spec, or elsewhere.

    A tracked run is trained by a separate program, which sends its steps to the server.
    """

    SUBMITTED = "submitted"
    TRACKED = "tracked"


class State(StrEnum):
    """The state of a job."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """True when the job has ended; only a person can queue it again."""
        return self in TERMINAL

    @property
    def is_active(self) -> bool:
        """True while a worker owns the job, or the program of a tracked run sends its steps."""
        return self in ACTIVE


TERMINAL: Final = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})
ACTIVE: Final = frozenset({State.STARTING, State.RUNNING, State.PAUSING, State.STOPPING})

TRANSITIONS: Final[dict[State, frozenset[State]]] = {
    State.QUEUED: frozenset({State.STARTING, State.PAUSED, State.CANCELLED}),
    State.STARTING: frozenset(
        {State.RUNNING, State.FAILED, State.STOPPING, State.PAUSING, State.QUEUED}
    ),
    State.RUNNING: frozenset(
        {State.SUCCEEDED, State.FAILED, State.STOPPING, State.PAUSING, State.QUEUED}
    ),
    State.PAUSING: frozenset({State.PAUSED, State.SUCCEEDED, State.FAILED, State.STOPPING}),
    State.PAUSED: frozenset({State.QUEUED, State.CANCELLED}),
    State.STOPPING: frozenset({State.CANCELLED}),
    State.SUCCEEDED: frozenset(),
    State.FAILED: frozenset({State.QUEUED}),
    State.CANCELLED: frozenset({State.QUEUED}),
}


def source_states(target: State) -> frozenset[State]:
    """The states from which a job may change to `target`."""
    return frozenset(state for state, targets in TRANSITIONS.items() if target in targets)


class Reason(StrEnum):
    """Why a job ended, as a stable code that is stored with its state."""

    USER_REQUEST = "user_request"
    INVALID_DATA = "invalid_data"
    INVALID_SPEC = "invalid_spec"
    CODE_FAILED = "code_failed"
    UNSUPPORTED_DEVICE = "unsupported_device"
    NON_FINITE_LOSS = "non_finite_loss"
    NON_FINITE_RESULT = "non_finite_result"
    SKIP_BUDGET_EXCEEDED = "skip_budget_exceeded"
    OUT_OF_MEMORY = "out_of_memory"
    RESOURCE_LIMIT = "resource_limit"
    INVALID_TELEMETRY = "invalid_telemetry"
    NO_SANDBOX = "no_sandbox"
    INVALID_CHECKPOINT = "invalid_checkpoint"
    INVALID_WEIGHTS = "invalid_weights"
    CHECKPOINT_FAILED = "checkpoint_failed"
    STORAGE_UNAVAILABLE = "storage_unavailable"
    PROCESS_KILLED = "process_killed"
    RANK_LOST = "rank_lost"
    RANKS_DIFFER = "ranks_differ"
    WORKER_LOST = "worker_lost"
    PORT_TAKEN = "port_taken"
    RESIZED = "resized"
    WORKER_SHUTDOWN = "worker_shutdown"
    TIMEOUT = "timeout"
    RUN_FAILED = "run_failed"
    RUN_LOST = "run_lost"
    INTERNAL_ERROR = "internal_error"
