"""Training on several devices: the communication between the replicas of a job."""

from ampcore.distributed.replicas import ReduceOp, Replicas, SingleReplica

__all__ = ["ReduceOp", "Replicas", "SingleReplica"]
