"""Inputs of `weir lint`: files (an unreadable one is a finding), policies, objects of a live cluster."""

from __future__ import annotations

import fnmatch
from datetime import UTC, datetime
from typing import Any, Final

import click

from weir.client.snapshot import Missing
from weir.compat.policies.files import PolicyFiles
from weir.gates import ALL_FEATURES
from weir.inputs.certainty import because
from weir.inputs.cluster import read_live
from weir.inputs.files import (
    CannotSay,
    content_of,
    fetch,
    find_files,
    is_address,
    read_documents,
    unpacked,
)
from weir.inputs.live import Live
from weir.lint.live import Troubles, is_own
from weir.lint.rule import Finding
from weir.lint.rules.documents import unreadable
from weir.lowering.originals import raised
from weir.objects.manifest import Document, ManifestError, Place, read_manifest
from weir.output import progress, say
from weir.validate import validate

#: Workload kinds, and the kinds that show their state.
_WORKLOADS: Final = (
    "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicaSet", "ReplicationController",
)  # fmt: skip


def read_policies(names: tuple[str, ...]) -> list[Document]:
    """Return the documents of `--policies`; files without any policy are wrong use."""
    documents = read_documents(names)
    if names:
        items = [item for document in documents for item in document.items()]
        for item in items:
            _refuse_broken_policy(item)
        policies = PolicyFiles(item.value for item in items)
        if not policies.bound:
            raise click.UsageError(
                f"--policies {' '.join(names)}: no ValidatingAdmissionPolicy with a binding; a policy without "
                "a ValidatingAdmissionPolicyBinding does nothing"
            )
        for name in policies.mutating:
            say(f"MutatingAdmissionPolicy {name} is not applied: manifests are judged as written", err=True)
        for name in policies.unbound:
            say(f"ValidatingAdmissionPolicy {name} has no binding and judges nothing", err=True)
    return documents


def _refuse_broken_policy(item: Document) -> None:
    """Raise a UsageError for a policy or binding that a server would refuse: it would judge nothing there."""
    value = item.value
    if isinstance(value, dict) and "AdmissionPolicy" in str(value.get("kind")):
        for error in validate(value, gates=ALL_FEATURES):
            raise click.UsageError(f"{item.file}: the server refuses this {value['kind']}: {error}")


def read_files(
    files: tuple[str, ...], exclude: tuple[str, ...]
) -> tuple[list[Document], list[str], list[Finding]]:
    """Return the documents of the files, the names of all files, and a finding for each that cannot be read."""
    documents: list[Document] = []
    unread: list[Finding] = []
    meant = (each for name in files for each in ([(name, None)] if is_address(name) else find_files([name])))
    wanted = [each for each in meant if not any(fnmatch.fnmatch(each[0], one) for one in exclude)]
    with progress("reading files:") as tick:
        for done, (name, path) in enumerate(wanted):
            content = b""
            try:
                if is_address(name):
                    content = unpacked(fetch(name), name)
                else:  # an empty one of a folder is none
                    content = content_of(name, path, given=name in files)
                read = read_manifest(content, name)
                if path is None and not read:  # the command before it in the pipe failed, or made nothing
                    kind = "has only comments" if content.strip() else "is empty"
                    raise ManifestError(Place(name, 1, 1), f"nothing was read: the input {kind}")
                documents += read
            except (
                click.UsageError
            ) as error:  # an address that gives nothing, beside which the others are checked
                problem = error.message.removeprefix(f"{name}: ")
                unread.append(unreadable(ManifestError(Place(name, 1, 1), problem), ""))
            except ManifestError as error:
                unread.append(unreadable(error, content.decode(errors="replace")))
            except PermissionError as error:
                unread.append(unreadable(ManifestError(Place(name, 1, 1), str(error.strerror)), ""))
            tick(done + 1, len(wanted))
    return documents, [name for name, _ in wanted], unread


def read_cluster(live: Live, namespace: str, *, workloads: bool) -> tuple[list[Any], tuple[Missing, ...]]:
    """Return the live cluster's nodes, and with *workloads* everything that says how they fare; and what is missing."""
    kinds = ("Node", *(("Pod", *_WORKLOADS, "Event") if workloads else ()))
    held = read_live(live, kinds, namespace)
    if len(held.missing) == len(kinds):
        raise CannotSay(f"cannot say anything of the cluster: {because(held.missing)}")
    return [raised(each) for each in held.documents], held.missing


def own_documents(found: list[Any]) -> tuple[list[Document], Troubles]:
    """Return the top-level objects of a cluster, and their problems."""
    troubles = Troubles.of(found, datetime.now(UTC))
    return [
        document_of(each) for each in found if each["kind"] in ("Pod", *_WORKLOADS) and is_own(each)
    ], troubles


def document_of(each: Any) -> Document:
    metadata = each["metadata"]
    name = "/".join(filter(None, (each["kind"].lower(), metadata.get("namespace"), metadata["name"])))
    return Document(each, name, ())
