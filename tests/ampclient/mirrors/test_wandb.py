"""Mirrors to offline files of W&B, written by its library and read with its messages."""

import json
import math
from pathlib import Path

import pytest

from tests.ampclient.mirrors import wandb_records

pytestmark = [pytest.mark.needs("wandb"), pytest.mark.slow]

PROGRAM = """
import sys
import ampclient
folder = sys.argv[1]
client = ampclient.Client()
mirror = ampclient.WandbMirror(folder, "digits")
options = {"labels": {"team": "vision"}, "config": {"rate": 0.1}}
with client.runs.track("live", mirror=mirror, **options) as run:
    run.watch(usage_every_s=None)
    for step in range(0, 400, 2):
        run.log(step, loss=float("nan") if step == 4 else step / 2)
    run.event("evaluation", {"epoch": 0, "val_loss": 0.5})
    run.result(val_loss=0.5)
try:
    with client.runs.track("broken", mirror=ampclient.WandbMirror(folder, "digits")) as broken:
        broken.log(0, loss=1.0)
        raise ValueError
except ValueError:
    pass
stored = ampclient.WandbMirror(folder + "/stored", "digits")
client.runs.mirror(run.id, stored)
import wandb
assert wandb.run is None
print(run.id)
"""
READ = Path(wandb_records.__file__).read_text(encoding="utf-8")


def test_the_offline_files_have_what_was_logged_and_what_is_stored(tmp_path, run_program):
    output, _ = run_program(PROGRAM, tmp_path, WANDB_CACHE_DIR=str(tmp_path / "cache"))

    def read(folder):
        files = sorted(folder.glob("wandb/offline-run-*/*.wandb"))
        runs = [json.loads(run_program(READ, file)[0]) for file in files]
        return {run["name"]: run for run in runs}

    runs, [stored] = read(tmp_path), read(tmp_path / "stored").values()
    live, broken = runs["live"], runs["broken"]
    assert (live["exit_code"], broken["exit_code"], stored["exit_code"]) == (0, 1, 0)
    assert live["tags"] == ["team=vision"]
    assert live["config"]["rate"] == 0.1
    assert stored["config"]["config.rate"] == 0.1
    for run in (live, stored):
        rows = run["history"]
        assert [row["_step"] for row in rows] == list(range(0, 400, 2))
        assert math.isnan(rows[2]["loss"])
        times = [row["_timestamp"] for row in rows]
        assert times == sorted(times)
        assert [row["loss"] for row in rows[3:]] == [step / 2 for step in range(6, 400, 2)]
        assert rows[-1]["val_loss"] == 0.5
        assert run["summary"]["result/val_loss"] == 0.5
        assert run["summary"]["ampcore.run_id"] == output.strip()
