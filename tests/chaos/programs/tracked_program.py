"""A program that is tracked: logs one step for each line of its input, then finishes the run."""

import sys

import ampclient
from ampclient.tracking import sender

sender.MAX_DELAY_S = 0.5  # so that a test does not wait for a server that is back


def main() -> None:
    with ampclient.Client() as client, client.runs.track("tracked", flush_timeout_s=3600) as run:
        print(run.id, flush=True)
        for line in sys.stdin:
            run.log(int(line), loss=float(line))
            run.event("epoch", {"epoch": int(line)})


if __name__ == "__main__":
    main()
