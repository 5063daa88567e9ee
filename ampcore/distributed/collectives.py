"""TensorFlow's collective operations between the ranks of a job, inside and outside of functions.

Every operation has an instance key, which must be the same on all ranks: they are numbered in the
order in which the operations are traced, so all ranks must trace the same ones in the same order.
Each step of a compiled loop uses the operations again.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Literal

import tensorflow as tf

from ampcore.distributed.buckets import DEFAULT_BUCKET_BYTES, in_buckets
from ampcore.distributed.communicator import ReduceOp
from ampcore.distributed.control.channel import NAMING_S, ControlChannel
from ampcore.distributed.control.exchange_watch import ExchangeWatch
from ampcore.distributed.tables.size_classes import SIZES
from ampcore.phase_scopes import phase_scope
from ampcore.phases import Phase
from ampspec.errors import RankDisconnected, TrainingError

Tensor = Any
Hint = Literal["RING", "NCCL"]

GROUP_KEY: Final = 1
"""The one group: all ranks."""

SMALL_BYTES: Final = 64 * 1024
FEW_RANKS: Final = 8
"""Up to this size and so many ranks a reduction is one exchange: half the latency of a ring."""

GRACE_S: Final = 5.0
"""How long after an error of the communication its cause is waited for."""

COMMUNICATION_ERRORS: Final = (
    tf.errors.UnavailableError,
    tf.errors.DeadlineExceededError,
    tf.errors.CancelledError,
    tf.errors.AbortedError,
    tf.errors.InternalError,
    tf.errors.UnknownError,
    tf.errors.InvalidArgumentError,
    tf.errors.FailedPreconditionError,
)
"""What an operation raises if another rank is lost, or in another step."""

_MERGE: Final = {"sum": "Add", "mean": "Add", "max": "Max"}
_SIGNS: Final = ("Collective", "RecvBuf")
"""Parts of the messages of errors of the communication."""


class Collectives:
    """The operations of one rank.

    Args:
        rank: The number of this rank.
        size: The number of ranks.
        hint: The implementation: RING between CPUs, NCCL between GPUs.
        timeout_s: An operation that waits for longer fails, and keeps a thread for so long in any
            case: only for few operations (see `ExchangeWatch`). 0: none fails.
        small_bytes: Up to this size a reduction is one exchange, if the ranks are few; None: never.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        hint: Hint,
        timeout_s: float = 0.0,
        small_bytes: int | None = SMALL_BYTES,
    ) -> None:
        self.rank, self.size = rank, size
        self.timeout_s = timeout_s
        self._hint, self._small_bytes = hint, small_bytes
        self._next_key = 1
        self._eager_keys: dict[tuple[Any, ...], int] = {}
        self._tokens = 0
        self._only_token = self._new_token() if hint == "NCCL" else None

    def all_reduce(self, tensors: Sequence[Tensor], op: ReduceOp) -> list[Tensor]:
        """See `Communicator.all_reduce`; one operation for each tensor."""
        keys = self._keys(f"all_reduce/{op}", tensors)
        results = [self._reduce(tensor, key, op) for tensor, key in zip(tensors, keys, strict=True)]
        return [tensor / self.size for tensor in results] if op == "mean" else results

    def all_gather(
        self, tensors: Sequence[Tensor], size_class: Tensor | None = None
    ) -> list[Tensor]:
        """See `Communicator.all_gather`."""
        keys = self._keys("all_gather", tensors, size_class)
        return [
            _with_bits_of_float16(tensor, partial(self._gather, key=key))
            for tensor, key in zip(tensors, keys, strict=True)
        ]

    def all_to_all(
        self, tensors: Sequence[Tensor], size_class: Tensor | None = None
    ) -> list[Tensor]:
        """See `Communicator.all_to_all`."""
        keys = self._keys("all_to_all", tensors, size_class)
        return [self._exchange(tensor, key) for tensor, key in zip(tensors, keys, strict=True)]

    def broadcast(self, tensors: Sequence[Tensor], root: int) -> list[Tensor]:
        """See `Communicator.broadcast`."""
        if self.size == 1:
            return list(tensors)
        keys = self._keys(f"broadcast/{root}", tensors)
        move = self._send if self.rank == root else self._receive
        return [
            _with_bits_of_float16(tensor, partial(move, key=key))
            for tensor, key in zip(tensors, keys, strict=True)
        ]

    def _reduce(self, tensor: Tensor, key: int, op: ReduceOp) -> Tensor:
        if self._is_small(tensor):
            return self._reduce_at_once(tensor, key, op)
        return tf.raw_ops.CollectiveReduceV2(
            input=tensor,
            merge_op=_MERGE[op],
            final_op="Id",
            ordering_token=self._ordering_token(),
            **self._arguments(key),
        )

    def _is_small(self, tensor: Tensor) -> bool:
        """Whether one transfer of everything takes less time than the two phases of a ring."""
        if self._small_bytes is None:
            return False
        size = tensor.shape.num_elements()
        few_bytes = size is not None and size * tensor.dtype.size <= self._small_bytes
        return few_bytes and self._hint == "RING" and 1 < self.size <= FEW_RANKS

    def _reduce_at_once(self, tensor: Tensor, key: int, op: ReduceOp) -> Tensor:
        """Send the whole tensor to each rank; all of them add up in the same order."""
        copies = tf.tile(tensor[tf.newaxis], [self.size, *(1 for _ in tensor.shape)])
        received = self._exchange(copies, key)
        reduce = tf.reduce_max if op == "max" else tf.reduce_sum
        return reduce(received, axis=0)

    def _gather(self, tensor: Tensor, key: Tensor) -> Tensor:
        all_rows = tf.raw_ops.CollectiveGatherV2(
            input=tensor, ordering_token=self._ordering_token(), **self._arguments(key)
        )
        rows = tensor.shape[0]
        return tf.ensure_shape(
            all_rows, [None if rows is None else self.size * rows, *tensor.shape[1:]]
        )

    def _exchange(self, tensor: Tensor, key: Tensor) -> Tensor:
        if self.size == 1:
            return tensor
        shape = tf.shape(tensor)
        parts = tf.reshape(tensor, tf.concat([[self.size, shape[0] // self.size], shape[1:]], 0))
        exchanged_parts = tf.raw_ops.CollectiveAllToAllV2(
            input=parts, ordering_token=self._ordering_token(), **self._arguments(key)
        )
        return tf.ensure_shape(tf.reshape(exchanged_parts, shape), tensor.shape)

    def _send(self, tensor: Tensor, key: int) -> Tensor:
        return tf.raw_ops.CollectiveBcastSendV2(input=tensor, **self._arguments(key))

    def _receive(self, tensor: Tensor, key: int) -> Tensor:
        return tf.ensure_shape(
            tf.raw_ops.CollectiveBcastRecvV2(
                T=tensor.dtype, shape=tf.shape(tensor), **self._arguments(key)
            ),
            tensor.shape,
        )

    def _arguments(self, key: Tensor) -> dict[str, Any]:
        return {
            "group_size": tf.constant(self.size),
            "group_key": tf.constant(GROUP_KEY),
            "instance_key": tf.convert_to_tensor(key),
            "communication_hint": self._hint,
            "timeout_seconds": self.timeout_s,
        }

    def _ordering_token(self) -> list[Tensor]:
        """The resource that orders an operation in a function: those with the same one wait.

        Without any resource, TensorFlow lets each operation wait for the one traced before. NCCL
        needs that: all ranks must start their operations in the same order. RING finds its partner
        by the key, so each operation has a resource of its own, and begins when its input is ready.
        """
        if self._only_token is not None:
            return [self._only_token]
        return [self._new_token()] if tf.inside_function() else []

    def _new_token(self) -> Tensor:
        """A handle of a resource that holds nothing."""
        self._tokens += 1
        with tf.init_scope():
            return tf.raw_ops.VarHandleOp(
                dtype=tf.float32, shape=[], shared_name=f"collective_token_{self._tokens}"
            )

    def _keys(
        self, kind: str, tensors: Sequence[Tensor], size_class: Tensor | None = None
    ) -> list[Tensor]:
        """A key for each tensor: a new one in a graph; outside, that of the same call before.

        With a size class it is one of as many keys as there are sizes.
        """
        if not tf.executing_eagerly():
            if size_class is None:
                return [self._new_key() for _ in tensors]
            return [self._new_key(len(SIZES)) + size_class for _ in tensors]
        keys = []
        seen: Counter[tuple[Any, ...]] = Counter()
        for tensor in tensors:
            signature = (kind, tensor.dtype, tuple(tensor.shape))
            number = (*signature, seen[signature])
            seen[signature] += 1
            if number not in self._eager_keys:
                self._eager_keys[number] = self._new_key()
            keys.append(self._eager_keys[number])
        return keys

    def _new_key(self, count: int = 1) -> int:
        """The first of so many unused keys."""
        key, self._next_key = self._next_key, self._next_key + count
        return key


def _with_bits_of_float16(tensor: Tensor, move: Callable[[Tensor], Tensor]) -> Tensor:
    """Move a tensor; bfloat16, which these operations do not know, as the same bits in float16."""
    if tensor.dtype != tf.bfloat16:
        return move(tensor)
    return tf.bitcast(move(tf.bitcast(tensor, tf.float16)), tf.bfloat16)


class CollectiveCommunicator:
    """Ranks that communicate with TensorFlow's collectives: see `Communicator`.

    Args:
        collectives: The operations between compiled functions and inside of them.
        control: How the ranks agree between compiled functions.
        watch: Notices that this rank waits for too long.
        bucket_bytes: Tensors are reduced together up to this size.
    """

    def __init__(
        self,
        collectives: Collectives,
        control: ControlChannel,
        watch: ExchangeWatch,
        bucket_bytes: int = DEFAULT_BUCKET_BYTES,
    ) -> None:
        self._collectives, self._control, self._watch = collectives, control, watch
        self.bucket_bytes = bucket_bytes
        self.is_closed = False

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self._collectives.size

    @property
    def rank(self) -> int:
        """The number of this rank."""
        return self._collectives.rank

    def all_reduce(self, tensors: Sequence[Tensor], op: ReduceOp = "mean") -> list[Tensor]:
        """Combine each tensor with those of the others, several of them in one operation."""

        def reduce(parts: Sequence[Tensor]) -> list[Tensor]:
            return self._collectives.all_reduce(parts, op)

        with phase_scope(Phase.COMMUNICATION):
            tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
            return self._watch.exchanged(
                tensors, lambda: in_buckets(reduce, tensors, self.bucket_bytes)
            )

    def all_gather(
        self, tensors: Sequence[Tensor], size_class: Tensor | None = None
    ) -> list[Tensor]:
        """Concatenate each tensor with those of the others along the first axis, by rank."""
        with phase_scope(Phase.COMMUNICATION):
            tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
            return self._watch.exchanged(
                tensors, lambda: self._collectives.all_gather(tensors, size_class)
            )

    def all_to_all(
        self, tensors: Sequence[Tensor], size_class: Tensor | None = None
    ) -> list[Tensor]:
        """Send part r of each tensor to rank r; returns the parts received, in order of rank."""
        with phase_scope(Phase.COMMUNICATION):
            tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
            return self._watch.exchanged(
                tensors, lambda: self._collectives.all_to_all(tensors, size_class)
            )

    def broadcast(self, tensors: Sequence[Tensor], root: int = 0) -> list[Tensor]:
        """The tensors of rank `root`."""
        with phase_scope(Phase.COMMUNICATION):
            tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
            return self._watch.exchanged(
                tensors, lambda: self._collectives.broadcast(tensors, root)
            )

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        self._control.all_gather(None)

    def broadcast_object(self, value: Any) -> Any:
        """What rank 0 passes, on every rank: JSON values."""
        return self._control.broadcast(value)

    def all_gather_object(self, value: Any) -> list[Any]:
        """What each rank passes, in order of rank: JSON values."""
        return self._control.all_gather(value)

    def explain(self, error: Exception) -> TrainingError | None:
        """Which rank was lost or failed, if that is why the communication failed."""
        if not isinstance(error, COMMUNICATION_ERRORS):
            return None
        is_communication = any(sign in str(error) for sign in _SIGNS)
        failure = self._control.failure()
        if failure is None and is_communication:
            failure = self._control.failure(NAMING_S + GRACE_S)
        if failure is None and is_communication:
            lines = (line.strip() for line in str(error).splitlines())
            cause = next(line for line in lines if any(sign in line for sign in _SIGNS))
            return RankDisconnected(f"The communication between the ranks failed: {cause}")
        return failure

    def close(self, failure: TrainingError | None = None) -> None:
        """Take leave of the others; a failure ends them too."""
        self.is_closed = True
        self._watch.close()
        self._control.close(failure)
