"""`python -m examples [WORD]`: tell every story (or those whose folder holds WORD): asked, happens, why.

Ends with 1 if any outcome is not the specified one.
"""

from __future__ import annotations

import sys

from examples.story import Outcome, stories
from weir.explain.explanation import verdict_line
from weir.explain.words import node_sentence
from weir.output import BAD, DIM, GOOD, paint, to_yaml, wants_colour


def main(words: list[str]) -> int:
    colour = wants_colour()
    chosen = [story for story in stories() if all(word in story.folder.name for word in words)]
    total = wrong = 0
    for story in chosen:
        expected = story.expected
        print(paint(f"{expected['title']}  ({expected['source']})", "reset", bold=True, on=colour))
        print(f"  {expected['asks']}")
        event = ""
        for outcome in story.outcomes():
            if outcome.event != event:
                event = outcome.event
                print(paint(f"  … {event}:", DIM, on=colour))
            total += 1
            wrong += bool(outcome.differences)
            show(outcome, colour)
        print()
    if not chosen:
        print(f"no story is called like {' '.join(words)!r}", file=sys.stderr)
        return 2
    said = f"{len(chosen)} stories, {total} outcomes, " + (
        f"{wrong} NOT as specified" if wrong else "all as specified"
    )
    print(paint(said, BAD if wrong else GOOD, bold=True, on=colour))
    return 1 if wrong else 0


def show(outcome: Outcome, colour: bool) -> None:
    answer = outcome.answer
    mark = paint("✗" if outcome.differences else "✓", BAD if outcome.differences else GOOD, on=colour)
    print(f"  {mark} {verdict_line(answer)}")
    for group in answer.groups:
        names = ", ".join(group.nodes)
        print(f"      {names}: {node_sentence(group.verdict)}")
    if answer.fix:
        for edit in answer.fix.edits:
            print(f"      smallest change: {edit.say()}")
        if answer.fix.patch:
            print(paint(to_yaml(answer.fix.patch, indent=8), DIM, on=colour))
        for edits in answer.fix.alternatives:
            print(paint(f"      or: {'; '.join(edit.say() for edit in edits)}", DIM, on=colour))
    for difference in outcome.differences:
        print(paint(f"      NOT as specified: {difference}", BAD, on=colour))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
