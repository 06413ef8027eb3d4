"""Changes for users: puts the fragments of changelog.d together as a section of CHANGELOG.md.

`python -m docs.changelog` writes the section "Unreleased" anew; `python -m docs.changelog 0.2.0` gives it the version
and the date of today and removes the fragments, which is what a release does.
Not here: writing fragments (one file in changelog.d for every change that users notice), the version itself
(weir.__version__).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
TITLE = (
    "# Changelog\n\nPut together from changelog.d by `make changelog`; every section is what users notice.\n"
)
UNRELEASED = "Unreleased"
_SECTION = re.compile(r"^## ", re.MULTILINE)


def entries(fragment: str) -> str:
    """Return a fragment as a list: one that is prose becomes its one item.

    >>> entries("- a\\n  b\\n- c\\n")
    '- a\\n  b\\n- c\\n'
    >>> entries("Pods say\\nwhy.\\n\\nAnd how.\\n")
    '- Pods say\\n  why.\\n\\n  And how.\\n'
    """
    text = fragment.strip()
    if text.startswith("- "):
        return text + "\n"
    lines = [f"  {line}".rstrip() for line in text.splitlines()]
    return "- " + "\n".join(lines).removeprefix("  ") + "\n"


def section(title: str, fragments: Iterable[str]) -> str:
    """Return the section *title* made of *fragments*."""
    return f"## {title}\n\n" + "".join(entries(fragment) for fragment in fragments)


def with_section(changelog: str, new: str) -> str:
    """Return *changelog* with the section *new* on top; an unreleased section gives way to it.

    >>> print(with_section("# C\\n\\n## Unreleased\\n\\n- a\\n\\n## 1\\n\\n- z\\n", "## 2\\n\\n- a\\n"), end="")
    # C
    <BLANKLINE>
    ## 2
    <BLANKLINE>
    - a
    <BLANKLINE>
    ## 1
    <BLANKLINE>
    - z
    """
    head, *sections = _SECTION.split(changelog)
    kept = [f"## {one.strip()}\n" for one in sections if not one.startswith(UNRELEASED)]
    return "\n".join([head.strip() + "\n", new, *kept])


def main(arguments: list[str], root: Path = ROOT, today: str = "") -> int:
    """Write CHANGELOG.md; with a version as the argument the fragments are used up."""
    if len(arguments) > 1 or not all(re.fullmatch(r"\d+\.\d+\.\d+\S*", version) for version in arguments):
        print("usage: python -m docs.changelog [VERSION]", file=sys.stderr)
        return 2
    fragments = sorted((root / "changelog.d").glob("*.md"))
    if not fragments:
        print("nothing has changed: changelog.d is empty", file=sys.stderr)
        return 1
    day = today or datetime.now(UTC).date().isoformat()
    title = f"{arguments[0]} ({day})" if arguments else UNRELEASED
    page = root / "CHANGELOG.md"
    before = page.read_text() if page.exists() else TITLE
    if arguments and re.search(rf"^## {re.escape(arguments[0])}\b", before, re.MULTILINE):
        print(f"CHANGELOG.md has a section {arguments[0]} already", file=sys.stderr)
        return 1
    page.write_text(with_section(before, section(title, (one.read_text() for one in fragments))))
    if arguments:
        for one in fragments:
            one.unlink()
    print(f"CHANGELOG.md: {title}, {len(fragments)} fragments")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
