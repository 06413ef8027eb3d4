"""Static report: the screens in one self-contained file.

The page's modules become one script, in dependency order, with the API's responses as data. The content security
policy allows exactly that script and style. Of a large cluster only some workloads are explained in full, those that
fit nowhere first, and the timeline shows one change.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from weir.objects.times import format_time
from weir.ui.screens import Screens
from weir.ui.server import page_files
from weir.ui.timeline import Question, ticks

Document = dict[str, Any]
MOST_EXPLAINED: Final = 100
MOST_TICKS: Final = 12
_IMPORT: Final = re.compile(r'^import \{([^}]*)\} from "\./([\w.]+)";$', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export ((?:async )?function|const|let|class) (\w+)", re.MULTILINE)


def write_report(screens: Screens, path: Path, asked: str = "") -> None:
    """Write the file; *asked* is the change that its timeline shows."""
    path.write_text(page(frozen(screens, asked)), encoding="utf-8")


def frozen(screens: Screens, asked: str = "") -> Document:
    """Return every answer that the page of a file can ask for."""
    _, state = screens.get("state", {})
    matrix, (_, fleet) = screens.matrix(), screens.get("fleet", {})
    rows = sorted(matrix.get("workloads", ()), key=lambda each: each["fits"])
    explained = {each["id"]: screens.explain(each["id"]) for each in rows[:MOST_EXPLAINED]}
    return {
        "schema": "weir.ui.report/v1",
        "at": format_time(datetime.now(UTC)),
        "state": {**state, "live": False, "readOnly": True},
        "matrix": matrix,
        "explain": explained,
        "fleet": fleet,
        "whatIf": _foreseen(screens, asked) if asked else None,
    }


def _foreseen(screens: Screens, asked: str) -> Document:
    body = read_question(asked)
    stops: Document = {"ticks": []}
    if body["change"] == "taint" and body["value"]:
        stops = ticks(screens.source.seen(), Question.of(body))
    values = [each["value"] for each in stops["ticks"]]
    at = values.index(body["value"]) if body.get("value") in values else 0
    near = values[max(0, at - MOST_TICKS // 2) :][:MOST_TICKS] or [body.get("value", "")]
    if body.get("value") and body["value"] not in near:
        near = [*near[: MOST_TICKS - 1], body["value"]]
    answers = {value: screens.foresee({**body, "value": value} if value else body) for value in near}
    kept = [each for each in stops["ticks"] if each["value"] in answers]
    return {"question": body, "ticks": {**stops, "ticks": kept}, "answers": answers}


def read_question(text: str) -> Document:
    """Return the question that words like those of `weir what-if` ask.

    >>> read_question("taint -l pool=spot sla=800:NoExecute")["value"]
    '800'
    """
    words = shlex.split(text)
    if words[:2] == ["weir", "what-if"]:
        words = words[2:]
    kinds = ("taint", "untaint", "drain", "cordon", "uncordon", "delete-node", "gates")
    if not words or words[0] not in kinds:
        raise click.UsageError(f"--what-if: begin with one of {', '.join(kinds)}")
    body: Document = {"change": words[0], "value": ""}
    rest = words[1:]
    if words[0] == "gates":
        return {**body, "gates": " ".join(rest)}
    nodes: Document = {"names": []}
    while rest:
        word = rest.pop(0)
        if word in ("-l", "--selector") and rest:
            nodes = {"selector": rest.pop(0)}
        elif word == "--all-nodes":
            nodes = {"all": True}
        elif word == "--force":
            body["force"] = True
        elif words[0] in ("taint", "untaint") and not rest:
            taint, _, effect = word.rpartition(":") if ":" in word else (word, "", "")
            key, _, value = taint.partition("=")
            body |= {"key": key, "value": value, "effect": effect}
        else:
            nodes.setdefault("names", []).append(word)
    return {**body, "nodes": nodes}


# ── the file ─────────────────────────────────────────────────────────────────────────────────────


def page(data: Document) -> str:
    """Return the HTML of the file."""
    files = {name: content.decode() for name, content in page_files().items()}
    script, style = one_script(files), files["style.css"]
    policy = (
        f"default-src 'none'; script-src 'sha256-{_digest(script)}'; style-src 'sha256-{_digest(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    shown = msgspec.json.encode(data).decode().replace("<", "\\u003c").replace("\u2028", "\\u2028")
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>'
    body = f'<script type="application/json" id="frozen">{shown}</script>\n<script>{script}</script>'
    html = files["index.html"]
    html = html.replace('<link rel="stylesheet" href="style.css">', head)
    return html.replace('<script type="module" src="app.js"></script>', body)


def one_script(files: dict[str, str], first: str = "app.js") -> str:
    """Return the modules as one script: each a function of its own, after those it imports."""
    order: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        for _, other in _IMPORT.findall(files[name]):
            visit(other)
        order.append(name)

    visit(first)
    text = "\n".join(_as_function(name, files[name]) for name in order)
    return f'"use strict";\nconst modules = {{}};\n{text}\n'.replace("</script", "<\\/script")


def _as_function(name: str, text: str) -> str:
    exported = ", ".join(found for _, found in _EXPORT.findall(text))
    text = _IMPORT.sub(r'const {\1} = modules["\2"];', text)
    text = _EXPORT.sub(r"\1 \2", text)
    return f'modules["{name}"] = (() => {{\n{text}\nreturn {{ {exported} }};\n}})();'


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
