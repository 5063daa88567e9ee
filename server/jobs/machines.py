"""The devices of the workers that are online, as the preflight asks for them."""

from sqlalchemy.orm import Session

from ampcore.spec.devices import DeviceFacts
from store import workers


def online_machines(session: Session) -> list[tuple[DeviceFacts, ...]]:
    """The devices of each online worker that has told of its hardware, the newest first."""
    return [
        DeviceFacts.from_json(worker.hardware)
        for worker, state in workers.listing(session)
        if state == "online" and isinstance(worker.hardware, dict)
    ]
