"""`weir completion`: shell completion of commands, options and names in a cluster.

    source <(weir completion bash)

Nodes, pods, devices and namespaces come from the kubeconfig's cluster, contexts from the file, stories from weir. A
cluster that does not answer within a second completes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from weir.client.api import Client
from weir.client.kubeconfig import context_names
from weir.inputs.live import Live
from weir.objects.kinds import RESOURCE_SLICES, by_kind
from weir.output import write_document
from weir.simulation.demo.story import FOLDER, find_stories

VARIABLE: Final = "_WEIR_COMPLETE"
_PATIENCE_SECONDS: Final = 1.0

Names = Callable[[click.Context, str], Iterable[str]]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    source <(weir completion bash)                                  # in ~/.bashrc
    source <(weir completion zsh)                                   # in ~/.zshrc
    weir completion fish > ~/.config/fish/completions/weir.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None, shell
    source = (
        kind.source_template
        % kind(click.get_current_context().find_root().command, {}, "weir", VARIABLE).source_vars()
    )
    write_document(source)


# ── names ────────────────────────────────────────────────────────────────────────────────────────


def _ask(ctx: click.Context, act: Callable[[Client], Awaitable[Iterable[str]]]) -> Iterable[str]:
    """Return what *act* finds in the cluster of the command line, nothing when it does not answer in time."""
    params = ctx.params
    live = Live(Path(params["kubeconfig"]) if params.get("kubeconfig") else None, params.get("context") or "")

    async def main() -> Iterable[str]:
        client = live.connect("weir-completion")
        try:
            return await asyncio.wait_for(act(client), _PATIENCE_SECONDS)
        finally:
            await client.close()

    try:
        return asyncio.run(main())
    except Exception:  # whatever is wrong, a prompt is no place to say it
        return ()


def _listed(api_version: str, kind: str) -> Names:
    def names(ctx: click.Context, incomplete: str) -> Iterable[str]:
        async def act(client: Client) -> Iterable[str]:
            row = by_kind(api_version, kind)
            namespace = (ctx.params.get("namespace") or "default") if row.namespaced else ""
            return [each["metadata"]["name"] for each in (await client.list(row, namespace)).documents()]

        return _ask(ctx, act)

    return names


def _devices(form: str) -> Names:
    """Return what completes devices: as selectors (driver/pool/device), or as NODE/DEVICE."""

    def names(ctx: click.Context, incomplete: str) -> Iterable[str]:
        async def act(client: Client) -> Iterable[str]:
            slices = (await client.list(RESOURCE_SLICES)).documents()
            return [
                form.format(node=each["spec"].get("nodeName", ""), driver=each["spec"]["driver"])
                .replace("POOL", each["spec"]["pool"]["name"])
                .replace("DEVICE", device["name"])
                for each in slices
                for device in each["spec"].get("devices") or ()
            ]

        return _ask(ctx, act)

    return names


def _contexts(ctx: click.Context, incomplete: str) -> Iterable[str]:
    return context_names(ctx.params.get("kubeconfig") or None)


def _stories(ctx: click.Context, incomplete: str) -> Iterable[str]:
    return [story.name for story in find_stories(Path(ctx.params.get("folder") or FOLDER))]


_NODES: Final = _listed("v1", "Node")
_SELECTORS: Final = _devices("{driver}/POOL/DEVICE")
_ON_NODES: Final = _devices("{node}/DEVICE")
#: What completes a parameter: of one command, or of every command that has one of this name.
_OF_COMMAND: Final[dict[tuple[str, str], Names]] = {
    ("conformance", "stories"): _stories,
    ("demo", "stories"): _stories,
    ("explain", "names"): _listed("v1", "Pod"),
    ("what-if taint", "words"): _NODES,
    ("node fail", "names"): _NODES,
    ("node recover", "names"): _NODES,
    ("node remove", "names"): _NODES,
    ("device drain", "selector"): _SELECTORS,
    ("device taint", "words"): _SELECTORS,
    ("device untaint", "words"): _SELECTORS,
    ("device degrade", "where"): _ON_NODES,
    ("device repair", "where"): _ON_NODES,
    ("device unplug", "where"): _ON_NODES,
}
_EVERYWHERE: Final[dict[str, Names]] = {
    "context": _contexts,
    "namespace": _listed("v1", "Namespace"),
    "node": _NODES,
}


def complete_names(path: str, command: click.Command) -> None:
    """Give the parameters of *command*, called by the words *path*, and of those below it their completion."""
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            complete_names(f"{path} {name}", below)
    for parameter in command.params:
        names = _OF_COMMAND.get((path, parameter.name or "")) or _EVERYWHERE.get(parameter.name or "")
        if names is not None:
            parameter._custom_shell_complete = _completer(names)


def _completer(names: Names) -> Callable[[click.Context, click.Parameter, str], Any]:
    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
        names_of = sorted(
            {name for name in names(ctx, incomplete) if name.startswith(incomplete) and name.isprintable()}
        )
        return [CompletionItem(name) for name in names_of]

    return complete
