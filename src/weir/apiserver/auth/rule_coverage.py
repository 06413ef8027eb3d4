"""Permissions of RBAC rules that other rules do not cover.

`uncovered` finds the single permissions (verb, group, resource, name) of some rules that none of the held rules
covers. It compares what is written: an equivalent rule in other words may not count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from weir.apiserver.auth.rbac import ALL, Rule, url_covers
from weir.values.quoting import quote

#: A refusal lists no more than so many rights; a rule of a hundred verbs, groups and resources has a million.
MOST_MISSING = 1_000
EVERYTHING: Sequence[Mapping[str, Any]] = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)


def uncovered(held: Iterable[Mapping[str, Any]], wanted: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the single rights of *wanted* that no rule of *held* covers, at most `MOST_MISSING` of them.

    >>> uncovered([{"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]}],
    ...           [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "secrets"]}])
    [{'apiGroups': [''], 'resources': ['secrets'], 'verbs': ['get']}]
    """
    rules = [Rule.of(rule) for rule in held]
    missing = (single for rule in wanted for single in _missing(rules, rule))
    return list(islice(missing, MOST_MISSING))


def _missing(held: Sequence[Rule], rule: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rights of one rule that are not covered, each of one verb and one resource (and name) or one URL.

    A rule is a product of groups, resources, verbs and names; a hundred of each are a hundred million rights. So each
    member is asked once which of the held rules cover it (a bit for each), and only products that miss are taken apart.
    """
    verbs = _covered(held, rule.get("verbs"), lambda own, verb: _has(own.verbs, verb))
    groups = _covered(held, rule.get("apiGroups"), lambda own, group: _has(own.groups, group))
    resources = _covered(held, rule.get("resources"), _covers_resource)
    names = _covered(held, rule.get("resourceNames"), lambda own, name: not own.names or name in own.names)
    urls = _covered(
        held,
        rule.get("nonResourceURLs"),
        lambda own, url: any(url_covers(pattern, url) for pattern in own.urls),
    )
    unnamed = sum(1 << number for number, own in enumerate(held) if not own.names)
    all_verbs, all_names = _and(verbs), _and(names) if names else unnamed
    for group, by_group in groups.items():
        for resource, by_resource in resources.items():
            covering = by_group & by_resource
            if covering & all_verbs & all_names:
                continue  # one held rule covers it whatever the verb and name
            for verb, by_verb in verbs.items():
                single = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                if not names:
                    if not covering & by_verb & unnamed:
                        yield single
                    continue
                for name, by_name in names.items():
                    if not covering & by_verb & by_name:
                        yield {**single, "resourceNames": [name]}
    for url, by_url in urls.items():
        for verb, by_verb in verbs.items():
            if not by_url & by_verb:
                yield {"nonResourceURLs": [url], "verbs": [verb]}


def _covered(
    held: Sequence[Rule], members: Iterable[str] | None, covers: Callable[[Rule, str], bool]
) -> dict[str, int]:
    """Return for each member a number with a bit set for every held rule that covers it."""
    return {
        member: sum(1 << number for number, own in enumerate(held) if covers(own, member))
        for member in members or ()
    }


def _covers_resource(own: Rule, resource: str) -> bool:
    _, slash, subresource = resource.partition("/")
    return _has(own.resources, resource) or bool(slash and f"*/{subresource}" in own.resources)


def _and(members: Mapping[str, int]) -> int:
    """Return the rules that cover all members."""
    found = -1
    for bits in members.values():
        found &= bits
    return found


def _has(listed: Collection[str], wanted: str) -> bool:
    return ALL in listed or wanted in listed


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
