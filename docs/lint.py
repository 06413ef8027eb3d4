"""Reference pages of the lint rules: one for each, and the list of all; a test compares the checked-in pages."""

from __future__ import annotations

from weir.lint.rules import RULES


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
    return {"README.md": index(), **{f"{rule.code}.md": rule.page() for rule in RULES}}
