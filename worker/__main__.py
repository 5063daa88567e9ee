"""`python -m worker`: run queued jobs until SIGTERM, or one job with AMPCORE_WORKER_JOB.

Exit codes: 0 after SIGTERM, once every job is requeued, or once the one job was run; 1 after an
unexpected error; 2 for an invalid setting, or for an isolation that this machine does not allow;
3 if the one job was not run: a sentence says why.
"""

import gc
import sys

from infra.isolation import hide_memory


def main() -> int:
    """Run the worker; its settings are environment variables."""
    hide_memory()  # it holds passwords
    gc.disable()  # nearly all objects that imports create stay: looking for others takes a sixth
    from infra import traces
    from infra.log_config import set_up_logging
    from infra.settings import SettingsInvalid
    from worker import app, one_job
    from worker.settings import WorkerSettings
    from worker.trainer.isolation_plan import IsolationUnavailable

    gc.freeze()
    gc.enable()
    try:
        settings = WorkerSettings.from_environment()
    except SettingsInvalid as error:
        sys.stderr.write(f"{error}\n")
        return 2
    set_up_logging(settings.log_format)
    traces.start("ampcore-worker")
    try:
        if settings.worker_job is not None:
            return one_job.run(settings, settings.worker_job)
        return app.run(settings)
    except IsolationUnavailable as error:
        sys.stderr.write(f"{error}\n")
        return 2
    finally:
        traces.stop()


if __name__ == "__main__":
    sys.exit(main())
