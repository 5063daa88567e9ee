"""The memory of a training step as a function of the batch size, from the preflight."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ampspec.jobs import JobSpec
from ampspec.preflight import preflight
from ampspec.studies.precision.policies import policy_sections, spec_policy

USABLE_SHARE: Final = 0.9
"""The usable share of a device's memory; libraries, workspaces and the allocator need the rest."""
PROCESS_BYTES: Final = 2**30
"""Memory of a trainer process besides the model: data of libraries, stacks of threads,
arenas of the allocator. Measured on two cores: with 0.8 GiB (RLIMIT_DATA) small models train, and
without a limit it reserves up to 1.9 GiB."""
BATCH_MULTIPLE: Final = 8
"""Tensor Cores need multiples of 8."""


@dataclass(frozen=True)
class MemoryModel:
    """Bytes = fixed + per_example × batch size: weights do not depend on the batch."""

    fixed: int
    per_example: int

    def total(self, batch_size: int) -> int:
        """The peak memory in bytes."""
        return self.fixed + self.per_example * batch_size

    def largest_batch(self, memory_bytes: int) -> int:
        """The largest batch that fits into this memory, a multiple of 8; 0 if none does."""
        room = int(memory_bytes * USABLE_SHARE) - self.fixed
        if room <= 0 or self.per_example <= 0:
            return 0
        return room // self.per_example // BATCH_MULTIPLE * BATCH_MULTIPLE


def memory_model(document: Mapping[str, Any], policy: str) -> MemoryModel | None:
    """The memory model of a spec under a policy; None while its layers are not known."""
    spec = JobSpec.parse({**document, **policy_sections(document, policy)})
    resolved = spec_policy(policy)
    small, large = (_total(spec, resolved, batch) for batch in (BATCH_MULTIPLE, 2 * BATCH_MULTIPLE))
    if small is None or large is None:
        return None
    per_example = (large - small) // BATCH_MULTIPLE
    return MemoryModel(small - per_example * BATCH_MULTIPLE, per_example)


def _total(spec: JobSpec, policy: str, batch_size: int) -> int | None:
    # Unchecked: the memory model may use more examples than the data has.
    data = spec.data.model_copy(update={"batch_size": batch_size})
    figures = preflight(spec.unchecked_copy({"data": data})).figures
    return figures.memory[policy].total if figures is not None else None
