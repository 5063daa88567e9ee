"""The services of one application: created once in `server.app`, used by every request."""

from dataclasses import dataclass, field

from anyio import CapacityLimiter

from server.access.authenticator import Authenticator
from server.dataset_folder import DatasetFolder
from server.datasets.receive import BodyReceiver
from server.datasets.uploads import Uploads
from server.dispatch import Dispatcher
from server.files.uploads import FileUploads
from server.jobs.job_reader import JobReader
from server.jobs.submission import JobSubmitter
from server.metrics.registry import Metrics
from server.streaming.streams import Streams
from service.notify import Notifier
from service.storage import Storage
from store.database import Database


@dataclass(frozen=True)
class Services:
    """The services that the routes of one application share, through `server.deps`."""

    database: Database
    dispatcher: Dispatcher
    notifier: Notifier
    dataset_folder: DatasetFolder
    """Files that the operator has placed there, for `data.path`."""
    step_readers: CapacityLimiter
    """Limits how many requests decode step blocks at the same time."""
    storage: Storage
    authenticator: Authenticator
    metrics: Metrics
    job_reader: JobReader
    submitter: JobSubmitter
    uploads: Uploads
    file_uploads: FileUploads
    body_receiver: BodyReceiver
    streams: Streams = field(default_factory=Streams)
