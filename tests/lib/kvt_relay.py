# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""What stands between two ends of TCP connections, life lines say, and cuts them.

Of a server only the exchange and life lines go through it: queue pairs are connected from end to
end.
"""
import asyncio
import functools
import socket
import struct
import threading

PIECE = 1 << 16
RESET = struct.pack("ii", 1, 0)


class Relay:
    """Listens on host; what comes goes to the server's port, which may change."""

    def __init__(self, host):
        self.host = host
        self.target = None
        self.lines = set()
        self.loop = asyncio.new_event_loop()
        self.port = None
        self.failed = None
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        self.ready.wait(10)
        if self.port is None:
            raise OSError(f"the relay cannot listen: {self.failed}")

    def _run(self):
        asyncio.set_event_loop(self.loop)
        try:
            start = asyncio.start_server(self._accept, self.host, 0)
            server = self.loop.run_until_complete(start)
        except OSError as err:
            self.failed = err
            self.ready.set()
            return
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        self.loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.wait(tasks))
        self.loop.close()

    async def may_pass(self, source, back):
        """Sleeps as long as nothing passes from who has dialled, or back to it. source() says who
        that is, which takes milliseconds the first time: on a busy machine who dials again and
        again would come faster than that."""

    def source(self, port):
        """Who has dialled from that port."""

    async def _pump(self, reader, writer, source, back):
        try:
            while piece := await reader.read(PIECE):
                await self.may_pass(source, back)
                writer.write(piece)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass

    async def _accept(self, reader, writer):
        ends = [writer]
        line = asyncio.current_task()
        self.lines.add(line)
        try:
            port = writer.get_extra_info("peername")[1]
            source = functools.cache(lambda: self.source(port))
            there, out = await asyncio.open_connection(*self.target)
            ends.append(out)
            pumps = [asyncio.ensure_future(self._pump(reader, out, source, False)),
                     asyncio.ensure_future(self._pump(there, writer, source, True))]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self.lines.discard(line)
            for end in ends:
                self._reset(end)

    @staticmethod
    def _reset(writer):
        """As a machine does that has lost its connections: both sides get RST."""
        try:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        except OSError:
            pass
        writer.transport.abort()

    def aim(self, host, port):
        self.target = (host, port)

    def cut(self, chosen):
        """Cut the lines for which chosen() is true; how many that were is not told."""
        def act():
            for line in list(self.lines):
                if chosen():
                    line.cancel()
        self.loop.call_soon_threadsafe(act)

    async def _end(self):
        """All lines come to their end before the loop does."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5)

    def close(self):
        asyncio.run_coroutine_threadsafe(self._end(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
