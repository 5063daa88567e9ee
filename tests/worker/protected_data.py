"""A data folder, sockets and processes that no trainer may reach."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from infra.storage import Storage
from tests.worker.conftest import WORKER
from worker.work_dirs import WorkDirs

SECRET = "amp_secret_of_the_service"
VARIABLE = "AMPCORE_TEST_SECRET"


class ProtectedData:
    """The data folder of a service, in a folder that other users can enter, unlike pytest's own."""

    def __init__(self) -> None:
        self.data = Path(tempfile.mkdtemp(prefix="ampcore-test-"))
        self.data.chmod(0o711)
        for folder in ("datasets", "artifacts/other", f"scratch/{WORKER}"):
            (self.data / folder).mkdir(parents=True)
        for file in ("token", "ampcore.sqlite", "connection.json"):
            (self.data / file).write_text(SECRET)
            (self.data / file).chmod(0o600)
        (self.data / "artifacts/other/model").write_text("weights")
        (self.data / "datasets/x").write_text("numbers")
        self.other_trainer_folder = self.data / f"scratch/{WORKER}/trainer-of-another-job"
        self.other_trainer_folder.mkdir(mode=0o700)
        self.storage = Storage((self.data / "artifacts").as_uri())
        self.work_dirs = WorkDirs(self.data / "scratch", WORKER)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract_name = f"ampcore-test-{os.getpid()}"
        self.abstract.bind(f"\0{self.abstract_name}")
        self.abstract.listen()
        self.socket_file = self.data / "server.sock"
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(str(self.socket_file))
        self.unix.listen()
        self.socket_file.chmod(0o777)
        self.datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.datagrams.bind(str(self.data / "datagrams.sock"))
        (self.data / "datagrams.sock").chmod(0o777)
        # A process with the service's password in its environment, as another server has it.
        self.process = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"],
            stdin=subprocess.PIPE,
            env={VARIABLE: SECRET},
        )

    def close(self) -> None:
        """End the process, close the sockets and remove the folder."""
        self.process.communicate()
        for open_socket in (self.listener, self.udp, self.abstract, self.unix, self.datagrams):
            open_socket.close()
        shutil.rmtree(self.data)
