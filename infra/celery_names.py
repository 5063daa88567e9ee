"""The names of the Celery task and queues, shared by server and worker."""

from typing import Final

TASK_NAME: Final = "ampcore.train"


def queue_key(queue: str) -> str:
    """The Celery queue, and so the Redis list, to which the workers of a queue listen."""
    return f"ampcore.{queue}"
