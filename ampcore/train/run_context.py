"""The parts of a run that do not depend on its precision."""

from dataclasses import dataclass, field

from ampcore import precision
from ampcore.data import Dataset
from ampcore.distributed import Replicas, SingleReplica
from ampcore.train.feed import Feed
from ampcore.train.job import TrainingJob
from ampcore.train.plan import Plan
from ampcore.train.session import Session
from ampspec.precision.devices import DeviceInfo
from ampspec.training.run import micro_batches


@dataclass(frozen=True)
class RunContext:
    """The parts of a run that do not depend on its precision."""

    job: TrainingJob
    dataset: Dataset
    plan: Plan
    feed: Feed
    device: DeviceInfo
    is_replay: bool = False
    """Whether steps are repeated to look at one of them: nothing is evaluated or explained."""
    replicas: Replicas = field(default_factory=SingleReplica)
    """The processes that train the job together."""

    @property
    def accumulate(self) -> int:
        """The micro-batches of a step on this replica."""
        return micro_batches(self.job.spec) // self.replicas.size

    def build_session(self, *, float32: bool = False) -> Session:
        """Build the job's session, in its own precision or in float32 without a loss scale."""
        job = self.job.in_float32() if float32 else self.job
        policies = precision.layer_policies(job.spec.precision, self.device)
        return Session(
            job,
            self.dataset,
            self.plan,
            self.feed,
            policies,
            replicas=self.replicas,
            accumulate=self.accumulate,
        )
