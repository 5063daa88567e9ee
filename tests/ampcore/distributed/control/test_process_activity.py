"""Whether a process does anything, as its ranks tell each other."""

import subprocess
import sys
import threading

from tests.waiting import DEADLINE_S

PROGRAM = """
import os, sys, tempfile, threading, time
from ampcore.distributed.control.process_activity import ACTIVE_BYTES, ProcessActivity

activity = ProcessActivity(threading.get_native_id())

def wait_until_idle():
    while activity.idle_s() < 1.0:
        time.sleep(0.2)

wait_until_idle()                       # a thread that sleeps
lock = threading.Lock()
lock.acquire()
threading.Thread(target=lock.acquire, daemon=True).start()
wait_until_idle()                       # ... or waits for a lock
print("idle", flush=True)

while activity.idle_s():                # the training thread computes
    sum(range(10**6))
wait_until_idle()
busy = threading.Event()
worker = threading.Thread(target=lambda: [sum(range(10**6)) for _ in iter(busy.is_set, True)])
worker.start()
while activity.idle_s():                # it waits for another thread, which computes
    time.sleep(0.2)
busy.set()
worker.join()
wait_until_idle()
with tempfile.TemporaryFile() as file:
    file.write(bytes(2 * ACTIVE_BYTES))  # it writes, which takes hardly any time
    file.flush()
    print("wrote", activity.idle_s(), flush=True)
"""


def test_a_process_that_computes_or_writes_is_active_and_one_that_sleeps_is_not() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.stdout.splitlines() == ["idle", "wrote 0.0"], done.stderr


def test_the_state_of_a_thread_that_has_ended_is_no_activity() -> None:
    from ampcore.distributed.control.process_activity import ProcessActivity

    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert ProcessActivity(2**22 - 1)._waits_for_a_disk() is False
