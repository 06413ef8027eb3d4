"""A running API server: its parts, certificate renewal and shutdown order.

Graceful shutdown: readiness turns off, watches end, requests in progress complete, then the store closes.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from weir.apiserver.aggregation.controller import ApiServiceController
from weir.apiserver.auth import kubeconfig, pki
from weir.apiserver.blocking import Blocking
from weir.apiserver.customresources.controller import DefinitionController
from weir.apiserver.file_changes import FileChanges
from weir.apiserver.flowcontrol.bootstrap import FlowControlBootstrap
from weir.apiserver.metrics import Metrics
from weir.apiserver.options import Options
from weir.apiserver.server import ApiServer
from weir.apiserver.transport.connections import Connections
from weir.apiserver.webhooks.client import WebhookClient
from weir.certificates import KeyPair
from weir.observe.listener import Listener
from weir.store import Store

STOP_SECONDS = 10.0


@dataclass
class Running:
    """A server with what has to be stopped with it."""

    server: ApiServer
    store: Store
    options: Options
    credentials: pki.Credentials | None
    admin_token: str
    webhook_client: WebhookClient
    connections: Connections | None = None
    listener: Listener | None = None
    chores: list[asyncio.Task[Any]] = field(default_factory=list)
    port: int = 0
    metrics: Metrics = field(default_factory=Metrics)
    files: FileChanges = field(default_factory=FileChanges)
    blocking: Blocking | None = None
    keeper: FlowControlBootstrap | None = None
    definitions: DefinitionController | None = None
    api_services: ApiServiceController | None = None
    serving: ssl.SSLContext | None = None
    _admin: tuple[KeyPair, bytes] | None = None

    @property
    def admin_certificate(self) -> bytes | None:
        """The administrator's certificate as it is now (DER), for clients in this process."""
        if self.options.insecure or self.credentials is None:
            return None
        admin = self.credentials.admin
        if self._admin is None or self._admin[0] is not admin:
            self._admin = admin, ssl.PEM_cert_to_DER_cert(admin.certificate.decode())
        return self._admin[1]

    def renew(self, now: datetime) -> None:
        """Renew certificates near their expiry and serve the new ones. Raises PkiError, OSError."""
        if self.credentials is None:
            return
        before = self.credentials
        self.credentials = pki.ensure(before.directory, self.options.hostnames, now=now)
        self.load_serving()
        if self.credentials.admin != before.admin or self.credentials.authority != before.authority:
            self.write_kubeconfig()

    def load_serving(self) -> None:
        """Show the certificate that lies in the files. Raises OSError."""
        if self.serving is not None and self.credentials is not None:
            pki.load_serving(self.serving, self.credentials)

    def write_kubeconfig(self) -> None:
        """Write the kubeconfig of this server, if configured."""
        options, credentials = self.options, None if self.options.insecure else self.credentials
        if options.kubeconfig is None:
            return
        access = kubeconfig.Access(
            self.url,
            None if credentials is None else credentials.ca_pem,
            None if credentials is None else credentials.admin.certificate,
            None if credentials is None else credentials.admin.key,
            self.admin_token if options.insecure else None,
        )
        kubeconfig.write(options.kubeconfig, kubeconfig.document(access))

    @property
    def url(self) -> str:
        """Where clients find the server."""
        scheme = "http" if self.options.insecure else "https"
        host = self.options.bind_address
        if host in ("0.0.0.0", "::", ""):
            host = "127.0.0.1"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    async def stop(self) -> None:
        """Stop serving, in the order that loses nothing."""
        self.server.ready = False
        if self.listener is not None:
            self.listener.close()
        self.server.watches.stop()
        if self.connections is not None:
            self.connections.close_idle()
            loop = asyncio.get_running_loop()
            until = loop.time() + STOP_SECONDS
            while self.connections.open and loop.time() < until:
                await asyncio.sleep(0.01)
                self.connections.close_idle()
        for keeper in (self.definitions, self.api_services):
            if keeper is not None:
                keeper.stop()
        for chore in self.chores:
            chore.cancel()
        await asyncio.gather(*self.chores, return_exceptions=True)
        self.server.verbs.off_loop.stop()
        await self.webhook_client.close()
        await self.store.close()
