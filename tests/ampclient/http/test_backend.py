"""The connections of the HTTP clients."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from ampclient import AsyncClient, Client
from tests.waiting import DEADLINE_S

MANY = 120
"""More than the connections that httpx opens by default."""
RESPONSE = (
    b'HTTP/1.1 200 OK\r\nContent-Length: 48\r\n\r\n{"version": "9.8.7", "api": "v1", "schema": "3"}'
)


async def call_sync(url):
    client = Client(url, "token", timeout_s=DEADLINE_S)
    with ThreadPoolExecutor(MANY) as pool, client:
        loop = asyncio.get_running_loop()
        calls = [loop.run_in_executor(pool, client.version) for _ in range(MANY)]
        return await asyncio.gather(*calls)


async def call_async(url):
    async with AsyncClient(url, "token", timeout_s=DEADLINE_S) as client:
        return await asyncio.gather(*(client.version() for _ in range(MANY)))


@pytest.mark.parametrize("call", [call_sync, call_async])
def test_requests_that_the_server_holds_leave_connections_for_others(call):
    held = []

    async def run():
        all_are_held = asyncio.Event()

        async def hold(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            held.append(writer)
            if len(held) == MANY:
                all_are_held.set()
            await all_are_held.wait()
            writer.write(RESPONSE)
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(hold, "127.0.0.1", 0, backlog=MANY) as serving:
            port = serving.sockets[0].getsockname()[1]
            return await call(f"http://127.0.0.1:{port}")

    assert len(asyncio.run(run())) == len(held) == MANY
