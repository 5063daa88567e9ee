import json
import multiprocessing
import os
import stat

import pytest

from server.embedded.data_folder import DataFolder
from server.serve import StartFailed
from tests.waiting import DEADLINE_S


@pytest.fixture
def folder(tmp_path):
    folder = DataFolder(tmp_path / "data")
    folder.create()
    return folder


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_the_token_is_created_once_and_only_its_owner_can_read_it(folder):
    secret = folder.token()
    assert secret.startswith("amp_")
    assert len(secret) > 40
    assert folder.token() == DataFolder(folder.path).token() == secret
    assert mode(folder.token_file) == 0o600


def test_only_the_owner_can_read_a_data_folder(folder):
    """Including the files of an older version."""
    old = [folder.path / "ampcore.sqlite", folder.logs / "api.log", folder.run / "redis.conf"]
    for file in old:
        file.touch()
        file.chmod(0o644)
    for inner in ("artifacts", "scratch"):
        (folder.path / inner).mkdir()
    folders = [folder.path, *(one for one in folder.path.iterdir() if one.is_dir())]
    for one in folders:
        one.chmod(0o755)
    DataFolder(folder.path).create()
    assert {mode(file) for file in old} == {0o600}
    # Trainers of a worker that runs as root have their own users.
    passed = {folder.path: 0o711, folder.datasets: 0o755} if os.geteuid() == 0 else {}
    assert {one: mode(one) for one in folders} == {one: passed.get(one, 0o700) for one in folders}


def test_an_existing_shared_folder_keeps_its_mode(tmp_path):
    (tmp_path / "all").mkdir()
    (tmp_path / "all").chmod(0o1777)
    DataFolder(tmp_path / "all").create()
    assert mode(tmp_path / "all") == 0o1777
    assert mode(tmp_path / "all" / "logs") == 0o700


def test_an_empty_token_file_gets_a_new_token(folder):
    folder.token_file.write_text("\n")
    assert folder.token()
    assert folder.token_file.read_text().strip() == folder.token()


def test_a_token_file_that_others_can_read_is_made_private(folder):
    folder.token()
    folder.token_file.chmod(0o644)
    folder.token()
    assert mode(folder.token_file) == 0o600


def test_the_connection_file_is_private_and_deleted_at_the_end(folder):
    folder.write_connection("http://127.0.0.1:1")
    connection = json.loads(folder.connection_file.read_text())
    assert connection == {"url": "http://127.0.0.1:1", "token": folder.token()}
    assert mode(folder.connection_file) == 0o600
    folder.remove_connection()
    folder.remove_connection()
    assert not folder.connection_file.exists()
    assert not [name for name in os.listdir(folder.path) if name.startswith(".")]


def test_the_lock_excludes_a_second_server_until_it_is_released(folder):
    with folder.lock(), pytest.raises(StartFailed, match=rf"process {os.getpid()}.*--data"):
        folder.lock().__enter__()
    with folder.lock():
        pass


def test_checking_whether_a_server_runs_creates_no_folder(folder, tmp_path):
    DataFolder(tmp_path / "new").refuse_if_taken()
    assert not (tmp_path / "new").exists()
    with folder.lock(), pytest.raises(StartFailed, match=rf"process {os.getpid()}"):
        folder.refuse_if_taken()
    folder.refuse_if_taken()


def _hold(path, taken):
    with DataFolder(path).lock():
        taken.set()
        multiprocessing.Event().wait()


def test_a_killed_server_holds_no_lock(folder):
    context = multiprocessing.get_context("spawn")
    taken = context.Event()
    process = context.Process(target=_hold, args=(folder.path, taken))
    process.start()
    assert taken.wait(DEADLINE_S)
    with pytest.raises(StartFailed):
        folder.lock().__enter__()
    process.kill()
    process.join()
    with folder.lock():
        pass


def test_the_error_names_a_path_that_cannot_be_a_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StartFailed, match="file"):
        DataFolder(tmp_path / "file").create()
