import json
import re

import pytest

from ampspec.jobs import JobSpec
from server.embedded.data_folder import DataFolder
from server.embedded.stack import _ready_message, _schedulers, _variables
from server.serve import StartFailed
from server.settings import Settings


def test_the_suggested_command_submits_a_valid_spec(tmp_path):
    message = _ready_message(DataFolder(tmp_path), "http://127.0.0.1:8470", None)
    [spec] = re.findall(r"echo '(.*)' \| .*ampctl submit - --watch", message)
    assert JobSpec.parse(json.loads(spec)).model.kind == "mlp"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"scheduler": "kubernetes"}, "its pods cannot open the database of `ampserver up`"),
        ({"scheduler": "pbs"}, "expected slurm or kubernetes, received 'pbs'"),
        (
            {"scheduler": "slurm"},
            "AMPCORE_SCHEDULER_CONFIG.: expected a YAML file .* received none",
        ),
        ({"scheduler": "slurm", "scheduler_config": "/no/file"}, "/no/file: No such file"),
    ],
)
def test_a_scheduler_that_cannot_run_is_named_at_the_start(tmp_path, values, message):
    with pytest.raises(StartFailed, match=message):
        _schedulers(DataFolder(tmp_path), Settings(**values), {})


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, r"queues\.cpu: expected a queue that the worker of `ampserver up` does not serve"),
        ({"AMPCORE_WORKER_QUEUES": "default, birds"}, r"queues\.birds: expected"),
        ({"AMPCORE_WORKER_QUEUES": "default"}, None),
    ],
)
def test_a_queue_of_slurm_is_not_one_of_the_worker(tmp_path, variables, message):
    config = tmp_path / "slurm.yaml"
    config.write_text("queues: {cpu: {}, birds: {}}")
    settings = Settings(scheduler="slurm", scheduler_config=config)
    if message is None:
        assert len(_schedulers(DataFolder(tmp_path), settings, variables)) == 1
        return
    with pytest.raises(StartFailed, match=message):
        _schedulers(DataFolder(tmp_path), settings, variables)


def test_the_variable_of_a_worker_for_one_job_does_not_reach_the_worker(monkeypatch):
    monkeypatch.setenv("AMPCORE_WORKER_JOB", "0123456789ab")
    assert "AMPCORE_WORKER_JOB" not in _variables({"port": 1})
