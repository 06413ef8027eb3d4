"""Formats of a conformance report: table, JUnit, HTML.

JSON is in weir.conformance.results.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Final
from xml.etree import ElementTree

from weir.conformance.results import Report, Result, Verdict, by_kep
from weir.simulation.demo.story import NEEDS
from weir.values.printable import printable

TITLES: Final = {
    "5055": "KEP-5055, device taints",
    "5471": "KEP-5471, numeric tolerations",
    "5500": "KEP-5500, expressions in tolerations",
    "5721": "KEP-5721, semantic versions",
    "other": "your own",
}
MARKS: Final = {
    Verdict.PASSES: "✓",
    Verdict.FAILS: "✗",
    Verdict.NOT_OFFERED: "–",
    Verdict.CANNOT_SAY: "?",
}


@dataclass(frozen=True)
class Line:
    """One line of the table, with the verdict that colours it, if any."""

    text: str
    verdict: Verdict | None = None
    bold: bool = False


def table(report: Report) -> Iterator[Line]:
    """Yield the results by KEP, then what the cluster offers, then the numbers."""
    width = max((len(result.story.name) for result in report.results), default=0)
    for kep, results in by_kep(report.results).items():
        yield Line(TITLES.get(kep, f"KEP-{kep}"), bold=True)
        for result in results:
            yield Line(
                f"  {MARKS[result.verdict]} {result.story.name:{width}}  {_says(result)}", result.verdict
            )
            yield from (Line(f"      {seen}") for seen in result.instead)
            if result.because and result.verdict is not Verdict.NOT_OFFERED:
                yield Line(f"      {result.because}")
        yield Line("")
    if report.offers:
        yield Line("This cluster offers", bold=True)
        for offer in report.offers.values():
            verdict = {True: Verdict.PASSES, False: Verdict.NOT_OFFERED, None: Verdict.CANNOT_SAY}[
                offer.offered
            ]
            yield Line(f"  {MARKS[verdict]} {offer.says}", verdict)
        yield Line("")
    if report.not_played:
        yield Line("Not played here", bold=True)
        for why in dict.fromkeys(why for _, why in report.not_played):
            names = ", ".join(story.name for story, because in report.not_played if because == why)
            yield Line(f"  {names}: {why}")
        yield Line("")
    yield Line(summary(report), bold=True)


def _says(result: Result) -> str:
    outcomes = f"{result.outcomes} outcome" + ("" if result.outcomes == 1 else "s")
    match result.verdict:
        case Verdict.PASSES:
            return f"passes: {outcomes}"
        case Verdict.FAILS:
            return f"fails: {len(result.instead)} of {outcomes} not as specified"
        case Verdict.NOT_OFFERED:
            return f"not offered: {result.because}"
    return "cannot say"


def summary(report: Report) -> str:
    """Return the last line."""
    counted = [f"{report.count(v)} {_counted(v)}" for v in Verdict if report.count(v)]
    played = "1 story" if len(report.results) == 1 else f"{len(report.results)} stories"
    return f"{played} in {report.cluster}, {report.version}: {', '.join(counted)}; {report.seconds:.0f} s"


def _counted(verdict: Verdict) -> str:
    return {"passes": "pass", "fails": "fail"}.get(verdict.value, verdict.value)


def junit(report: Report) -> str:
    """Return a JUnit report: a suite for each KEP, a case for each story."""
    root = ElementTree.Element("testsuites", name=f"weir conformance of {printable(report.cluster)}")
    for kep, results in by_kep(report.results).items():
        number = {v: str(sum(result.verdict is v for result in results)) for v in Verdict}
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=TITLES.get(kep, f"KEP-{kep}"),
            tests=str(len(results)),
            failures=number[Verdict.FAILS],
            errors=number[Verdict.CANNOT_SAY],
            skipped=number[Verdict.NOT_OFFERED],
        )
        for result in results:
            case = ElementTree.SubElement(
                suite,
                "testcase",
                classname=f"weir.conformance.kep-{kep}",
                name=result.story.name,
                time=f"{result.seconds:.1f}",
            )
            because = printable(result.because)
            match result.verdict:
                case Verdict.FAILS:
                    lines = [printable(str(seen)) for seen in result.instead]
                    failure = ElementTree.SubElement(case, "failure", message=lines[0])
                    failure.text = "\n".join(lines)
                case Verdict.NOT_OFFERED:
                    ElementTree.SubElement(case, "skipped", message=f"not offered: {because}")
                case Verdict.CANNOT_SAY:
                    ElementTree.SubElement(case, "error", message=f"cannot say: {because}")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode")


_STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#222;background:#fff}"
    "table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.3rem .6rem;"
    "border-bottom:1px solid #ddd}.passes{color:#0a7a2f}.fails{color:#b00020;font-weight:600}"
    ".not-offered{color:#666}.cannot-say{color:#8a5a00}small{color:#666}ul{margin:.2rem 0 .2rem 1rem;padding:0}"
)


def html(report: Report) -> str:
    """Return a page that needs nothing else."""
    return "\n".join(_page(report)) + "\n"


def _page(report: Report) -> Iterator[str]:
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f"<title>Extended taints in {_text(report.cluster)}</title><style>{_STYLE}</style></head><body>"
    yield f"<h1>Extended taints in {_text(report.cluster)}</h1><p>{_text(summary(report))}</p>"
    for kep, results in by_kep(report.results).items():
        yield f"<h2>{_text(TITLES.get(kep, f'KEP-{kep}'))}</h2><table>"
        yield "<tr><th>Story</th><th>Verdict</th><th>What it asks, and what was seen instead</th></tr>"
        for result in results:
            yield _row(result)
        yield "</table>"
    if report.offers:
        yield "<h2>What the cluster offers</h2><table><tr><th>Need</th><th>Offered</th><th>Why not</th></tr>"
        for offer in report.offers.values():
            wording = {
                True: ("passes", "yes"),
                False: ("not-offered", "no"),
                None: ("cannot-say", "cannot say"),
            }
            style, word = wording[offer.offered]
            yield f'<tr><td>{_text(NEEDS[offer.need])}</td><td class="{style}">{word}</td>'
            yield f"<td>{_text(offer.because)}</td></tr>"
        yield "</table>"
    yield "</body></html>"


def _row(result: Result) -> str:
    style = result.verdict.value.replace(" ", "-")
    seen = "".join(f"<li>{_text(str(each))}</li>" for each in result.instead)
    more = f"<br><small>{_text(result.because)}</small>" if result.because else ""
    return (
        f"<tr><td>{_text(result.story.title)}<br><small>{_text(result.story.name)}</small></td>"
        f'<td class="{style}">{MARKS[result.verdict]} {result.verdict.value}</td>'
        f"<td>{_text(result.story.asks)}{more}{f'<ul>{seen}</ul>' if seen else ''}</td></tr>"
    )


def _text(text: str) -> str:
    return escape(printable(text))
