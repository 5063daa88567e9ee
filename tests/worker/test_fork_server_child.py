"""The fork server, with trainers of a few lines and with everything that it preloads."""

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from tests.processes import is_gone
from tests.waiting import DEADLINE_S
from tests.worker.fork_client import Server
from worker.trainer.child import fork_server

CODE = """
import os, signal, subprocess, sys, threading, time
from worker.trainer.child import fork_server
{preamble}
def train(frames, is_standby):
    print_line = lambda *words: print(*words, flush=True)
    read_line = sys.stdin.readline
{body}
    return 0
fork_server.serve(int(sys.argv[2]), train)
"""


@pytest.fixture
def serve(tmp_path):
    """Starts a server whose trainers run the given code."""
    servers = []

    def run(body, preamble=""):
        code = CODE.format(preamble=preamble, body=textwrap.indent(textwrap.dedent(body), "    "))
        servers.append(Server([sys.executable, "-c", code], tmp_path))
        return servers[-1]

    yield run
    for server in servers:
        server.close()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("return 0", 0),
        ("return 7", 7),
        ("sys.exit(3)", 3),
        ("sys.exit('no')", 1),
        ("raise ValueError('no')", 1),
        ("os._exit(9)", 9),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)", -signal.SIGTERM),
        ("os.abort()", -signal.SIGABRT),
    ],
)
def test_the_exit_code_of_a_trainer_is_reported(serve, body, code):
    trainer_process = serve(body).fork()
    assert trainer_process.exit_code() == code
    assert trainer_process.reap() > 0


def test_an_ended_trainer_keeps_its_pid_until_it_is_reaped(serve):
    trainer_process = serve("return 0").fork()
    trainer_process.exit_code()
    assert psutil.Process(trainer_process.pid).status() == psutil.STATUS_ZOMBIE
    os.killpg(trainer_process.pid, signal.SIGKILL)  # so a signal reaches no other process
    trainer_process.reap()
    assert not psutil.pid_exists(trainer_process.pid)


def test_a_trainer_joins_its_threads_and_flushes_its_output_before_it_exits(serve):
    trainer_process = serve(
        "threading.Thread(target=lambda: (time.sleep(0.2), print_line('the thread'))).start()\n"
        "print('and what was not flushed ', end='')"
    ).fork()
    assert trainer_process.exit_code() == 0
    assert sorted(trainer_process.log_file.read_text().split()) == sorted(
        ["the", "thread", "and", "what", "was", "not", "flushed"]
    )


PROCESS_STATE = """
import json
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
names = {int(name): os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")
         if os.path.exists(f"/proc/self/fd/{name}")}
print_line(json.dumps({
    "group": os.getpgrp(), "session": os.getsid(0), "is_standby": is_standby, "frames": frames,
    "names": names, "score": int(open("/proc/self/oom_score_adj").read()),
    "handlers": [str(signal.getsignal(n)) for n in (15, 1, 17)], "wakeup": signal.set_wakeup_fd(-1),
    "ignored": status["SigIgn"], "blocked": status["SigBlk"], "line": read_line()}))
"""


def test_a_trainer_has_its_own_group_and_inherits_no_files_or_signal_handlers(serve):
    server = serve(PROCESS_STATE)
    other_trainers = [server.fork() for _ in range(3)]
    trainer_process = server.fork(is_standby=True)
    for trainer in (*other_trainers, trainer_process):
        trainer.close_input()
    assert trainer_process.exit_code() == 0
    facts = json.loads(trainer_process.log_file.read_text())
    assert facts["group"] == trainer_process.pid
    assert facts["session"] == server.process.pid
    assert facts["is_standby"]
    assert facts["line"] == ""
    assert facts["score"] == fork_server.OOM_SCORE_ADJ
    # Its three streams and its frames; the descriptor of the listing itself is closed again.
    assert {int(number) for number in facts["names"]} == {0, 1, 2, facts["frames"]}
    assert facts["names"]["1"] == str(trainer_process.log_file)
    assert facts["handlers"] == ["Handlers.SIG_DFL"] * 3 or facts["handlers"] == ["0"] * 3
    assert facts["wakeup"] == -1
    assert int(facts["blocked"], 16) == 0
    ours = int(facts["ignored"], 16)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGCHLD):
        assert not ours >> (number - 1) & 1, number


def test_a_signal_right_after_the_fork_is_delivered(serve):
    """Even before the trainer has set up its own signal handling."""
    server = serve("time.sleep(60)")
    for _ in range(20):
        trainer_process = server.fork()
        os.killpg(trainer_process.pid, signal.SIGTERM)
        assert trainer_process.exit_code() == -signal.SIGTERM
        trainer_process.reap()


def test_trainers_are_killed_when_the_server_dies(serve, wait_until):
    server = serve("time.sleep(60)")
    children = [server.fork() for _ in range(3)]
    server.process.kill()
    wait_until(lambda: all(is_gone(trainer_process.pid) for trainer_process in children))


def test_the_server_exits_when_its_supervisor_closes_the_socket(serve):
    server = serve("time.sleep(60)")
    server.fork()
    server.requests.close()
    assert server.process.wait(DEADLINE_S) == 0


@pytest.mark.parametrize("number", fork_server.IGNORED_SIGNALS)
def test_the_server_ignores_signals_to_all_processes_of_a_worker(serve, number):
    server = serve("read_line()")
    trainer_process = server.fork()
    server.process.send_signal(number)
    second = server.fork()
    assert not is_gone(trainer_process.pid)
    assert not is_gone(second.pid)


def test_a_trainer_is_killed_when_its_supervisor_closes_its_socket(serve, wait_until):
    server = serve("time.sleep(60)")
    trainer_process = server.fork()
    trainer_process.status.close()
    wait_until(lambda: not psutil.pid_exists(trainer_process.pid))
    server.fork()


def test_no_trainer_is_forked_for_a_supervisor_that_closed_its_sockets(serve):
    server = serve("return 0")
    ours, peer = socket.socketpair()
    ours.close()
    unused = [os.open(os.devnull, os.O_RDWR) for _ in range(4)]
    socket.send_fds(server.requests, [fork_server.JOB], [*unused, peer.fileno()])
    for descriptor in unused:
        os.close(descriptor)
    peer.close()
    trainer_process = server.fork()  # the next request is answered, and its trainer is the only one
    assert [child.pid for child in psutil.Process(server.process.pid).children()] == [
        trainer_process.pid
    ]


def test_a_failed_fork_is_reported(serve):
    server = serve("pass", preamble="def no(): raise OSError(11, 'no more')\nos.fork = no")
    trainer_process = server.fork()
    assert trainer_process.pid is None
    assert trainer_process.error == "[Errno 11] no more"


BEFORE_THE_FORK = """
import json, os, sys, threading
from worker.trainer.child import trainer_process
trainer_process.preload()
names = ("keras", "tensorflow", "ampcore.training.trainer")
loaded = [name for name in names if name in sys.modules]
from tensorflow.python.eager import context
def comm(task):
    return open(f"/proc/self/task/{task}/comm").read().strip()
maps = {line.split()[-1] for line in open("/proc/self/maps") if "/" in line}
print(json.dumps({
    "loaded": loaded,
    "context": context._context is not None and context._context._context_handle is not None,
    "devices": context._context is not None and context._context._physical_devices is not None,
    "python_threads": threading.active_count(),
    "main": comm(os.getpid()),
    "threads": [comm(task) for task in os.listdir("/proc/self/task") if int(task) != os.getpid()],
    "openblas": len([name for name in maps if "openblas" in name]),
    "cuda": [name for name in maps if "libcuda.so" in name or "/dev/nvidia" in name],
    "files": [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
              if int(fd) > 2 and os.path.exists(f"/proc/self/fd/{fd}")],
    "frozen": __import__("gc").get_freeze_count(),
}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_preloading_starts_nothing_that_a_fork_does_not_copy(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-c", BEFORE_THE_FORK], capture_output=True, text=True, check=True
    )
    facts = json.loads(done.stdout)
    assert facts["loaded"] == ["keras", "tensorflow", "ampcore.training.trainer"]
    assert not facts["context"], "TensorFlow's runtime was started"
    assert not facts["devices"], "TensorFlow has looked for devices"
    assert facts["cuda"] == []
    assert facts["python_threads"] == 1
    # Two libraries start threads as they are loaded, and have handlers for a fork: pyarrow's
    # jemalloc, and NumPy's OpenBLAS, whose threads have the name of the program.
    named_threads = [name for name in facts["threads"] if name != facts["main"]]
    assert named_threads in ([], ["jemalloc_bg_thd"])
    of_openblas = len(facts["threads"]) - len(named_threads)
    assert of_openblas <= facts["openblas"] * (len(os.sched_getaffinity(0)) - 1)
    assert not [name for name in facts["files"] if "socket:" in name]
    assert facts["frozen"] > 100_000
