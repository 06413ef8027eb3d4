"""The part of docs/reference/compatibility.md about Kubernetes' own tests, from the numbers of whole runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.upstream.results import reasons, table
from tests.upstream.specs import GROUPS

DATA = Path(__file__).parents[2] / "docs" / "reference" / "compatibility-upstream.json"
HEAD = """\

## Kubernetes' own end-to-end tests

The specs of Kubernetes' end-to-end suite (v1.37.1), run unmodified against `weir up --nodes 3 --gpus 4` by
`make test-upstream`. Left out is what needs a container that really runs, a network or disk under it, or a provider:
`tests/upstream/left-out.yaml` names each with its reason. Written by `python -m tests.upstream --write`.

"""


def section() -> str:
    """Return the section as Markdown; empty before anything was measured."""
    if not DATA.exists():
        return ""
    groups = json.loads(DATA.read_text())
    return f"{HEAD}{table(groups)}{_remarks(groups)}\n{reasons(groups)}"


def _remarks(groups: dict[str, Any]) -> str:
    """Return what the table does not show: groups that were not measured, specs that were not reached or failed."""
    lines = []
    if absent := [group for group in GROUPS if group not in groups]:
        lines.append(f"Not measured yet: {', '.join(absent)}.")
    for group, row in sorted(groups.items()):
        missing = row["specs"] - row["run"] - sum(row["leftOut"].values())
        if missing:
            lines.append(f"Not reached in {group}: {missing}.")
    failed = [name for _, row in sorted(groups.items()) for name in row["failed"]]
    if failed:
        lines.append("Failed:\n\n" + "\n".join(f"- {name}" for name in failed))
    return "".join(f"\n{line}\n" for line in lines)


def write(rows: dict[str, Any]) -> None:
    """Keep the numbers of these groups and write the page anew."""
    from tests.stock import compatibility

    kept = json.loads(DATA.read_text()) if DATA.exists() else {}
    DATA.write_text(json.dumps(kept | rows, indent=1, sort_keys=True) + "\n")
    compatibility.PAGE.write_text(compatibility.page(json.loads(compatibility.DATA.read_text())))
