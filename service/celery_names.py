"""The names by which server and worker find each other in Redis."""

from typing import Final

TASK: Final = "ampcore.train"


def queue_key(queue: str) -> str:
    """The Celery queue, and so the list in Redis, whose messages wake the workers of a queue."""
    return f"ampcore.{queue}"
