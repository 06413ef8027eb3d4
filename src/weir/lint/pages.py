"""Documentation pages of the rules, generated from the rules.

`python -m weir.lint.pages DIR` writes them; a test compares the checked-in pages.
"""

from __future__ import annotations

import sys
from pathlib import Path

from weir.lint.rule import Rule
from weir.lint.rules import RULES


def page(rule: Rule) -> str:
    """Return the documentation page of *rule*."""
    return f"# {rule.code}: {rule.name}\n\n{rule.summary} Severity: {rule.severity.value}.\n\n{rule.help}\n"


def index() -> str:
    """Return the page that lists all rules."""
    rows = "\n".join(
        f"| [{rule.code}]({rule.code}.md) | {rule.name} | {rule.severity.value} | {rule.summary} |"
        for rule in RULES
    )
    return f"""# Lint rules

`weir lint` reports the API server's own verdicts and the traps beyond them. Codes are stable. Leave rules out with
`--ignore W012`, or where they stand with a comment on the line or the line above: `# weir: ignore=W012`.

| code | name | severity | finds |
|---|---|---|---|
{rows}
"""


def pages() -> dict[str, str]:
    """Return every page by file name."""
    return {"README.md": index(), **{f"{rule.code}.md": page(rule) for rule in RULES}}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in pages().items():
        (folder / name).write_text(content)
