"""The cluster of a kubeconfig, and the choice between it and a dump."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from weir.client.api import Client

T = TypeVar("T")


@dataclass(frozen=True)
class Live:
    """The running cluster that a kubeconfig names, found as kubectl finds it."""

    kubeconfig: Path | None = None
    context: str = ""

    @property
    def named(self) -> bool:
        """Whether it was named explicitly."""
        return bool(self.kubeconfig or self.context)

    def words(self) -> list[str]:
        """Return the options that name the same cluster to another command."""
        named = (("--kubeconfig", self.kubeconfig), ("--context", self.context))
        return [word for option, value in named if value for word in (option, shlex.quote(str(value)))]

    def cluster_name(self) -> str:
        """Return which cluster this is, in words: its context and its server. Raises KubeconfigError."""
        from weir.client.kubeconfig import load

        access = load(self.kubeconfig, context=self.context)
        return f"context {access.context} ({access.server})"

    def connect(self, agent: str) -> Client:
        from weir.client.http import connect

        return connect(self.kubeconfig, context=self.context, user_agent=agent)

    def run(self, agent: str, act: Callable[[Client], Awaitable[T]]) -> T:
        """Return what *act* comes to with a client of the cluster, which is closed afterwards."""

        async def main() -> T:
            client = self.connect(agent)
            try:
                return await act(client)
            finally:
                await client.close()

        return asyncio.run(main())


@dataclass(frozen=True)
class ClusterSource:
    """The cluster a command reads: a dump, or the live one."""

    dump: tuple[str, ...] = ()
    live: Live = Live()

    def check(self) -> None:
        """Raise when both are named."""
        if self.dump and self.live.named:
            raise click.UsageError("give either --cluster or --kubeconfig and --context, not both")
