"""Access to a simulated cluster for external programs: a loopback port and a kubeconfig.

Spec: decision 92. The cluster's event loop normally runs only during calls; with external programs it runs in a
thread, and calls hand their work over. Time stays virtual: requests are answered at once, and what is due later waits
until time is advanced. Access needs the token in the kubeconfig, which is readable by the owner only.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from weir.apiserver.auth import pki
from weir.apiserver.build import Running
from weir.apiserver.run import sweep
from weir.apiserver.transport.connections import Connections
from weir.apiserver.transport.http import Handler
from weir.apiserver.transport.protocol import HttpProtocol
from weir.observe.listener import listen

T = TypeVar("T")
HOST = "127.0.0.1"


class ExternalAccess:
    """A cluster's door. *running* tells which server there is now: a restarted one takes the other's place."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, running: Callable[[], Running], handle: Handler
    ) -> None:
        self._loop, self._running, self._handle = loop, running, handle
        self._thread = threading.Thread(target=loop.run_forever, name="weir-cluster", daemon=True)
        self._folder = tempfile.TemporaryDirectory(prefix="weir-cluster-")
        self.kubeconfig = Path(self._folder.name) / "kubeconfig"
        self._thread.start()
        try:
            self.address = self.wait(self._listen())
        except BaseException:
            self.close()
            raise
        access = pki.Access(self.address, token=running().admin_token)
        pki.write_kubeconfig(self.kubeconfig, pki.kubeconfig_document(access))

    async def _listen(self) -> str:
        running = self._running()
        connections = Connections(
            self._handle,
            lambda request: self._running().server.prove(request),
            running.metrics.refused,
            allows=lambda request: self._running().server.allows(request),
        )
        running.connections = connections
        running.listener = await listen(partial(HttpProtocol, connections), HOST, 0, None)
        running.port = running.listener.port
        running.chores.append(asyncio.ensure_future(sweep(connections)))
        return running.url

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Let the loop do *work*; return what comes of it, or raise it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """Give the loop back, standing still; the server has closed its sockets by itself."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._folder.cleanup()
