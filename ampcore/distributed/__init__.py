"""Training on several devices: what the replicas of a job exchange in a step."""

from ampcore.distributed.replicas import ReduceOp, Replicas, SingleReplica

__all__ = ["ReduceOp", "Replicas", "SingleReplica"]
