def test_the_reason_and_the_workers_of_the_queue_are_shown(ampctl, server, worker):
    server.add_job("a", name="digits", queue="gpu", ranks=2, waiting="It is number 3 in the queue.")
    server.workers = [
        worker(id="w1", queues=["gpu"], jobs=["b"]),
        worker(id="w2", queues=["cpu"]),
        worker(id="w3", queues=["gpu"], state="lost"),
        worker(id="w4", queues=["gpu"], job_id="another"),
        worker(id="w5", queues=["gpu"], draining=True),
    ]
    lines = ampctl("job", "explain-wait", "a").out.splitlines()
    assert lines[0].startswith(
        "digits (a) waits in the queue 'gpu' with priority 5, for 2 ranks, submitted "
    )
    assert lines[1] == "It is number 3 in the queue."
    assert lines[3].startswith(
        "1 online worker serves the queue 'gpu'; jobs that you may see take 1 of 2 slots. Drained, "
        "and takes no job until it is started again: "
    )
    assert [line.split()[0] for line in lines[4:]] == ["ID", "w1"]


def test_a_queue_without_workers_names_the_queues_that_have_some(ampctl, server, worker):
    server.add_job("a", queue="gpu", waiting="No online worker serves the queue 'gpu'.")
    server.workers = [worker(queues=["cpu", "default"])]
    out = ampctl("job", "explain-wait", "a").out
    assert out.splitlines()[-1] == (
        "No online worker takes jobs of the queue 'gpu'; others serve cpu, default."
    )


def test_the_allocation_of_a_batch_system_is_shown(ampctl, server):
    server.add_job("a", waiting="Slurm job 7 is PENDING (Resources).")
    server.add_allocation("a", reason="Resources")
    lines = ampctl("job", "explain-wait", "a").out.splitlines()
    assert "What a batch system was asked for:" in lines
    assert lines[-1].split()[-1] == "Resources"


def test_a_worker_for_this_job_alone_may_run_it(ampctl, server, worker):
    server.add_job("a", waiting="A worker for this job alone was started.")
    server.workers = [worker(job_id="a", queues=[])]
    assert "A worker for this job alone is online." in ampctl("job", "explain-wait", "a").out


def test_a_job_that_does_not_wait_says_what_it_does(ampctl, server):
    server.add_job("a", name="digits", state="running")
    assert ampctl("job", "explain-wait", "a").out.startswith("digits (a) does not wait: it is run")
    server.add_job("b", name="digits", state="paused")
    out = ampctl("job", "explain-wait", "b").out
    assert out == "digits (b) is paused. Continue it with: ampctl job resume b\n"


def test_the_same_as_json(ampctl, server, worker):
    server.add_job("a", waiting="It is number 3 in the queue.")
    server.workers = [worker()]
    assert ampctl("job", "explain-wait", "a", "--json").json() == {
        "id": "a",
        "state": "queued",
        "queue": "default",
        "waiting": "It is number 3 in the queue.",
        "workers": server.workers,
        "allocations": [],
    }
