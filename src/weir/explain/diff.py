"""Unified diff of a fix in the user's file, with secrets masked.

A diff of the file's own text, with comments and line numbers, where a text edit makes the change; else of the
document as kubectl would write it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import unified_diff
from typing import Any, Final

import yaml

from weir.objects.manifest import Document
from weir.objects.text_edits import Change, TextEdit, apply_edits

#: Shown instead of a value that may be a secret.
MASK: Final = "***"
_SECRET_FIELDS: Final = frozenset({"value", "data", "stringData"})
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_HUNK: Final = re.compile(r"@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")
_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")


def masked(value: Any, inside: str = "") -> Any:
    """Return *value* with the values of environment variables, and the data of secrets, masked.

    >>> masked({"env": [{"name": "PASSWORD", "value": "s3cret"}]})
    {'env': [{'name': 'PASSWORD', 'value': '***'}]}
    """
    if isinstance(value, dict):
        hidden = inside == "env"
        return {
            key: MASK if hidden and key in _SECRET_FIELDS and each else masked(each, str(key))
            for key, each in value.items()
            if key not in ("managedFields", _LAST_APPLIED)
        }
    if isinstance(value, list):
        return [masked(each, inside) for each in value]
    return value


def diff(
    before: Mapping[str, Any], after: Mapping[str, Any], name: str, render: Callable[[Any], str]
) -> Iterator[str]:
    """Yield the lines of a unified diff of two documents as *render* writes them; none: nothing differs."""
    old, new = (render(masked(dict(each))).splitlines() for each in (before, after))
    yield from unified_diff(old, new, fromfile=name, tofile=name, lineterm="", n=3)


def own_diff(change: Change, name: str) -> Iterator[str]:
    """Yield the lines of a unified diff of a file's own text, with the line numbers of the whole file."""
    old, new = (_LINES.findall(masked_text(each)) for each in (change.before, change.after))
    for line in unified_diff(old, new, fromfile=name, tofile=name, n=3):
        if hunk := _HUNK.match(line):
            before, after = (int(hunk[group]) + change.lines_before for group in (1, 3))
            yield f"@@ -{before}{hunk[2] or ''} +{after}{hunk[4] or ''} @@"
        else:
            yield line.rstrip("\r\n")
            if not line.endswith("\n"):
                yield "\\ No newline at end of file"


def masked_text(document: Document) -> str:
    """Return the text of *document* with what may be secret masked, in as many lines as before."""
    text, root = document.text, document.node_of((), whole=True)
    edits = []
    for node in _secrets(root, "", False) if root is not None else ():
        start, end = node.start_mark.index, node.end_mark.index
        lines = text[start:end].split("\n")
        edits.append(TextEdit(start, end, "\n".join(MASK if line.strip() else line for line in lines)))
    return apply_edits(text, edits)


def _secrets(node: yaml.Node, inside: str, hidden: bool) -> Iterator[yaml.Node]:
    """Yield the scalars that `masked` masks, and the data of Secrets, which may stand next to what is shown."""
    if isinstance(node, yaml.MappingNode):
        secret = any(key.value == "kind" and value.value == "Secret" for key, value in node.value)
        for key, value in node.value:
            name = str(key.value)
            own = name in _SECRET_FIELDS and (inside == "env" or secret)
            yield from _secrets(value, name, hidden or own or name == _LAST_APPLIED)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _secrets(item, inside, hidden)
    elif hidden and node.value:
        yield node
