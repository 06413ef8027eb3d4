"""Plan screen: the waves in which a change keeps its goals, and waves that the user split or merged, forecast again.

The response holds the documents of `weir plan -o json`, the files to download, and for each wave the items in it and
the goals it breaks.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from weir.device_rules.rule import by_pool
from weir.inputs.forecasts import check_plannable, objects_but_pods
from weir.objects.times import format_time
from weir.output import to_yaml
from weir.plan.document import Goals, Made, write
from weir.plan.goals import Breach, GoalError, read_goals
from weir.plan.picture import picture
from weir.plan.relax import find
from weir.plan.script import script
from weir.plan.search import Found, NoPlan, Searcher, plan_of
from weir.plan.state import ClusterState
from weir.plan.task import task_of
from weir.ui.source import ClusterView
from weir.ui.timeline import BadQuestion, Question
from weir.whatif import changes as made
from weir.whatif.changes import ChangeError
from weir.whatif.run import WhatIfOptions

Document = dict[str, Any]
Tick = Callable[[str, int, int], None]
#: Changes that have waves.
KINDS: Final = ("taint", "untaint", "drain", "apply")
#: Goals of the page, by the words that `read_goals` has for them; the options are called alike.
_GOALS: Final = {
    "maxPending": "max_pending",
    "maxUnavailable": "max_unavailable",
    "spare": "spare",
    "within": "within",
}


def make_plan(seen: ClusterView, body: Mapping[str, Any], cluster: str, tick: Tick) -> Document:
    """Return the plan of a question, or why there is none; with `waves` in *body*, those instead of the best ones."""
    question, goals, waves = Question.of(body), _goals(body), _waves(body.get("waves"))
    if question.kind not in KINDS:
        raise BadQuestion(f"change: a plan is made of one of {', '.join(KINDS)}")
    check_plannable(seen.held, question.documents, seen.known)
    gates, now = seen.known.possible(())[0], datetime.now(UTC)
    objects = objects_but_pods(seen.held)
    change = question.change(gates)
    if isinstance(change, made.Apply):
        change = made.Apply(tuple(by_pool(question.documents[0], objects)))
    state = ClusterState.of(*seen.held.sources(), WhatIfOptions(gates, now, goals.within_seconds or 0.0))
    broken: list[list[Breach]] = []
    outcome: Found | NoPlan
    try:
        if waves:
            search = Searcher(task_of([change], state.objects), state, goals, tick)
            _check_waves(waves, search)
            outcome, broken = search.follow(waves)
        else:
            search, outcome = find([change], state, goals, tick)
    except ChangeError as error:
        raise BadQuestion(str(error)) from None
    command = _command(question, body)
    if isinstance(outcome, NoPlan):
        return {"schema": "weir.ui.plan/v1", "none": outcome.document(), "command": command}
    plan = plan_of(
        outcome,
        search,
        goals,
        Made(
            at=format_time(now),
            command=f"{command} (waves changed by hand)" if waves else command,
            cluster=cluster,
            nodes=len(seen.world.nodes),
            pods=len(seen.world.pods),
            feature_gates=str(gates),
        ),
        broken,
    )
    document = write(plan)
    return {
        "schema": "weir.ui.plan/v1",
        "plan": document,
        "items": [list(each) for each in outcome.groups],
        "broken": [[breach.text for breach in each] for each in broken] or [[] for _ in outcome.waves],
        "ordered": search.task.ordered,
        "command": command,
        "files": {
            "plan.yaml": to_yaml(document) + "\n",
            "plan.svg": picture(plan),
            "plan.sh": script(plan, to_yaml),
        },
    }


def _goals(body: Mapping[str, Any]) -> Goals:
    asked = body.get("goals") or {}
    if not isinstance(asked, dict):
        raise BadQuestion("goals: expected an object")
    given: dict[str, Any] = {}
    for name, word in _GOALS.items():
        if not isinstance(asked.get(name, ""), str):
            raise BadQuestion(f"goals.{name}: expected a text")
        if text := asked.get(name, "").strip():
            given[word] = text
    try:
        return read_goals(
            **given, ignore_budgets=asked.get("ignoreBudgets") is True, allow_lost=body.get("force") is True
        )
    except GoalError as error:
        raise BadQuestion(f"{error.goal}: {error}") from None


def _command(question: Question, body: Mapping[str, Any]) -> str:
    """Return the command that asks for the same plan."""
    if question.kind == "apply":
        rule = question.documents[0]["spec"]
        selector = ",".join(f"{name}={value}" for name, value in (rule.get("deviceSelector") or {}).items())
        taint = rule["taint"]
        value = f"={taint['value']}" if taint.get("value") else ""
        words = ["weir", "plan", "device-taint", selector or "--all-devices"]
        words.append(f"{taint['key']}{value}:{taint['effect']}")
    else:
        words = ["weir", "plan", *shlex.split(question.commands()[1])[2:]]
    asked = body.get("goals") or {}
    for name, word in _GOALS.items():
        if text := asked.get(name, "").strip():
            words += [f"--{word.replace('_', '-')}", text]
    words += ["--ignore-budgets"] if asked.get("ignoreBudgets") is True else []
    words += ["--force"] if question.force and "--force" not in words else []
    return shlex.join(words)


def _waves(asked: Any) -> list[tuple[str, ...]]:
    try:
        return msgspec.convert(asked or [], list[tuple[str, ...]])
    except msgspec.ValidationError:
        raise BadQuestion("waves: expected a list of lists of names") from None


def _check_waves(waves: Sequence[Sequence[str]], search: Searcher) -> None:
    """Raise BadQuestion unless each item of the task is in one wave, in the order they have where that matters."""
    items, task = [each for wave in waves for each in wave], search.task
    if sorted(items) != sorted(task.items) or not all(waves):
        raise BadQuestion(f"waves: expected each of {', '.join(task.items[:5])} … once, and no empty wave")
    if task.ordered and items != list(task.items):
        raise BadQuestion("waves: these keep the order in which they are applied")
