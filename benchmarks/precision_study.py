"""How long a study of precision takes: digits CNN, 3 seeds, 3 policies; one JSON line.

The study runs on `ampserver up` with a worker that trains one job at a time. `study_s` is from the
POST until the answer is there, `trained_s` the sum of the seconds that the trainers trained,
`ran_s` the sum of the jobs' seconds from start to end (reading, tracing and saving, too), and
`cpu_share` how busy the machine's cores were, by all its processes.
"""

import argparse
import time

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
        lab = running.client.lab
        psutil.cpu_percent()
        begin = time.monotonic()
        study = lab.precision(spec, seeds=SEEDS, policies=POLICIES)
        study = lab.wait(study, poll_s=0.2)
        study_s, cpu_share = time.monotonic() - begin, psutil.cpu_percent() / 100
        jobs = [running.client.jobs.get(one.job) for one in study.jobs]
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
        cpu_share=round(cpu_share, 2),
        jobs=len(jobs),
        answer=[f"{one.policy}: {one.verdict}, {one.explanation}" for one in study.answer.policies],
    )


if __name__ == "__main__":
    main()
