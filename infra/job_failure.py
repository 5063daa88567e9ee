"""JobFailure: an error that ends an attempt at a job, and the reason to record for it."""

from typing import ClassVar

from ampspec.jobs import Reason


class JobFailure(Exception):
    """An attempt cannot go on; the message is shown to the job's user."""

    reason: ClassVar[Reason]
