"""How long a study of precision takes: digits CNN, 3 seeds, 3 policies; one JSON line.

The study runs on `ampserver up` with a worker that trains one job at a time. `study_s` is from the
POST until the answer is there, `trained_s` the sum of the seconds that the trainers trained,
`ran_s` the sum of the jobs' seconds from start to end (reading, tracing and saving, too), of which
`not_trained_s` is no training. `head_s` is from the POST to the start of the first job, `gaps_s`
the sum between jobs, `tail_s` from the end of the last job to the answer. `cpu_share` is how busy
the machine's cores were, by all its processes.
"""

import argparse
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import psutil
from compare import report
from startup_latency import stack, wait_until

SPEC = {
    "model": {"kind": "cnn", "filters": [16, 32], "dense": [64]},
    "data": {"kind": "digits", "batch_size": 64},
    "optimizer": {"kind": "adam", "learning_rate": 0.003},
}
POLICIES = ["mixed_bfloat16", "mixed_float16"]
SEEDS = 3


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10, help="of each job (default: 10)")
    spec = {**SPEC, "train": {"epochs": parser.parse_args().epochs}}
    with stack() as running:
        wait_until(running.is_standby_idle)
        lab = running.client.studies
        psutil.cpu_percent()
        begin, begin_at = time.monotonic(), datetime.now(UTC)
        study = lab.precision(spec, seeds=SEEDS, policies=POLICIES)
        study = lab.wait(study, poll_s=0.2)
        study_s, cpu_share = time.monotonic() - begin, psutil.cpu_percent() / 100
        end_at = datetime.now(UTC)
        jobs = [running.client.jobs.get(entry.job) for entry in study.jobs]
    jobs.sort(key=lambda job: job.started_at)
    gaps = [later.started_at - job.finished_at for job, later in pairwise(jobs)]
    trained_s = sum(job.summary.train_s for job in jobs)
    ran_s = sum((job.finished_at - job.started_at).total_seconds() for job in jobs)
    report(
        "precision_study",
        epochs=spec["train"]["epochs"],
        goal_s=90,
        goal_ratio=1.3,
        study_s=round(study_s, 1),
        trained_s=round(trained_s, 1),
        ratio=round(study_s / trained_s, 2),
        ran_s=round(ran_s, 1),
        ratio_to_ran=round(study_s / ran_s, 2),
        head_s=round((jobs[0].started_at - begin_at).total_seconds(), 2),
        gaps_s=round(sum(gaps, timedelta()).total_seconds(), 2),
        tail_s=round((end_at - jobs[-1].finished_at).total_seconds(), 2),
        not_trained_s=round(ran_s - trained_s, 1),
        cpu_share=round(cpu_share, 2),
        jobs=len(jobs),
        answer=[f"{one.policy}: {one.verdict}, {one.explanation}" for one in study.answer.policies],
    )


if __name__ == "__main__":
    main()
