"""What to write in place of names of Horovod that `ampcore.compat` does not have."""

from typing import Final

_LAUNCH = "python -m ampcore launch"
_FIT = f"ampcore.Trainer.from_keras(model), started by `{_LAUNCH}`, in place of model.fit"
_ONE_GROUP = "nothing: all ranks are one group"
_BUILT = "nothing: TensorFlow's collective operations are always there"

WRITE_INSTEAD: Final = {
    "Adasum": "op=compat.Average",
    "BroadcastGlobalVariablesHook": (
        "session.run(compat.broadcast_variables(tf.compat.v1.global_variables())) after the "
        "initializers"
    ),
    "DistributedOptimizer": (
        "compat.LossScaleOptimizer(optimizer), whose apply_gradients averages gradients over the "
        "ranks, or compat.DistributedGradientTape(tape); with model.fit, " + _FIT
    ),
    "Max": 'op="max"',
    "Min": 'compat.all_reduce(-tensor, op="max")',
    "ProcessSet": _ONE_GROUP,
    "Product": 'compat.all_reduce(tf.math.log(tensor), op="sum")',
    "add_process_set": _ONE_GROUP,
    "allgather": "compat.all_gather(tensor)",
    "allgather_object": "compat.all_gather(tensor) of tensors",
    "allreduce": "compat.all_reduce(tensor)",
    "alltoall": "compat.all_gather(tensor), and take the part of this rank",
    "barrier": "compat.all_reduce(tf.constant(0.0))",
    "broadcast": "compat.broadcast_variables([variable], root_rank)",
    "broadcast_global_variables": (
        "compat.broadcast_variables(tf.compat.v1.global_variables(), root_rank)"
    ),
    "broadcast_object": "compat.broadcast_variables([variable]) of numbers",
    "callbacks": _FIT,
    "cross_rank": "compat.rank() // (the devices of a machine)",
    "cross_size": "compat.size() // (the devices of a machine)",
    "elastic": f"checkpoints, from which `{_LAUNCH}` starts all ranks again",
    "gloo_built": _BUILT,
    "global_process_set": _ONE_GROUP,
    "grouped_allreduce": "compat.all_reduce([first, second])",
    "is_initialized": "compat.init() once, at the start",
    "join": "dataset.take(batches // compat.size()): all ranks make the same number of steps",
    "local_size": f"the number of devices that `{_LAUNCH} --processes` was told",
    "mpi_built": _BUILT,
    "mpi_enabled": _BUILT,
    "mpi_threads_supported": _BUILT,
    "nccl_built": _BUILT,
    "reducescatter": "compat.all_reduce(tensor), and take the part of this rank",
    "run": f"`{_LAUNCH} --processes 2 loop.py`",
    "shutdown": "nothing: the connection is closed when the program ends",
    "start_timeline": "`python -m ampcore profile`",
}
"""The names, as Horovod's modules for TensorFlow and Keras have them."""
