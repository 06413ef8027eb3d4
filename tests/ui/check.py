"""Checks of the page's source: types by TypeScript, habits by name, its size by weight: `python -m tests.ui.check`.

Without node there are no types: root gets it by apt, others are told; in CI that is an error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import urllib.error
from pathlib import Path

from tests.ui.npm_packages import fetched

PAGE = Path(__file__).parents[2] / "src" / "weir" / "ui" / "page"
MOST_BYTES = 150 * 1024
#: What turns text into markup or code, asks somebody else for something, or stays in the console.
FORBIDDEN = {
    r"\b(inner|outer)HTML\b": "text is never markup",
    r"insertAdjacentHTML|document\.write|DOMParser|createContextualFragment": "text is never markup",
    r"\beval\(|new Function\(|javascript:": "text is never code",
    r"https?://(?!www\.w3\.org/2000/svg)": "nobody else is asked for anything",
    r"\bconsole\.|\bdebugger\b|\balert\(": "the console stays empty",
    r"\bvar\s|[^=!]==[^=]|!=[^=]": "const or let; === and !==",
    r"setAttribute\(\s*[\"']style": "the policy refuses it",
}
OPTIONS = (
    "--noEmit --allowJs --checkJs --strict --target es2022 --lib es2022,dom,dom.iterable --module es2022 "
    "--moduleResolution bundler --noUnusedLocals --noUnusedParameters --noImplicitReturns "
    "--noFallthroughCasesInSwitch --skipLibCheck"
)


def habits() -> list[str]:
    """Return where the page does what it must not."""
    found = []
    for path in sorted(PAGE.glob("*.js")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for pattern, why in FORBIDDEN.items():
                if re.search(pattern, line):
                    found.append(f"{path.name}:{number}: {why}: {line.strip()[:80]}")
    size = sum(path.stat().st_size for path in PAGE.iterdir())
    if size > MOST_BYTES:
        found.append(f"the page has {size:,} bytes, more than {MOST_BYTES:,}")
    return found


def types(node: str) -> list[str]:
    """Return what TypeScript says."""
    compiler = fetched("typescript") / "lib" / "tsc.js"
    files = [str(path) for path in sorted(PAGE.glob("*.js"))]
    done = subprocess.run([node, str(compiler), *OPTIONS.split(), *files], capture_output=True, text=True)
    said = done.stdout.splitlines() + done.stderr.splitlines()
    return said if done.returncode else []


def find_node() -> str | None:
    """Return where node is; it is installed where that can be done."""
    found = shutil.which("node") or shutil.which("nodejs")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        print("installing nodejs …")
        install = "apt-get install -qq -y --no-install-recommends nodejs"
        command = f"{install} || {{ apt-get update -qq && {install}; }}"
        subprocess.run(["sh", "-c", command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found = shutil.which("node") or shutil.which("nodejs")
    return found


def main() -> int:
    """Say what is wrong; return how that ends."""
    wrong = habits()
    node = find_node()
    left_out = "" if node else "there is no node"
    if node:
        try:
            wrong += types(node)
        except (urllib.error.URLError, TimeoutError) as error:
            left_out = f"TypeScript cannot be fetched ({error})"
    print("\n".join(wrong or ["the page: all checks passed"]))
    if left_out:
        print(f"the page is not type-checked: {left_out}")
    return 1 if wrong or (left_out and os.environ.get("CI")) else 0


if __name__ == "__main__":
    sys.exit(main())
