"""The variables of launchers, as their programs were seen to set them."""

import pytest

from ampcore.distributed.launchers.placement import find_placement, is_alone

OPEN_MPI = {
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_RANK": "1",
    "PMIX_NAMESPACE": "924319745",
}
HYDRA = {"PMI_SIZE": "2", "PMI_RANK": "1", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
CRAY = {"PMI_SIZE": "8", "PMI_RANK": "5", "PMI_LOCAL_RANK": "1", "PMI_LOCAL_SIZE": "4"}
TORCHRUN = {"WORLD_SIZE": "4", "RANK": "3", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
SRUN = {
    "SLURM_NTASKS": "2",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0",
}
FLUX = {"FLUX_JOB_SIZE": "2", "FLUX_TASK_RANK": "1", "FLUX_TASK_LOCAL_ID": "0"}
BATCH_SCRIPT = {"SLURM_JOB_ID": "2", "SLURM_NTASKS": "2", "SLURM_PROCID": "0", "SLURM_NNODES": "2"}
"""A script that sbatch runs is one process, however many tasks its job may start."""


@pytest.mark.parametrize(
    ("environ", "launcher", "place"),
    [
        (OPEN_MPI, "Open MPI", (1, 2, 1, 2)),
        (HYDRA, "MPI", (1, 2, 1, 2)),
        (CRAY, "MPI", (5, 8, 1, 4)),
        (TORCHRUN, "torchrun", (3, 4, 1, 2)),
        (SRUN, "Slurm", (1, 2, 0, None)),
        ({**SRUN, "SLURM_STEP_NUM_NODES": "1"}, "Slurm", (1, 2, 0, 2)),
        (FLUX, "Flux", (1, 2, 0, None)),
        ({"MV2_COMM_WORLD_SIZE": "2", "MV2_COMM_WORLD_RANK": "0"}, "MVAPICH2", (0, 2, None, None)),
        # One inside of the other: the inner one has started this process.
        ({**SRUN, **OPEN_MPI}, "Open MPI", (1, 2, 1, 2)),
        ({**SRUN, **TORCHRUN}, "torchrun", (3, 4, 1, 2)),
        # torchrun with one process, started twice by srun; a WORLD_SIZE that a library has left.
        ({**SRUN, "WORLD_SIZE": "1", "RANK": "0"}, "Slurm", (1, 2, 0, None)),
        ({**OPEN_MPI, "WORLD_SIZE": "1"}, "Open MPI", (1, 2, 1, 2)),
    ],
)
def test_the_rank_is_that_of_the_launcher(environ, launcher, place):
    placement = find_placement(environ)
    assert placement is not None
    assert placement.launcher == launcher
    assert (
        placement.rank, placement.size, placement.local_rank, placement.local_size
    ) == place  # fmt: skip


@pytest.mark.parametrize(
    "environ",
    [
        {},
        BATCH_SCRIPT,
        {"WORLD_SIZE": "1", "RANK": "0"},
        {"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"},
        {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0", "PMIX_RANK": "0"},
        {"PMIX_RANK": "0"},
        {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "bash", "SLURM_NTASKS": "4"},  # salloc's shell
    ],
)
def test_a_program_that_was_started_once_is_alone(environ):
    assert find_placement(environ) is None


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is 2, but RANK is not set"),
        ({"WORLD_SIZE": "2", "RANK": "2"}, "RANK: expected an integer from 0 to 1; received '2'."),
        ({"WORLD_SIZE": "two", "RANK": "0"}, "WORLD_SIZE: expected an integer"),
        ({"WORLD_SIZE": "-2", "RANK": "0"}, "WORLD_SIZE: expected an integer"),
        ({"SLURM_STEP_NUM_TASKS": "2"}, "SLURM_STEP_NUM_TASKS is 2, but SLURM_PROCID is not set"),
        ({"PMIX_RANK": "1"}, "PMIX_RANK is 1, so this program has several ranks"),
        ({"OMPI_COMM_WORLD_SIZE": "5000"}, "from 0 to 1024; received '5000'"),
    ],
)
def test_copies_are_never_trained_in_silence(environ, message):
    with pytest.raises(ValueError, match=r"expected|AMPCORE_RANKS=1") as caught:
        find_placement(environ)
    assert message in str(caught.value)


def test_copies_may_be_meant():
    assert is_alone({"AMPCORE_RANKS": "1"})
    assert not is_alone({})
    with pytest.raises(ValueError, match="AMPCORE_RANKS: expected 1"):
        is_alone({"AMPCORE_RANKS": "2"})
