"""`python -m ampcore run job.yaml`: train a job on this machine, without any server.

`python -m ampcore check job.yaml` estimates its cost and checks for known problems beforehand.
`python -m ampcore explain FOLDER STEP` says what a skipped or unusual step was due to.
`python -m ampcore profile job.yaml` shows where the time of some steps goes.
`python -m ampcore ranges job.yaml` and `perturb job.yaml` measure its first step: which layers a
number format would harm.
Exit codes: 0 the job succeeded, 1 it failed, 2 the spec is invalid, 130 it was interrupted.
"""

from ampcore.cli.app import app


def main() -> None:
    """Run the command line."""
    app(prog_name="python -m ampcore")


if __name__ == "__main__":
    main()
