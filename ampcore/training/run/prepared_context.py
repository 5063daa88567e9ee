"""What a run needs before its first step: its device, its data, and its connection to other ranks.

Training, explaining a step, repeating steps and measuring the first one begin here, so that all of
them compute in the same way.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import keras

from ampcore.allocation_errors import out_of_memory
from ampcore.diagnostics import hardware
from ampcore.distributed import Cluster, Communicator
from ampcore.precision.float16_on_cpu import without_op_fusion
from ampcore.precision.tensor_float32 import tensor_float32
from ampcore.training.context import RunContext
from ampcore.training.jobs.job import TrainingJob
from ampcore.training.ranks.connection import connected
from ampspec.errors import TrainingError
from ampspec.precision.devices import DeviceInfo
from ampspec.training.run import RunSpec


@contextmanager
def prepared_context(
    job: TrainingJob, cluster: Cluster | None = None, *, is_replay: bool = False
) -> Iterator[RunContext]:
    """A context in which a run of this job can be built and trained.

    Seeds Python, NumPy and TensorFlow, and sets the device to compute as the spec says.

    Args:
        job: The job; its data is loaded here.
        cluster: The ranks that train it together; None: this process alone.
        is_replay: Whether steps are repeated to look at one of them.

    Raises:
        TrainingError: Something failed here or in the context, for a reason that is known.
    """
    spec = job.spec
    device = hardware.select(spec.runtime.device)
    with (
        connected(cluster, spec.runtime.exchange) as communicator,
        _known_reasons(job, communicator),
    ):
        keras.utils.set_random_seed(spec.train.seed)
        dataset = job.load_data()
        info = hardware.device_info(device)
        context = RunContext.of(job, dataset, info, communicator, is_replay=is_replay)
        with device_settings(spec, info):
            yield context


@contextmanager
def device_settings(spec: RunSpec, device: DeviceInfo) -> Iterator[None]:
    """A context in which the device computes as a spec says: in TF32 or not, and in float16."""
    with (
        without_op_fusion(spec.precision, device),
        tensor_float32(allowed=spec.precision.tf32),
    ):
        yield


@contextmanager
def _known_reasons(job: TrainingJob, communicator: Communicator) -> Iterator[None]:
    """Turns an error into the TrainingError that says why, if that is known."""
    try:
        yield
    except TrainingError:
        raise
    except Exception as error:
        # An error of the communication may have been raised in code of the job.
        reason = out_of_memory(error) or communicator.explain(error) or job.reason_for(error)
        if reason is None:
            raise
        raise reason from error
