"""Checks of what this process reaches from this machine: Redis, the storage, folders and disks."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from infra.storage import Storage
from infra.storage_check import ANSWER_S, StorageCheck
from server.doctor.findings import GIB, Finding, ok, problem, size, warning
from server.embedded.data_folder import DataFolder
from server.serve import StartFailed
from server.settings import Settings

TIMEOUT_S: Final = 5.0
FREE_SHARE: Final = 0.1
FREE_BYTES: Final = 5 * GIB


def machine_findings(settings: Settings) -> Iterator[Finding]:
    """What is found without the database."""
    if "redis_url" not in settings.model_fields_set and _is_embedded(settings.data_dir):
        yield ok("redis", "that of `ampserver up`, which starts it again if it ends")
    else:
        yield _redis(settings.redis_url)
    yield _storage(settings.artifacts_url)
    folders = {"data folder": settings.data_dir}
    if (address := urlsplit(settings.artifacts_url)).scheme == "file":
        folders["artifacts folder"] = Path(unquote(address.path))
    for name, folder in folders.items():
        yield _folder(name, folder)


def _is_embedded(folder: Path) -> bool:
    """Whether `ampserver up` runs in the data folder, with a Redis of its own."""
    try:
        DataFolder(folder).refuse_if_taken()
    except StartFailed:
        return True
    return False


def _redis(url: str) -> Finding:
    client = redis.Redis.from_url(
        url,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
    )
    try:
        facts: Any = client.info()
        policy = facts.get("maxmemory_policy", "noeviction")
    except redis.RedisError as error:
        return problem(
            "redis",
            f"it does not answer: {error}",
            "Start it, or correct AMPCORE_REDIS_URL. Until then jobs wait in the queue.",
        )
    finally:
        client.close()
    used = f"Redis {facts.get('redis_version')}, {size(facts.get('used_memory', 0))}"
    if facts.get("maxmemory") and policy != "noeviction":
        return warning(
            "redis",
            f"{used}; with maxmemory-policy {policy} it deletes messages when its memory is full",
            "Set `maxmemory-policy noeviction`. Lost messages are sent again, which takes seconds.",
        )
    return ok("redis", used)


def _storage(url: str) -> Finding:
    """Whether a file can be stored, read and deleted; asked in a thread, since it may hang."""
    check = StorageCheck(Storage(url))
    check.start()
    error = check.last_error(ANSWER_S)
    check.stop()
    if error is None:
        return ok("artifacts", "a file was stored, read and deleted")
    return problem(
        "artifacts",
        error,
        "Correct AMPCORE_ARTIFACTS_URL or the credentials of the storage: workers take no jobs "
        "while they cannot store files.",
    )


def _folder(name: str, folder: Path) -> Finding:
    """Whether this user may write there, and how much room is left on its disk."""
    if not folder.is_dir():
        return ok(name, f"{folder} does not exist yet")
    if not os.access(folder, os.W_OK | os.X_OK):
        return problem(
            name,
            f"the user with the id {os.getuid()} may not write to {folder}",
            f"Give it to that user: chown -R {os.getuid()} {folder}",
        )
    disk = shutil.disk_usage(folder)
    message = f"{size(disk.free)} of {size(disk.total)} are free for {folder}"
    if disk.free < min(FREE_SHARE * disk.total, FREE_BYTES):
        return warning(
            name,
            message,
            "Delete old jobs (`ampctl job delete-many --permanent`), set retention rules, or give "
            "it a larger disk.",
        )
    return ok(name, message)
