"""`weir cel`: evaluates an expression: type, cost, and results for taints or devices.

Reads taints as text (`key=value:Effect`), node dumps and, for device selectors, ResourceSlices. Writes nothing. Exit
0 when the expression is accepted (eval: and true everywhere), 1 when it is rejected, false or fails, 2 for unreadable
input. `-o json` prints schema `weir.cel/v1` (docs/reference/cel.schema.json).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import click

from weir.cel import listing
from weir.cel.decide import conditions, decide
from weir.cel.env import COST_LIMIT, Env
from weir.cel.errors import CelError, CompileError
from weir.cel.estimate import Estimate
from weir.cel.program import INVALID, Refusal, check_expression, compile, long_name
from weir.cli._options import Group, output_option
from weir.devices import expression as devices
from weir.devices.expression import DeviceError, read_device
from weir.devices.expression import environment as device_environment
from weir.exit_codes import FINDINGS, FINE
from weir.fields.documents import closest
from weir.inputs.files import read_dump
from weir.objects.core import Taint
from weir.objects.envelope import envelope_problem
from weir.output import (
    BAD,
    DIM,
    GOOD,
    NOTE,
    paint,
    say,
    say_lines,
    table,
    to_json,
    wants_colour,
    write_document,
)
from weir.taints import expression as taints
from weir.taints.expression import ENV
from weir.taints.notation import TaintNotationError, parse_taint

# ── subjects of an expression on the command line: taints as text or from nodes, devices of ResourceSlices ──


def _taint(text: str) -> dict[str, str]:
    """Return the taint *text* writes, the way kubectl does; without an effect it stands for any."""
    try:
        taint = parse_taint(text, effect_required=False)
    except TaintNotationError as error:
        raise click.UsageError(str(error)) from None
    return {"key": taint.key, "value": taint.value, "effect": taint.effect}


def taints_of(written: Iterable[str], files: Sequence[str]) -> list[dict[str, Any]]:
    """Return the distinct taints that were written or stand on the nodes of the files, with a count of nodes."""
    subjects: list[dict[str, Any]] = [{"taint": _taint(text)} for text in written]
    nodes: dict[tuple[str, str, str], int] = {}
    for document in _objects(files, "Node"):
        taints = _entries(document, "taints")
        distinct = {
            (str(t.get("key", "")), str(t.get("value") or ""), str(t.get("effect") or "")) for t in taints
        }
        for taint in sorted(distinct):
            nodes[taint] = nodes.get(taint, 0) + 1
    for (key, value, effect), count in nodes.items():
        subjects.append({"taint": {"key": key, "value": value, "effect": effect}, "nodes": count})
    return subjects


def devices_of(files: Sequence[str]) -> list[dict[str, Any]]:
    subjects = []
    for document in _objects(files, "ResourceSlice"):
        spec = document.get("spec") or {}
        pool = spec.get("pool")
        pool = pool.get("name", "") if isinstance(pool, Mapping) else ""
        for device in _entries(document, "devices"):
            content = device.get("basic") or device  # v1beta1 wraps them
            name = f"{spec.get('driver', '')}/{pool}/{device.get('name', '')}"
            subjects.append({"device": name, "driver": spec.get("driver", ""), "content": content})
    return subjects


def _entries(document: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    """Return the objects in a list of the spec; raises UsageError when it is no such list."""
    entries = (document.get("spec") or {}).get(field) or []
    if not isinstance(entries, list) or not all(isinstance(each, Mapping) for each in entries):
        name = (document.get("metadata") or {}).get("name", "")
        raise click.UsageError(f"{document.get('kind', '')} {name}: spec.{field} must be a list of mappings")
    return entries


def _objects(files: Sequence[str], kind: str) -> list[Mapping[str, Any]]:
    objects: list[Mapping[str, Any]] = []
    stack = list(reversed(read_dump(files)))
    while stack:
        value = stack.pop()
        if not isinstance(value, Mapping):
            continue
        if isinstance(value.get("items"), list):
            stack.extend(reversed(value["items"]))
        elif value.get("kind", kind) == kind:
            if problem := envelope_problem(value):
                raise click.UsageError(f"{', '.join(files)}: {problem}")
            objects.append(value)
    return objects


SCHEMA: Final = "weir.cel/v1"
TOLERATION: Final = "toleration"
DEVICE: Final = "device"
_EVAL_CODES: Final = (
    "Exit codes: 0 accepted, and true for everything asked about; 1 refused, or false or an error for something; "
    "2 unreadable input or wrong use."
)
_CHECK_CODES: Final = "Exit codes: 0 the API accepts the expression; 1 it refuses it; 2 wrong use."
#: What the compiler says of a name it does not know.
_UNKNOWN_NAME: Final = re.compile(r"undeclared reference to '([^']+)'|undefined field '([^']+)'")
_Command = Callable[..., Any]


def _environment_option(command: _Command) -> _Command:
    return click.option(
        "--env",
        "environment",
        type=click.Choice([TOLERATION, DEVICE]),
        default=TOLERATION,
        show_default=True,
        help="Which variable the expression is about: `taint` or `device`.",
    )(command)


@click.group(cls=Group, no_args_is_help=True)
def cel() -> None:
    """Check and try CEL expressions of tolerations and device selectors.

    EXPRESSION may be `-` for standard input.

    \b
    Examples:
      weir cel check "taint.key.startsWith('env.example.com/')"
      weir cel eval "semver(taint.value).major() >= 6" kernel=6.1.0:NoSchedule
      kubectl get nodes -o yaml | weir cel eval "taint.effect == 'NoExecute'" -f -
      weir cel cost "taint.key.split('.').exists(p, p == 'gpu')"
    """


@cel.command(epilog=_CHECK_CODES)
@click.argument("expression")
@_environment_option
@output_option("text", "json")
def check(expression: str, environment: str, output: str) -> int:
    """Say whether the API accepts EXPRESSION, its type and what it may cost."""
    report = _report(_text(expression), environment)
    if output == "json":
        write_document(to_json(report))
    else:
        _print_summary(report)
    return FINDINGS if report["refusal"] else FINE


@cel.command(name="eval", epilog=_EVAL_CODES)
@click.argument("expression")
@click.argument("taints", nargs=-1, metavar="[KEY=VALUE:EFFECT]...")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE|DIR|-",
    help="Nodes (`kubectl get nodes -o yaml`), or ResourceSlices with --env device.",
)
@_environment_option
@output_option("text", "json")
def evaluate(
    expression: str, taints: Sequence[str], files: Sequence[str], environment: str, output: str
) -> int:
    """Evaluate EXPRESSION for each taint given or found, and say which part decided.

    Taints are written as kubectl writes them: `key=value:Effect`, `key:Effect`, `key=value` or `key`.
    """
    text = _text(expression)
    if environment == DEVICE:
        if taints:
            raise click.UsageError("devices come from ResourceSlices: use -f instead of taints")
        subjects = devices_of(files)
    else:
        subjects = taints_of(taints, files)
    if not subjects:
        what = "ResourceSlice with a device" if environment == DEVICE else "taint"
        raise click.UsageError(f"nothing to evaluate for: give at least one {what}")
    report = _report(text, environment)
    if not _broken(report):
        report["results"] = [_result(text, environment, subject) for subject in subjects]
    if output == "json":
        write_document(to_json(report))
    else:
        _print_summary(report)
        _print_results(report["results"])
    everywhere = report["results"] and all(result["result"] is True for result in report["results"])
    return FINE if everywhere and not report["refusal"] else FINDINGS


@cel.command(epilog=_CHECK_CODES)
@click.argument("expression")
@_environment_option
@output_option("text", "json")
def cost(expression: str, environment: str, output: str) -> int:
    """Estimate what EXPRESSION can cost, part by part; the API refuses more than 1,000,000."""
    text = _text(expression)
    report = _report(text, environment)
    if not _broken(report):
        report["parts"] = _parts(text, environment)
    if output == "json":
        write_document(to_json(report))
    else:
        _print_summary(report)
        if len(report["parts"]) > 1:
            rows = [(_span(part["estimate"]), part["text"]) for part in report["parts"]]
            say_lines(table(rows))
    return FINDINGS if report["refusal"] else FINE


@cel.command()
@_environment_option
@output_option("text", "json", "markdown")
def functions(environment: str, output: str) -> int:
    """List every function with its signatures and what it costs."""
    env = _env(environment)
    if output == "json":
        write_document(
            to_json({"schema": SCHEMA, "environment": environment, "functions": listing.rows(env)})
        )
    elif output == "markdown":
        write_document(listing.markdown({TOLERATION: _env(TOLERATION), DEVICE: _env(DEVICE)}), nl=False)
    else:
        rows = [(row["signature"], row["cost"]) for row in listing.rows(env)]
        say_lines(table(rows, indent=0))
    return FINE


# -- subjects -------------------------------------------------------------------------------------------------


def _text(expression: str) -> str:
    if expression != "-":
        return expression
    text = sys.stdin.read().strip("\n")
    if not text.strip():  # the command before it in the pipe failed
        raise click.UsageError("nothing was read: the input is empty")
    return text


def _env(environment: str) -> Env:
    if environment == DEVICE:
        return device_environment(list_attributes=True, multiple_allocations=True)

    return ENV


# -- answers ------------------------------------------------------------------------------------------------


def _report(text: str, environment: str) -> dict[str, Any]:
    env = _env(environment)
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "environment": environment,
        "expression": text,
        "type": None,
        "estimate": None,
        "limit": COST_LIMIT,
        "refusal": None,
        "results": [],
        "parts": [],
    }
    refusal = _refusal(text, environment)
    if refusal is not None:
        hint = _meant(refusal.message, environment)
        report["refusal"] = {"kind": refusal.kind, "message": refusal.message, "hint": hint}
    try:
        checked = check_expression(text, env)
        report["type"] = long_name(checked.type)
        report["estimate"] = _numbers(checked.estimate)
    except (CompileError, CelError):
        pass  # the refusal says it
    return report


def _refusal(text: str, environment: str) -> Refusal | None:
    if len(text.encode("utf-8", "surrogatepass")) > taints.MAX_BYTES:
        return Refusal(INVALID, f"may not be more than {taints.MAX_BYTES} bytes")
    if environment == DEVICE:
        return devices.check_expression(text, list_attributes=True, multiple_allocations=True)
    return taints.check_expression(text)


def _meant(message: str, environment: str) -> str:
    """Return which name was probably meant by one that the compiler does not know, or ""."""
    unknown = _UNKNOWN_NAME.search(message)
    if unknown is None:
        return ""
    variable, fields = _NAMES[environment]
    named = (re.match(r"(?:[^(]*\.)?(\w+)\(", row["signature"]) for row in listing.rows(_env(environment)))
    functions = {match.group(1) for match in named if match is not None}
    known = fields if unknown.group(2) else [variable, *sorted(functions)]
    meant = closest(unknown.group(1) or unknown.group(2), known)
    return f"did you mean {meant}?" if meant else f"known are: {', '.join(fields)}" * bool(unknown.group(2))


_NAMES: Final = {
    TOLERATION: ("taint", ("key", "value", "effect")),
    DEVICE: ("device", ("driver", "attributes", "capacity", "allowMultipleAllocations")),
}


def _broken(report: Mapping[str, Any]) -> bool:
    """Return whether the expression cannot even be evaluated; a costly one can."""
    return bool(report["refusal"]) and report["refusal"]["kind"] != "forbidden"


def _numbers(estimate: Estimate) -> dict[str, int]:
    return {"min": estimate.min, "max": estimate.max}


def _result(text: str, environment: str, subject: dict[str, Any]) -> dict[str, Any]:
    variables, shown = _variables(environment, subject)
    if isinstance(variables, str):
        return {**shown, "result": None, "cost": 0, "deciding": "", "error": variables}

    env = _env(environment)
    error, value, spent = "", None, 0
    try:
        value, spent = compile(text, env).run_exactly(variables)
    except CelError as failure:
        error, spent = str(failure), getattr(failure, "cost", 0)
    if not error and value.__class__ is not bool:
        error, value = "the result is not a bool", None
    deciding = decide(text, env, variables).text
    return {**shown, "result": value, "cost": spent, "deciding": deciding, "error": error}


def _variables(environment: str, subject: dict[str, Any]) -> tuple[dict[str, Any] | str, dict[str, Any]]:
    """Return the bound variable (or why it cannot be bound) and what the answer says it is about."""
    if environment == DEVICE:
        shown = {"device": subject["device"]}
        try:
            return {"device": read_device(subject["driver"], subject["content"])}, shown
        except DeviceError as error:
            return str(error), shown

    return {"taint": Taint(**subject["taint"])}, subject


def _parts(text: str, environment: str) -> list[dict[str, Any]]:
    env = _env(environment)
    return [
        {"text": part, "estimate": _numbers(check_expression(part, env).estimate)}
        for part in conditions(text)
    ]


# -- text ---------------------------------------------------------------------------------------------------


def _print_summary(report: Mapping[str, Any]) -> None:
    colour = wants_colour()
    if report["refusal"]:
        kind, message = report["refusal"]["kind"], report["refusal"]["message"]
        # The compiler's message shows the line it is about below what it says.
        first, *more = message.split("\n")
        say_lines([paint(f"refused ({kind}): ", BAD, bold=True, on=colour) + first, *more])
        if hint := report["refusal"]["hint"]:
            say(paint(hint, NOTE, on=colour))
    if report["estimate"]:
        estimate = report["estimate"]
        share = estimate["max"] / report["limit"]
        tone = BAD if share > 1 else NOTE if share > 0.5 else GOOD
        say(f"type {report['type']}, cost {paint(_span(estimate), tone, on=colour)} of {report['limit']:,}")


def _span(estimate: Mapping[str, int]) -> str:
    low, high = estimate["min"], estimate["max"]
    if high >= 10**15:
        return f"{low:,} to unbounded"
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _print_results(results: Sequence[Mapping[str, Any]]) -> None:
    colour = wants_colour()
    rows = []
    for result in results:
        word, tone = {True: ("true", GOOD), False: ("false", DIM)}.get(result["result"], ("error", BAD))
        reason = result["error"] or f"because of {_short(result['deciding'])}" * (result["result"] is False)
        count = result.get("nodes")
        nodes = "" if count is None else f"{count} node{'' if count == 1 else 's'}"
        # Paint after aligning: colours have no width.
        rows.append(((word, _subject(result), nodes, f"cost {result['cost']:,}", reason), tone))
    for line, (cells, tone) in zip(table([cells for cells, _ in rows]), rows, strict=True):
        say(line.replace(cells[0], paint(cells[0], tone, on=colour), 1))


def _subject(result: Mapping[str, Any]) -> str:
    if "device" in result:
        return str(result["device"])

    return str(Taint(**result["taint"]))


def _short(text: str, most: int = 60) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"
