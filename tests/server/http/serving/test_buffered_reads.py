"""Connections that receive into one buffer: what they pass on to their protocols."""

import asyncio
import socket

import pytest
import uvloop

from server.http.serving.buffered_reads import READ_BYTES, BufferedReads, buffered
from tests.waiting import DEADLINE_S


class Echo(asyncio.Protocol):
    """Sends back what it receives, and records the events of its connection."""

    def __init__(self, name="echo"):
        self.name, self.events, self.sizes = name, [], []
        self.lost = asyncio.get_running_loop().create_future()
        echoes.append(self)

    def connection_made(self, transport):
        self.transport = transport
        self.events.append("made")

    def data_received(self, data):
        assert type(data) is bytes
        self.sizes.append(len(data))
        self.transport.write(data)

    def eof_received(self):
        self.events.append("eof")

    def connection_lost(self, exc):
        self.events.append("lost")
        self.lost.set_result(None)


echoes = []


@pytest.fixture(autouse=True)
def _no_earlier_connections():
    echoes.clear()


async def exchange(port, content):
    """What the server sends back for some bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(content)
    writer.write_eof()
    received = await reader.read()
    writer.close()
    return received


def test_each_connection_gets_its_own_bytes_in_order():
    contents = [bytes([number]) * (READ_BYTES * 3 + number) for number in range(8)]

    async def run():
        loop = asyncio.get_running_loop()
        server = await loop.create_server(buffered(Echo), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        found = await asyncio.gather(*(exchange(port, content) for content in contents))
        await asyncio.gather(*(echo.lost for echo in echoes))
        server.close()
        return found

    async def run_with_deadline():
        async with asyncio.timeout(DEADLINE_S):
            return await run()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(run_with_deadline()) == contents
    assert all(echo.events == ["made", "eof", "lost"] for echo in echoes)
    assert max(size for echo in echoes for size in echo.sizes) <= READ_BYTES


def test_uvloop_receives_into_the_buffer():
    """It does so only for protocols that are no asyncio.Protocol."""
    assert not issubclass(BufferedReads, asyncio.Protocol)

    async def run():
        loop, (here, there) = asyncio.get_running_loop(), socket.socketpair()
        made = []

        def create():
            made.append(buffered(Echo)("named"))
            return made[0]

        transport, _ = await loop.create_connection(create, sock=here)
        there.sendall(b"first")
        there.setblocking(False)
        async with asyncio.timeout(DEADLINE_S):
            assert await loop.sock_recv(there, 10) == b"first"
        assert bytes(made[0].get_buffer(-1)[:5]) == b"first"
        transport.close()
        there.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
    assert echoes[0].name == "named"
