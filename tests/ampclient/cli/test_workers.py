def test_each_worker_is_a_row(ampctl, server, worker):
    gpu = {"kind": "gpu", "name": "NVIDIA H200", "memory_bytes": 139 * 2**30}
    server.workers = [worker(hardware={"devices": [{"kind": "cpu", "name": "EPYC"}, gpu]})]
    _, row = ampctl("workers").out.splitlines()
    assert [cell.strip() for cell in row.split("  ") if cell.strip()][:6] == [
        "w1", "box", "online", "1/2", "default cpu", "NVIDIA H200 (139 GiB)"
    ]  # fmt: skip
    assert ampctl("workers", "--json").json() == server.workers


def test_a_worker_without_accelerator_shows_its_processor(ampctl, server, worker):
    cpu = {"kind": "cpu", "name": "EPYC", "cores": 2}
    server.workers = [worker(hardware={"devices": [cpu]})]
    assert "EPYC (2 cores)" in ampctl("workers").out


def test_workers_that_are_not_online_are_counted_or_shown_on_request(ampctl, server, worker):
    server.workers = [worker(), worker(id="w2", state="lost"), worker(id="w3", state="stopped")]
    result = ampctl("workers")
    assert len(result.out.splitlines()) == 2
    assert result.err == "2 lost or stopped workers not shown; use --all to see them.\n"
    every = ampctl("workers", "--all")
    assert [row.split()[0] for row in every.out.splitlines()[1:]] == ["w1", "w2", "w3"]
    assert every.err == ""
    assert [listed["id"] for listed in ampctl("workers", "--json").json()] == ["w1"]


def test_an_empty_list_of_workers_says_so(ampctl):
    assert ampctl("workers").err == "No worker is online.\n"


def test_a_drained_worker_is_shown_as_draining(ampctl, server, worker):
    server.workers = [worker()]
    drained = ampctl("workers", "drain", "w1").out
    assert drained == "Draining w1 on box; jobs to return to the queue: 1\n"
    assert ampctl("workers").out.splitlines()[1].split()[2] == "draining"
    assert ampctl("workers", "drain", "w1", "--json").json()["draining"] is True


def test_a_worker_for_one_job_shows_it_in_place_of_queues(ampctl, server, worker):
    server.workers = [worker(job_id="ab12", jobs=[])]
    assert "job ab12" in " ".join(ampctl("worker", "list").out.split())
