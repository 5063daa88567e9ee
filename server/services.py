"""The services of one application: created once in `server.app`, used by every request."""

from dataclasses import dataclass, field

from infra.notify import Notifier
from infra.storage import Storage
from server.data_root import DataRoot
from server.datasets.uploads import Uploads
from server.dispatch import Dispatcher
from server.files.file_store import FileStore
from server.http.access.authenticator import Authenticator
from server.http.admission.shared_result import SharedResult
from server.http.receive_body import BodyReceiver
from server.http.streaming.streams import Streams
from server.jobs.job_reader import JobReader
from server.jobs.job_watcher import JobWatcher
from server.metrics.registry import Metrics
from server.notifications.channels import ChannelSettings
from server.sign_on.sign_on import SignOn
from server.studies.planner import Planner
from server.submissions.submission import JobSubmitter
from store.database import Database


@dataclass(frozen=True)
class Services:
    """The services that the routes of one application share, through `server.deps`."""

    database: Database
    dispatcher: Dispatcher
    notifier: Notifier
    data_root: DataRoot
    """Files that the operator has placed there, for `data.path`."""
    storage: Storage
    authenticator: Authenticator
    metrics: Metrics
    readiness: SharedResult[None]
    """Checks what the server depends on; raises Unavailable."""
    job_reader: JobReader
    job_watcher: JobWatcher
    submitter: JobSubmitter
    uploads: Uploads
    file_store: FileStore
    body_receiver: BodyReceiver
    planner: Planner
    """Plans studies for requests."""
    channels: ChannelSettings
    """Which receivers notifications may have."""
    trash_s: float
    """How long a deleted job can be restored, in seconds."""
    sign_on: SignOn | None = None
    """Sign-on with a provider; None if the settings name none."""
    streams: Streams = field(default_factory=Streams)
