"""`python -m worker`: take jobs until told to stop by SIGTERM."""

import sys

from worker.app import QUEUE, create_app
from worker.settings import Settings, SettingsInvalid


def main() -> int:
    """Run the worker; its settings are environment variables."""
    try:
        settings = Settings.from_environment()
    except SettingsInvalid as error:
        sys.stderr.write(f"{error}\n")
        return 2
    app = create_app(settings)
    app.worker_main(
        [
            "worker",
            "--pool=threads",
            f"--concurrency={settings.worker_slots}",
            f"--queues={QUEUE}",
            "--loglevel=INFO",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
        ]
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
