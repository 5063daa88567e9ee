"""Where ranks meet: the host and the port that all of them derive, and no other start."""

import pytest

from ampcore.distributed.launchers import leader_host
from ampcore.distributed.launchers.meeting_point import find_meeting_point, first_node
from ampcore.distributed.launchers.placement import Placement
from ampspec.errors import RankDisconnected

SLURM = Placement("Slurm", "SLURM_STEP_NUM_TASKS", 1, 2, 0)
MPI = Placement("MPI", "PMI_SIZE", 1, 2, 0, 1)
STEP = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "localhost",
    "SLURM_NODEID": "1",
}


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("n1", "n1"),
        ("n[1-2]", "n1"),
        ("gpu[007,010-012],m1", "gpu007"),
        ("a,b[1-2]", "a"),
        ("rack[1-2]node[03-04]", "rack1node03"),
        ("compute-permanent-node-[583,752,801,869]", "compute-permanent-node-583"),
    ],
)
def test_the_first_node_of_a_list(nodes, first):
    assert first_node(nodes) == first


def test_ranks_of_mpiexec_in_a_job_of_slurm_look_for_rank_0_on_its_first_node():
    """Those on other nodes are children of a step that does not have the first one."""
    open_mpi = Placement("Open MPI", "OMPI_COMM_WORLD_SIZE", 1, 2, 0, 1)
    environ = {
        "PMIX_NAMESPACE": "924319745",
        "SLURM_JOB_NODELIST": "localhost,n2",
        "SLURM_STEP_NODELIST": "n2",
    }
    assert find_meeting_point(open_mpi, environ).host == "localhost"


def test_each_step_of_slurm_has_a_place_of_its_own():
    point = find_meeting_point(SLURM, STEP)
    assert point.host == "localhost"
    assert point == find_meeting_point(SLURM, {**STEP, "SLURM_LOCALID": "1"})
    other = find_meeting_point(SLURM, {**STEP, "SLURM_STEP_ID": "1"})
    assert (other.token, other.ports) != (point.token, point.ports)
    assert 20_000 <= point.ports[0] < 32_768 - len(point.ports)


def test_the_address_and_port_that_a_user_sets_count():
    environ = {**STEP, "MASTER_ADDR": "head", "MASTER_PORT": "29500"}
    point = find_meeting_point(SLURM, environ)
    assert (point.host, point.ports[0]) == ("head", 29_500)
    beside_its_store = {**environ, "TORCHELASTIC_USE_AGENT_STORE": "True"}
    assert find_meeting_point(SLURM, beside_its_store).ports[0] == 29_501
    with pytest.raises(ValueError, match="MASTER_PORT: expected a port; received 'none'"):
        find_meeting_point(SLURM, {**environ, "MASTER_PORT": "none"})


def test_rank_0_on_another_node_than_the_first_one_is_said():
    leader = Placement("Slurm", "SLURM_STEP_NUM_TASKS", 0, 2, 0)
    environ = {**STEP, "SLURM_STEP_NODELIST": "n[1-2]", "SLURMD_NODENAME": "n2"}
    with pytest.raises(ValueError, match=r"Rank 0 runs on n2.*look for it on n1.*MASTER_ADDR"):
        find_meeting_point(leader, environ)


def test_the_first_machine_of_a_pbs_job(tmp_path):
    file = tmp_path / "nodes"
    file.write_text("x1000\nx1000\nx1001\n")
    assert find_meeting_point(MPI, {"PBS_NODEFILE": str(file), "PBS_JOBID": "1"}).host == "x1000"


def test_a_shared_folder_tells_the_host_of_rank_0(tmp_path, monkeypatch):
    environ = {"AMPCORE_MEETING_FOLDER": str(tmp_path), "PALS_APID": "a"}
    leader = Placement("MPI", "PMI_SIZE", 0, 2, 0, 1)
    host = find_meeting_point(leader, environ).host
    assert find_meeting_point(MPI, environ) == find_meeting_point(leader, environ)
    assert host == leader_host.own_host()
    monkeypatch.setattr(leader_host, "FILE_S", 0.0)
    with pytest.raises(RankDisconnected, match="must be a folder that all ranks share"):
        find_meeting_point(MPI, {**environ, "PALS_APID": "another start"})


def test_without_a_way_to_connect_the_message_names_the_variables(monkeypatch):
    monkeypatch.setattr(leader_host, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="PMI_SIZE is 2") as caught:
        find_meeting_point(MPI, {})
    for name in ("MASTER_ADDR", "AMPCORE_MEETING_FOLDER", "mpi4py", "AMPCORE_RANKS=1"):
        assert name in str(caught.value)
