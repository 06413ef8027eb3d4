"""Name acceptance of CustomResourceDefinitions within a group.

Pure: definitions in, accepted names and conditions out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weir.customresources.conditions import find_condition, with_condition
from weir.customresources.group_approval import approval, is_protected
from weir.values.quoting import quote

__all__ = ["approved", "established", "named"]

Document = dict[str, Any]
_NAMES = ("plural", "singular", "shortNames", "kind", "listKind")


def named(definition: Document, others: Iterable[tuple[str, Document]], now: str) -> Document | None:
    """Return *definition* with the names it gets, and what is said of them; None when nothing changes.

    *others* are the groups and accepted names of all other definitions.
    """
    wanted = definition["spec"]["names"]
    has = (definition.get("status") or {}).get("acceptedNames") or {}
    if _plain(wanted) == _plain(has):
        return None
    resources, kinds = _taken(definition, others)
    accepted, problem = dict(has), ("", "")
    for name in ("plural", "singular"):
        if _is_free(wanted.get(name) or "", has.get(name) or "", resources):
            accepted[name] = wanted.get(name) or ""
        else:
            problem = f"{name.capitalize()}Conflict", _in_use(wanted[name])
    if (wanted.get("shortNames") or []) != (has.get("shortNames") or []):
        mine = has.get("shortNames") or ()
        taken = [name for name in wanted.get("shortNames") or () if name not in mine and name in resources]
        if taken:
            texts = list(dict.fromkeys(map(_in_use, taken)))
            problem = "ShortNamesConflict", texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        else:
            accepted["shortNames"] = wanted.get("shortNames")
    for name in ("kind", "listKind"):
        if _is_free(wanted.get(name) or "", has.get(name) or "", kinds):
            accepted[name] = wanted.get(name) or ""
        else:
            problem = f"{name[0].upper()}{name[1:]}Conflict", _in_use(wanted[name])
    accepted["categories"] = wanted.get("categories")
    new = {**definition, "status": {**(definition.get("status") or {}), "acceptedNames": _plain(accepted)}}
    if problem[0]:
        new = with_condition(new, "NamesAccepted", "False", *problem, now)
    else:
        new = with_condition(new, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
    was = find_condition(definition, "Established")
    if was is not None and was.get("status") == "True":
        return new
    if problem[0]:
        if was is None:
            new = with_condition(
                new, "Established", "False", "NotAccepted", "not all names are accepted", now
            )
        return new
    message = "the initial names have been accepted"
    return with_condition(new, "Established", "False", "Installing", message, now)


def established(definition: Document, now: str) -> Document | None:
    """Return *definition* established, when its names are accepted and it is not yet; else None."""
    accepted, was = find_condition(definition, "NamesAccepted"), find_condition(definition, "Established")
    if accepted is None or accepted.get("status") != "True":
        return None
    if was is not None and was.get("status") == "True":
        return None
    message = "the initial names have been accepted"
    return with_condition(definition, "Established", "True", "InitialNamesAccepted", message, now)


def approved(definition: Document, now: str) -> Document | None:
    """Return *definition* with what is said of its approval, in groups that need one; None when nothing changes."""
    if not is_protected(definition["spec"].get("group") or ""):
        return None
    state, message = approval(definition)
    status, reason = {
        "invalid": ("False", "InvalidAnnotation"),
        "missing": ("False", "MissingAnnotation"),
        "approved": ("True", "ApprovedAnnotation"),
        "bypassed": ("False", "UnapprovedAnnotation"),
    }[state]
    name = "KubernetesAPIApprovalPolicyConformant"
    was = find_condition(definition, name) or {}
    if (was.get("status"), was.get("reason"), was.get("message")) == (status, reason, message):
        return None
    return with_condition(definition, name, status, reason, message, now)


def _plain(names: Document) -> Document:
    """Return names as they are stored: the plural and the kind always, the rest when they are given."""
    kept = {name: names[name] for name in (*_NAMES, "categories") if names.get(name)}
    return {"plural": "", "kind": "", **kept}


def _taken(definition: Document, others: Iterable[tuple[str, Document]]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    mine = definition["spec"].get("group") or ""
    for group, names in [(mine, (definition.get("status") or {}).get("acceptedNames") or {}), *others]:
        if group != mine:
            continue
        resources |= {
            names.get("plural") or "",
            names.get("singular") or "",
            *(names.get("shortNames") or ()),
        }
        kinds |= {names.get("kind") or "", names.get("listKind") or ""}
    return resources, kinds


def _is_free(wanted: str, has: str, taken: set[str]) -> bool:
    return wanted == has or wanted not in taken


def _in_use(name: str) -> str:
    return f"{quote(name)} is already in use"
