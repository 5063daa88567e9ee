"""Slurm's commands: what is submitted, and what is read, on a real cluster of two nodes."""

import re
import tempfile
from pathlib import Path

import pytest

from infra.settings import SettingsInvalid
from server.allocations.batch_system import (
    AllocationRequest,
    BatchSystemUnavailable,
    SubmissionRefused,
)
from server.allocations.slurm import Slurm
from server.allocations.slurm_settings import SlurmSettings, read_slurm_settings
from tests.slurm import slurm_cluster
from tests.waiting import wait_until

GUIDE = Path(__file__).parents[3] / "docs/guides/clusters.md"
LIMIT_S = 300.0
WORKER = """#!/bin/sh
echo "$@" > {folder}/arguments.$SLURM_PROCID
trap 'touch {folder}/warned.$SLURM_PROCID; exit 0' USR1 TERM
env > {folder}/environ.$SLURM_PROCID
while :; do sleep 0.1; done
"""


@pytest.fixture(scope="module")
def cluster():
    """Two nodes."""
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, slurm_cluster(Path(folder)) as two:
        yield two


@pytest.fixture
def slurm(cluster, tmp_path):
    """Slurm with a worker that writes its variables and arguments, and ends when it is told to."""
    worker = tmp_path / "worker"
    worker.write_text(WORKER.format(folder=tmp_path))
    worker.chmod(0o755)
    settings = SlurmSettings(
        setup=["export LOADED=cuda"],
        queues={"batch": {"partition": "main", "options": {"nice": 5}}},
        command=[str(worker)],
    )
    environ = {
        **{"PATH": "/usr/bin:/bin", "AMPCORE_DATABASE_URL": "secret", "OTHER": "not passed"},
        # What a person's environment may hold, and would change what is submitted and listed.
        **{"AMPCORE_TOKEN": "of a client", "SBATCH_ARRAY_INX": "0-2", "SQUEUE_PARTITION": "none"},
    }
    return Slurm(settings, {**environ, **cluster.environ})


def request(name, nodes=1, devices=1, queue="batch"):
    return AllocationRequest(name, "0123456789ab", queue, nodes, devices, LIMIT_S)


@pytest.mark.slow
@pytest.mark.needs("slurm")
def test_one_worker_is_started_on_each_node_and_ended(slurm, cluster, tmp_path):
    external_id = slurm.submit(request("ampcore-two-1-1", nodes=2, devices=2))
    started = [tmp_path / f"environ.{number}" for number in range(2)]
    wait_until(lambda: all(file.exists() for file in started), "both workers")
    status = slurm.statuses()["ampcore-two-1-1"]
    assert (status.external_id, status.state, status.nodes) == (external_id, "RUNNING", "n[1-2]")
    assert (status.has_ended, status.reason) == (False, None)
    for number, file in enumerate(started):
        environ = dict(line.partition("=")[::2] for line in file.read_text().splitlines())
        assert (environ["AMPCORE_DATABASE_URL"], environ["AMPCORE_WORKER_SLOTS"]) == ("secret", "2")
        assert {"OTHER", "AMPCORE_TOKEN"}.isdisjoint(environ)
        assert environ["LOADED"] == "cuda"
        arguments = (tmp_path / f"arguments.{number}").read_text()
        assert arguments == "worker --job 0123456789ab\n"
    shown = cluster.run("scontrol", "show", "job", external_id).stdout
    # Two minutes for the start, five of the job, two for the warning, one that it may be early.
    assert re.search(r"TimeLimit=00:10:00", shown)
    assert "secret" not in shown
    slurm.cancel(external_id)
    wait_until(lambda: slurm.statuses()["ampcore-two-1-1"].has_ended, "the end")
    assert slurm.statuses()["ampcore-two-1-1"].state == "CANCELLED"
    assert all((tmp_path / f"warned.{number}").exists() for number in range(2))
    slurm.cancel(external_id)  # again: it has ended


@pytest.mark.slow
@pytest.mark.needs("slurm")
def test_two_submissions_of_one_name_run_one_after_the_other(slurm, cluster, tmp_path):
    """As when a scheduler was suspended while another one submitted the same."""
    first = slurm.submit(request("ampcore-twice-1-1"))
    wait_until((tmp_path / "environ.0").exists, "its worker")
    second = slurm.submit(request("ampcore-twice-1-1"))

    def reason():
        return cluster.run("squeue", "--noheader", f"--jobs={second}", "--format=%T %r").stdout

    wait_until(lambda: reason().strip() == "PENDING Dependency", show=reason)
    slurm.cancel(second)
    slurm.cancel(first)


@pytest.mark.slow
@pytest.mark.needs("slurm")
def test_jobs_of_other_programs_may_have_any_name(slurm, cluster):
    for name in (b"two\nlines", b"a|b|c|d|e|f|g", b"\xe9t\xe9"):
        ended = cluster.run("sbatch", "--hold", b"--job-name=" + name, "--wrap=true")
        assert ended.returncode == 0, ended.stderr
    slurm.submit(request("ampcore-beside-1-1"))
    assert "ampcore-beside-1-1" in slurm.statuses()
    cluster.end_jobs()


@pytest.mark.slow
@pytest.mark.needs("slurm")
def test_what_does_not_fit_yet_waits_with_a_reason(slurm):
    ids = [slurm.submit(request(f"ampcore-{name}-1-1", nodes=2, devices=2)) for name in "ab"]
    wait_until(
        lambda: slurm.statuses()["ampcore-b-1-1"].reason in ("Resources", "Priority"), "the reason"
    )
    assert slurm.statuses()["ampcore-b-1-1"].state == "PENDING"
    for external_id in ids:
        slurm.cancel(external_id)
    wait_until(lambda: all(status.has_ended for status in slurm.statuses().values()), "the end")


@pytest.mark.slow
@pytest.mark.needs("slurm")
def test_the_message_of_a_refusal_is_that_of_sbatch(slurm, cluster):
    settings = SlurmSettings(queues={"batch": {"partition": "nowhere"}})
    refusing = Slurm(settings, {"PATH": "/usr/bin:/bin", **cluster.environ})
    with pytest.raises(SubmissionRefused, match="invalid partition specified: nowhere"):
        refusing.submit(request("ampcore-c-1-1"))
    assert "ampcore-c-1-1" not in slurm.statuses()


@pytest.mark.slow
@pytest.mark.needs("slurm")
def test_a_controller_that_does_not_answer_says_nothing_of_the_jobs(cluster, tmp_path):
    config = Path(cluster.environ["SLURM_CONF"]).read_text()
    unreachable = tmp_path / "slurm.conf"
    text = re.sub(r"SlurmctldPort=\d+", "SlurmctldPort=9", config)
    unreachable.write_text(f"{text}MessageTimeout=2\nSlurmctldTimeout=2\n")
    settings = SlurmSettings(queues={"batch": {}})
    slurm = Slurm(settings, {"PATH": "/usr/bin:/bin", "SLURM_CONF": str(unreachable)})
    with pytest.raises(BatchSystemUnavailable):
        slurm.statuses()


def test_a_machine_without_slurm_says_so(tmp_path):
    slurm = Slurm(SlurmSettings(queues={"batch": {}}), {"PATH": str(tmp_path)})
    with pytest.raises(BatchSystemUnavailable, match="The program squeue is not installed"):
        slurm.statuses()


def test_the_settings_in_the_guide_are_valid(tmp_path):
    text = GUIDE.read_text()
    [block] = re.findall(r"^```yaml\n(# slurm.yaml\n.*?)^```$", text, re.MULTILINE | re.DOTALL)
    file = tmp_path / "slurm.yaml"
    file.write_text(block)
    settings = read_slurm_settings(file)
    assert settings.queues["a100"].gres == "gpu:a100"
    assert settings.queues["cpu"].time_limit_s == 86_400


@pytest.mark.parametrize(
    ("queue", "arguments"),
    [
        # As in published scripts, without the quotation marks that YAML would not need.
        ("{partition: gpu, gres: gpu, constraint: pascal, memory_per_node: 128000}",
         ["--partition=gpu", "--gres=gpu:2", "--constraint=pascal", "--mem=128000"]),
        ("{memory_per_node: 0, account: 20177, options: {exclusive: true, nice: 5}}",
         ["--mem=0", "--account=20177", "--exclusive", "--nice=5"]),
        ("{constraint: gpu, qos: regular, account: m2859_g, options: {licenses: SCRATCH, "
         "gpus-per-node: 4, module: 'gpu,nccl-plugin'}}",
         ["--constraint=gpu", "--qos=regular", "--account=m2859_g", "--licenses=SCRATCH",
          "--gpus-per-node=4", "--module=gpu,nccl-plugin"]),
        ("{partition: long, options: {exclude: 'kepler4,kepler3', wait-all-nodes: 1}}",
         ["--partition=long", "--exclude=kepler4,kepler3", "--wait-all-nodes=1"]),
        ("{gres: 'gpu:A100', options: {mem-per-cpu: 1G, mail-type: END, exclusive: false}}",
         ["--gres=gpu:A100:2", "--mem-per-cpu=1G", "--mail-type=END"]),
    ],
)  # fmt: skip
def test_what_published_scripts_ask_for_can_be_asked_for(tmp_path, queue, arguments):
    """`sbatch` here is a program that writes down its arguments."""
    file, program, written = (tmp_path / name for name in ("slurm.yaml", "sbatch", "arguments"))
    file.write_text(f"queues: {{batch: {queue}}}")
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {written}\necho 17\n')
    program.chmod(0o755)
    slurm = Slurm(read_slurm_settings(file), {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert slurm.submit(request("ampcore-a-1-1", devices=2)) == "17"
    lines = written.read_text().splitlines()
    assert set(arguments) <= set(lines)
    assert not any(line.startswith("--exclusive=") for line in lines)


def test_a_submission_that_was_killed_is_not_refused(tmp_path):
    """Slurm may have received it."""
    program = tmp_path / "sbatch"
    program.write_text("#!/bin/sh\nkill -TERM $$\n")
    program.chmod(0o755)
    slurm = Slurm(SlurmSettings(queues={"batch": {}}), {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    with pytest.raises(BatchSystemUnavailable):
        slurm.submit(request("ampcore-a-1-1"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("queues: {}", "/queues: Expected"),
        ("queues: {gpu: {partitions: x}}", "/queues/gpu/partitions"),
        ("queues: {gpu: {partition: 'a b'}}", "/queues/gpu/partition"),
        ("queues: {gpu: {options: {wrap: rm}}}", "queues.gpu.options.wrap: expected one of"),
        ("queues: {gpu: {warning_s: 1}}", "/queues/gpu/warning_s"),
        ("queues: [", "invalid YAML in line 1"),
    ],
)
def test_a_mistake_in_the_settings_is_named(tmp_path, text, message):
    file = tmp_path / "slurm.yaml"
    file.write_text(text)
    with pytest.raises(SettingsInvalid) as caught:
        read_slurm_settings(file)
    assert message in str(caught.value)
    assert str(file) in str(caught.value)
