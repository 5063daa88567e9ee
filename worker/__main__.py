"""`python -m worker`: take jobs until told to stop by SIGTERM.

Exit codes: 0 after SIGTERM, when every job is given back; 1 when the worker broke down; 2 when a
setting makes no sense, or asks for an isolation that this machine does not allow.
"""

import sys

from ampcore.isolation import hide_memory
from service.logs import set_up_logging
from service.settings import SettingsInvalid
from worker.app import run
from worker.isolation_plan import IsolationImpossible
from worker.settings import Settings


def main() -> int:
    """Run the worker; its settings are environment variables."""
    hide_memory()  # and so the passwords in it
    try:
        settings = Settings.from_environment()
    except SettingsInvalid as error:
        sys.stderr.write(f"{error}\n")
        return 2
    set_up_logging(settings.log_format)
    try:
        return run(settings)
    except IsolationImpossible as error:
        sys.stderr.write(f"{error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
