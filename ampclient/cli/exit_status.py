"""The exit status of `ampctl`: one for each thing that a script does next."""

from enum import IntEnum

from ampclient.errors import (
    AmpcoreError,
    ConnectionFailed,
    Forbidden,
    JobFailed,
    NotConfigured,
    NotFound,
    PromotionRefused,
    StatusError,
    StudyFailed,
    Unauthorized,
    WaitTimeout,
)


class ExitStatus(IntEnum):
    """What the command came to."""

    DONE = 0
    FAILED = 1
    """A job failed or was cancelled, a study has no answer, or an assertion does not hold."""
    USAGE = 2
    """The command line is wrong, or no server is configured."""
    REFUSED = 3
    """The server, or a check before it, refused: an invalid spec, a conflict, a full queue."""
    NOT_FOUND = 4
    """There is no such job, file or other thing."""
    UNAUTHORIZED = 5
    """The token is missing, wrong or expired, or does not allow this."""
    UNREACHABLE = 6
    """No server answers, or it is temporarily unavailable: try again later."""
    ERROR = 7
    """Anything else: a fault of the server, an unreadable file, a damaged download."""
    INTERRUPTED = 130
    """Ctrl-C ended the command; the job keeps running."""


TEMPORARY = frozenset({502, 503, 504})


def exit_status_of(error: AmpcoreError | OSError) -> ExitStatus:
    """The exit status of a command that ends with this error."""
    match error:
        case JobFailed() | StudyFailed() | PromotionRefused():
            return ExitStatus.FAILED
        case NotConfigured():
            return ExitStatus.USAGE
        case NotFound(code="http_404"):  # of a server that is not an ampcore server
            return ExitStatus.ERROR
        case NotFound():
            return ExitStatus.NOT_FOUND
        case Unauthorized() | Forbidden():
            return ExitStatus.UNAUTHORIZED
        case ConnectionFailed() | WaitTimeout():
            return ExitStatus.UNREACHABLE
        case StatusError(status=status) if status in TEMPORARY:
            return ExitStatus.UNREACHABLE
        case StatusError(status=status) if status is None or status < 500:
            return ExitStatus.REFUSED
    return ExitStatus.ERROR
