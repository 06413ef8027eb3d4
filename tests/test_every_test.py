"""What every test keeps to: it asserts something itself, waits for events and not for seconds, lies with its module.

Read from the syntax of the test files, so that a test that breaks one of these is named before it misleads anyone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.statements import statements

TESTS = Path(__file__).parent
FILES = sorted(TESTS.rglob("*.py"))
#: What asserts beside `assert`: pytest's own, and the checks that a table of cases holds.
JUDGES = ("raises", "warns", "fail", "check")
#: Sleeps that are no wait of a test, and what they are.
MAY_SLEEP = {
    "unit/apiserver/transport/test_protocol.py: asyncio.sleep(3600)": "work that never ends, to be cancelled",
    "hostile.py: asyncio.sleep(1)": "a client that sends a header a second",
    "contract/test_store_crash.py: asyncio.sleep(0.02)": "a writer's pause after an error, as real clients make",
}


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in statements(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def asserts(function: ast.AST) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Assert | ast.Raise):
            return True
        if isinstance(node, ast.Call) and called(node) in JUDGES:
            return True
    return False


def is_polling(loop: ast.AST) -> bool:
    """Whether a loop looks again and again until something is so: `while`, or `for` with a way out before its end."""
    return isinstance(loop, ast.While | ast.AsyncFor) or (
        isinstance(loop, ast.For) and any(isinstance(node, ast.Return | ast.Break) for node in ast.walk(loop))
    )


def fixed_waits(node: ast.AST, *, polling: bool = False) -> Iterator[ast.Call]:
    """Yield calls that sleep for a number of seconds, other than within a loop that polls."""
    for child in ast.iter_child_nodes(node):
        within = is_polling(child) or (
            polling and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        )
        if (
            isinstance(child, ast.Call)
            and ast.unparse(child.func) in ("asyncio.sleep", "time.sleep")
            and not within
        ):
            seconds = child.args[0]
            if isinstance(seconds, ast.Constant) and seconds.value:
                yield child
        yield from fixed_waits(child, polling=within)


#: Clocks that only measure, and those that may also say until when something is waited for.
STOPWATCHES = ("time.perf_counter", "time.process_time", "time.thread_time")
CLOCKS = ("time.monotonic", "time.time")
#: What `make test` does not run: other targets measure there, and benches.
MEASURES = (
    *("kubernetes/", "ecosystem/", "faults/", "mutants/", "stock/"),
    *("fuzz.py", "hostile.py", "hostile_operator.py", "soak.py", "integration/paced_stories.py"),
)


def measures_time(node: ast.AST) -> bool:
    """Whether this takes the time that something needs: reads a stopwatch, or subtracts from what a clock says."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in STOPWATCHES
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Sub)
        and any(f"{clock}()" in ast.unparse(node) for clock in CLOCKS)
    )


#: What waits for something that ends by itself waits so long at least, for machines with other work.
PATIENCE_SECONDS = 30
WAITING = {
    *("wait", "wait_for", "join", "result", "timeout", "communicate", "run", "check_output"),
    *("urlopen", "HTTPConnection", "until", "eventually"),
}
#: Waits that end before, and why.
MAY_HURRY = {
    "contract/test_store_crash.py: for n in range(60):": "sixty writes, each with its own minute",
    "e2e/test_hostile.py: time.monotonic() + 12": "how long strangers attack",
    "e2e/test_safe_eviction.py: '--timeout=2s'": "kubectl says that it waited in vain",
    "ui/test_simulation.py: self.let_go.wait(0.02)": "a pause",
    "ui/test_plan.py: waiting.wait(0.02)": "a pause",
    "unit/inputs/test_files.py: over.wait(0.05)": "a pause",
    "unit/controllers/devices/test_taint_eviction_reconcile.py: story.until(10)": "virtual time",
}


def patience(node: ast.AST) -> float | None:
    """Return for how many seconds at most this waits, where a number says it."""
    match node:
        case ast.Call() if called(node) in WAITING:
            limits = [word.value for word in node.keywords if word.arg == "timeout"] or node.args[-1:]
        case ast.BinOp(ast.Call(ast.Attribute()) as clock, ast.Add(), limit) if re.search(
            r"\b(time|loop\(\))\.(monotonic|time)$", ast.unparse(clock.func)
        ):
            limits = [limit]
        case ast.Constant(str(text)) if option := re.fullmatch(r"--timeout=(\d+)s", text):
            return float(option[1])
        case ast.For(iter=ast.Call(ast.Name("range"), [ast.Constant(int(times))])):
            calls = [
                each for each in ast.walk(node) if isinstance(each, ast.Call) and called(each) == "sleep"
            ]
            pauses = [each.args[0].value for each in calls if isinstance(each.args[0], ast.Constant)]
            return times * sum(pauses) or None
        case ast.Assign([ast.Name(name)], limit) if name.endswith("PATIENCE_SECONDS"):
            limits = [limit]
        case _:
            return None
    values = [each.value for each in limits if isinstance(each, ast.Constant)]
    return next((value for value in values if type(value) in (int, float) and value), None)


class Found(NamedTuple):
    """What breaks a rule, of all test files."""

    silent: list[str]
    waits: set[str]
    measuring: list[str]
    hurried: set[str]


@pytest.fixture(scope="module")
def found() -> Found:
    """Each file is read once for all rules."""
    found = Found([], set(), [], set())
    for path in FILES:
        name, text = path.relative_to(TESTS), path.read_text()
        tree = ast.parse(text)
        if path.name.startswith("test_"):
            found.silent.extend(
                f"{name}:{function.lineno} {function.name}"
                for function in functions(tree)
                if function.name.startswith("test_") and not asserts(function)
            )
        if ".sleep(" in text:
            found.waits.update(f"{name}: {ast.unparse(call)}" for call in fixed_waits(tree))
        if any(clock in text for clock in (*CLOCKS, *STOPWATCHES)) and not str(name).startswith(MEASURES):
            found.measuring.extend(
                f"{name}:{node.lineno}"
                for node in ast.walk(tree)
                if isinstance(node, ast.expr) and measures_time(node)
            )
        if not str(name).startswith(MEASURES):
            found.hurried.update(
                f"{name}: {ast.unparse(node).splitlines()[0]}"
                for node in ast.walk(tree)
                if (seconds := patience(node)) is not None and seconds < PATIENCE_SECONDS
            )
    return found


def test_every_test_asserts_something_itself(found):
    assert found.silent == []


def test_no_test_waits_for_a_fixed_time(found):
    assert found.waits == MAY_SLEEP.keys()


def test_what_ends_by_itself_has_half_a_minute(found):
    """Beside other work everything takes many times as long as alone; a shorter wait needs a reason."""
    assert found.hurried == MAY_HURRY.keys()


def test_no_test_measures_how_fast_the_machine_is(found):
    """It counts steps (tests/work.py), or is a bench; a bound for what hangs is a deadline."""
    assert found.measuring == []


# ── where a test lies ────────────────────────────────────────────────────────────────────────────

#: Unit tests of several modules at once, and what they are about; all others are named after their module.
ACROSS = {
    "apiserver/patches/test_hostile.py": "every kind of patch",
    "apiserver/test_health.py": "a server that cannot write, or is asked for nonsense",
    "apiserver/test_requests.py": "one request through proofs, rights and admission",
    "cel/library/test_kubernetes.py": "Kubernetes' own libraries together",
    "cel/test_fuzz.py": "the language as a whole",
    "cel/test_hostile.py": "the language as a whole",
    "cel/test_vectors.py": "the language as a whole",
    "cli/test_cel_hints.py": "the hints of weir cel",
    "controllers/devices/test_taint_eviction_reconcile.py": "the controller without a cluster, key by key",
    "controllers/devices/test_taint_eviction_state.py": "the controller with its queue and its claims",
    "devices/test_vectors.py": "the package as a whole",
    "explain/test_fix_search.py": "how the smallest change is searched for, without a scheduler",
    "explain/test_judging.py": "the judges of every reason",
    "lint/test_options.py": "the options of weir lint, on files and formats together",
    "scheduler/plugins/test_dynamic_resources_answers.py": "what DynamicResources tells people, and its scores",
    "taints/test_slow_expressions.py": "what components do with expressions that take long",
    "test_bench_growth.py": "a folder of the repository",
    "test_bench_table.py": "a folder of the repository",
    "test_changelog.py": "a folder of the repository",
    "test_generated_tables.py": "tables of several packages",
    "validate/test_golden.py": "the package as a whole",
    "validate/test_hostile_input.py": "the package as a whole",
    "validate/test_long_lists.py": "the package as a whole",
    "validate/test_two_passes.py": "the package as a whole",
    "validate/test_vectors.py": "the package as a whole",
    "values/test_go_numbers.py": "duration and floats, as Go writes them",
    "whatif/test_copy.py": "the run of a copy, with those that only take room in it",
}
SOURCE = TESTS.parent / "src" / "weir"


def has_module(test: Path) -> bool:
    """Whether src/weir has the module, private module or package that a unit test is named after."""
    name = test.stem.removeprefix("test_")
    folder = SOURCE / test.relative_to(TESTS / "unit").parent
    return any((folder / found).exists() for found in (f"{name}.py", f"_{name}.py", name))


def test_a_unit_test_lies_where_its_module_does():
    unit = TESTS / "unit"
    elsewhere = {
        path.relative_to(unit).as_posix() for path in unit.rglob("test_*.py") if not has_module(path)
    }
    assert elsewhere == ACROSS.keys()
