import signal


def test_watch_exits_0_only_for_success(ampctl, server, summary):
    server.add_job("a")
    server.change("a")
    server.change("a", state="succeeded", summary=summary)
    assert ampctl("watch", "a").code == 0
    server.add_job("b", state="failed")
    assert ampctl("watch", "b").code == 1


def test_watch_of_an_unknown_job_is_an_error(ampctl):
    result = ampctl("watch", "nobody")
    assert result.code == 1
    assert result.err.startswith("error: ")
    assert "(not_found, HTTP 404)" in result.err


def test_ctrl_c_detaches_and_says_how_to_go_on(start_ampctl, server):
    server.add_job("a", state="running")
    process = start_ampctl("watch", "a")
    assert "running" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "ampctl watch a" in err
    assert "Traceback" not in err
    assert server.jobs["a"]["state"] == "running"
    assert all(request.method == "GET" for request in server.requests)
