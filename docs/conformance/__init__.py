"""Results of the stories in weir and in real Kubernetes: recorded results, side by side on one page.

`python -m tests.kubernetes.conformance SETTING` records a result into this folder; `page` writes them down. A story
that passes in weir and fails in a Kubernetes that offers what it needs is either a bug here or names the decision by
which weir does otherwise (`decisions:` of the story).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from weir.conformance.formats import MARKS, TITLES
from weir.conformance.isolation import isolation_problem
from weir.conformance.results import Verdict, keps_of
from weir.simulation.demo.story import NEEDS, Story, find_stories

HERE: Final = Path(__file__).parent
#: The columns, in this order.
SETTINGS: Final = (
    "weir",
    "kubernetes-gates-on",
    "kubernetes-gates-off",
    "kubernetes-operator",
    "kubernetes-1.35",
)
OPERATOR: Final = "kubernetes-operator"
OLDER: Final = "kubernetes-1.35"
#: The settings whose gates are weir's: what differs there is a bug of weir's or a decision.
COMPARED: Final = ("kubernetes-gates-on", OPERATOR)
_SPECIFICATION: Final = {"core": "core.md", "dra": "dra.md", "stock": "stock.md"}
_MARKS: Final = {verdict.value: mark for verdict, mark in MARKS.items()}

_INTRODUCTION: Final = (
    "`weir conformance` plays every story in a live cluster ([how](../howto/check-conformance.md)). These are its",
    "results, recorded on real control planes with simulated nodes: `python -m tests.kubernetes.conformance SETTING`",
    "records them, `make docs` writes this page. ✓ passes, ✗ fails, – not offered: the cluster refuses or drops what",
    "the story needs.",
)
_DIFFERENCES: Final = (
    "What a Kubernetes does otherwise although it offers what the story needs: faults of its own, each with the",
    "decision by which weir does not follow it. A difference without a decision would be a bug of weir's; a test sees",
    "to it that there is none.",
)

_OLDER_RELEASE: Final = (
    "An earlier stage of the same features, in which rules are alpha; weir does what 1.37 does.",
)
_OPERATOR_WORDS: Final = (
    "On a Kubernetes that does not know the operators, webhooks of weir refuse what is wrong, and the refusal of one",
    "reads otherwise than the API server's own; lowered tolerations are spelled as Kubernetes knows them",
    "([stock.md](../design/stock.md)). Everything else in these stories is as specified.",
)

Document = dict[str, Any]


def recorded() -> dict[str, Document]:
    """Return what was recorded, by setting."""
    paths = {name: HERE / f"{name}.json" for name in SETTINGS}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def only_words(row: Document) -> bool:
    """Return whether a story fails only in the words of a refusal, or in how lowered tolerations are spelled."""
    texts = [each["difference"] for each in row["instead"]]
    return all(
        text.startswith("spec.tolerations")
        or (text.startswith("refused: ") and not text.endswith("seen None"))
        for text in texts
    )


def differing(results: Mapping[str, Document]) -> dict[str, dict[str, Document]]:
    """Return the stories that fail in a setting: name → setting → row; weir's operator has words of its own."""
    found: dict[str, dict[str, Document]] = {}
    for setting, document in results.items():
        for row in document["stories"]:
            if row["verdict"] == Verdict.FAILS.value and not (setting == OPERATOR and only_words(row)):
                found.setdefault(row["name"], {})[setting] = row
    return found


def page() -> str:
    """Return the page."""
    return "\n".join(_lines(recorded(), find_stories())) + "\n"


def _lines(results: Mapping[str, Document], stories: list[Story]) -> Iterator[str]:
    yield "# What weir and Kubernetes really do"
    yield ""
    yield from _INTRODUCTION
    yield ""
    yield "| setting | version | gates | ✓ | ✗ | – |"
    yield "|---|---|---|---|---|---|"
    for document in results.values():
        rows = document["stories"]
        counts = [sum(row["verdict"] == v.value for row in rows) for v in list(Verdict)[:3]]
        gates = document["gates"].replace(",", ", ") or "as they come"
        yield f"| {document['title']} | {document['version']} | {gates} | {' | '.join(map(str, counts))} |"
    yield ""
    yield from _features(results)
    yield from _stories(results, stories)
    yield "## Where they differ"
    yield ""
    yield from _DIFFERENCES
    yield ""
    yield from _differences({name: results[name] for name in COMPARED if name in results}, stories)
    yield from _words(results)
    older = {name: document for name, document in results.items() if name == OLDER}
    if differing(older):
        yield f"## What {older[OLDER]['title']} did otherwise"
        yield ""
        yield from _OLDER_RELEASE
        yield ""
        yield from _differences(older, stories)
    left_out = [(story, why) for story in stories if (why := isolation_problem(story))]
    yield "## Played by `weir demo` only"
    yield ""
    yield f"{len(left_out)} stories reach beyond their own objects, so a cluster that others use does not see them."
    yield ""
    yield from (f"- `{story.name}`: {why}" for story, why in left_out)


def _features(results: Mapping[str, Document]) -> Iterator[str]:
    offers = {name: {o["need"]: o for o in document["offers"]} for name, document in results.items()}
    yield "## Features"
    yield ""
    yield f"| feature | {' | '.join(document['title'] for document in results.values())} |"
    yield "|---|" + "---|" * len(results)
    for need, means in NEEDS.items():
        cells = [_offered(offers[name].get(need)) for name in results]
        yield f"| {means} | {' | '.join(cells)} |"
    yield ""


def _offered(offer: Document | None) -> str:
    return "" if offer is None else {True: "✓", False: "–", None: "?"}[offer["offered"]]


def _stories(results: Mapping[str, Document], stories: list[Story]) -> Iterator[str]:
    verdicts = {
        name: {row["name"]: row["verdict"] for row in document["stories"]}
        for name, document in results.items()
    }
    for kep in sorted({keps_of(story)[0] for story in stories}):
        yield f"## {TITLES.get(kep, f'KEP-{kep}')}"
        yield ""
        yield f"| story | it asks | {' | '.join(document['title'] for document in results.values())} |"
        yield "|---|---|" + "---|" * len(results)
        for story in stories:
            if keps_of(story)[0] == kep and not isolation_problem(story):
                cells = [_MARKS.get(verdicts[name].get(story.name, ""), "") for name in results]
                yield f"| `{story.name}` | {_cell(story.asks)} | {' | '.join(cells)} |"
        yield ""


def _differences(results: Mapping[str, Document], stories: list[Story]) -> Iterator[str]:
    by_name = {story.name: story for story in stories}
    for name, rows in sorted(differing(results).items()):
        story = by_name.get(name)
        if story is None:
            continue
        where = ", ".join(results[setting]["title"] for setting in rows)
        decided = "".join(f"; {_decision(each)}" for each in story.decisions)
        yield f"### {story.title}"
        yield ""
        yield f"`{name}` in {where}{decided}. {story.asks}"
        yield ""
        told = {_cell(f"{each['event']}: {each['about']}: {each['difference']}"): None
                for row in rows.values() for each in row["instead"]}  # fmt: skip
        yield from (f"- {each}" for each in told)
        yield ""


def _words(results: Mapping[str, Document]) -> Iterator[str]:
    rows = results.get(OPERATOR, {}).get("stories", ())
    found = [row["name"] for row in rows if row["verdict"] == Verdict.FAILS.value and only_words(row)]
    if not found:
        return
    yield "## What weir's operator says in other words"
    yield ""
    yield from _OPERATOR_WORDS
    yield ""
    yield from (f"- `{name}`" for name in found)
    yield ""


def _decision(text: str) -> str:
    return f"[{text}](../spec/{_SPECIFICATION[text.partition(' ')[0]]})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
