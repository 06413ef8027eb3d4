"""Which rights does a list of rules hold, and which are missing?

`uncovered` breaks rules into single (verb, group, resource, name) questions and asks each of the rules held.
It compares what is written: a rule that allows the same in other words may not be seen to cover.
Not here: what a rule allows (weir.apiserver.auth.rbac), who may give rights away (weir.apiserver.auth.escalation).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from weir.apiserver.auth.rbac import ALL, Rule, url_covers
from weir.values.quoting import quote

EVERYTHING: Sequence[Mapping[str, Any]] = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)


def broken_down(rule: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield *rule* as rules of one verb and one resource (and name) or one URL."""
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for verb in rule.get("verbs") or ():
                single = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                names = rule.get("resourceNames")
                if not names:
                    yield single
                for name in names or ():
                    yield {**single, "resourceNames": [name]}
    for url in rule.get("nonResourceURLs") or ():
        for verb in rule.get("verbs") or ():
            yield {"nonResourceURLs": [url], "verbs": [verb]}


def uncovered(held: Iterable[Mapping[str, Any]], wanted: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the single rights of *wanted* that no rule of *held* covers.

    >>> uncovered([{"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]}],
    ...           [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "secrets"]}])
    [{'apiGroups': [''], 'resources': ['secrets'], 'verbs': ['get']}]
    """
    rules = [Rule.of(rule) for rule in held]
    return [
        single
        for rule in wanted
        for single in broken_down(rule)
        if not any(_covers(own, single) for own in rules)
    ]


def _covers(own: Rule, single: Mapping[str, Any]) -> bool:
    if ALL not in own.verbs and single["verbs"][0] not in own.verbs:
        return False
    if "nonResourceURLs" in single:
        return any(url_covers(url, single["nonResourceURLs"][0]) for url in own.urls)
    if ALL not in own.groups and single["apiGroups"][0] not in own.groups:
        return False
    resource = single["resources"][0]
    if ALL not in own.resources and resource not in own.resources:
        _, slash, subresource = resource.partition("/")
        if not slash or f"*/{subresource}" not in own.resources:
            return False
    names = single.get("resourceNames")
    return not own.names or (names is not None and names[0] in own.names)


def described(rights: Iterable[Mapping[str, Any]]) -> str:
    """Return rights as a refusal lists them: one line each, verbs of the same object gathered."""
    gathered: dict[tuple[str, ...], dict[str, Any]] = {}
    lines: list[str] = []
    for right in rights:
        if "nonResourceURLs" in right:
            lines.append(_line(right))
            continue
        key = (right["apiGroups"][0], right["resources"][0], *right.get("resourceNames", ()))
        known = gathered.setdefault(key, {**right, "verbs": []})
        known["verbs"] = [*known["verbs"], *right["verbs"]]
    lines += [_line(right) for right in gathered.values()]
    return "\n".join(sorted(set(lines)))


def _line(right: Mapping[str, Any]) -> str:
    parts = (
        ("APIGroups", "apiGroups"),
        ("Resources", "resources"),
        ("NonResourceURLs", "nonResourceURLs"),
        ("ResourceNames", "resourceNames"),
        ("Verbs", "verbs"),
    )
    shown = [f"{called}:{quoted_list(right[member])}" for called, member in parts if right.get(member)]
    return "{" + ", ".join(shown) + "}"


def quoted_list(values: Iterable[str]) -> str:
    """Return names as Go prints a list of quoted ones."""
    return "[" + " ".join(quote(value) for value in values) + "]"
