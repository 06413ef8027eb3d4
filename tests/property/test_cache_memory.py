"""Memory of each cache of `weir.caches`, measured on a process of its own that is fed hostile variety.

Not what a cache counts but what the process grows by: keys that are short and many, long, and long and nested. The
processes are forks of one that has imported weir (`serve`).
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import weir
from weir.caches import every

ROOT = Path(__file__).parents[2]
#: What a cache may make a process grow by, whatever it is fed.
MOST_MIB = 48

#: For each cache that has a bound: how it is called with the text *t*, which differs for every number *i*.
FEEDERS = {
    "weir.apiserver.auth.authn.parse_bearer": "parse_bearer('Bearer ' + t)",
    "weir.apiserver.compat.flowcontrol.dispatcher.FlowControl._flows": "flows(t)",
    "weir.apiserver.patches.apply._identifier": "_identifier(Owner(t, 'Update', t, ''))",
    "weir.apiserver.patches.configuration.element_text": "element_text('f:' + t)",
    "weir.apiserver.patches.fieldset._rank": "_rank('f:' + t)",
    "weir.apiserver.registry.codec._prefix_of": "_prefix_of('/registry/pods/' + t + '/')",
    "weir.apiserver.transport.bodies._manager": "_manager(t.encode())",
    "weir.apiserver.transport.bodies._media_type": "_media_type(t.encode())",
    "weir.apiserver.transport.protobuf._message_name": "_message_name(t, t)",
    "weir.apiserver.transport.protobuf._type_meta": "_type_meta(t[-100:], t)",
    "weir.apiserver.transport.negotiation.negotiate": "negotiate('application/json;x=' + t)",
    "weir.apiserver.transport.paths.parse": "parse('GET', '/api/v1/namespaces/' + t)",
    "weir.apiserver.compat.webhooks.dispatch._compiled": "_compiled('object.x == ' + repr(t))",
    "weir.cel.codegen.compile._compiled": "_codes('def f():\\n return ' + repr(t))",
    "weir.cel.library.regex.compile_regex": "searched(t)",
    "weir.cel.library.semver._parse": "_remembered(t, False); _remembered('1.0.0-' + t, True)",
    "weir.controllers.runtime.controller_refs._read_selector": "_read_selector(dumps({t: 'a'}).encode())",
    "weir.devices.eviction.moment": "moment(t)",
    "weir.devices.expression.check_expression": "check_expression('device.driver == ' + repr(t))",
    # each entry is wrong, and what is said of it repeats the value
    "weir.lowering.annotated._read": "_read('[&a {key: k, operator: Gt, value: ' + t[-2000:] + '}' + ',*a' * 60 + ']')",
    "weir.lowering.annotated_affinity._read": (
        "_read('{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: ["
        "&a {key: k, operator: Gt, values: [' + t[-2000:] + ']}' + ',*a' * 60 + ']}]}}')"
    ),
    "weir.lowering.key_rules.read_rule": (
        "read_rule(_text({'keys': ['k'], 'tolerations': [{'key': 'k', 'operator': 'Equal', 'value': t}]}))"
    ),
    "weir.lowering.taint_keys._named": "_named('taint.key == ' + repr(t[-900:]))",
    "weir.lowering.tolerations._judge": "extended_verdict([{'key': t, 'operator': 'Gt'}], Triple(t, d, t))",
    "weir.lowering.tolerations._read_originals": "_read_originals(dumps({t: {'key': t}}), 'x')",
    "weir.objects.fast_decoder._quantity": "_quantity(d)",
    "weir.objects.requests._amounts": "_amounts(tuple((c, '1') for c in pieces(t)))",
    "weir.objects.requests._nanos": "_nanos(d)",
    "weir.objects.times.parse_time": "parse_time('2026-01-01T00:00:00.' + d[2:] + 'Z')",
    "weir.selectors.node._readable": "_readable('In', t, (t, d))",
    "weir.taints.operators._parse_integer": "_parse_integer(t); _parse_integer(d)",
    "weir.validate.admissionregistration.webhook_configuration._compiled": "_compiled('object.x == ' + repr(t), False)",
    "weir.lowering.tolerations._expression_problems": "_expression_problems(t)",
    "weir.fields.meta._fine_label": "_fine_label((t, t))",
    "weir.validate.registry.find_rule": "find_rule(t, t)",
    "weir.fields.documents.find_kind_problem": "find_kind_problem(t, t)",
    "weir.values.names._check_label_key": "check_label_key(t)",
    "weir.values.quantity.parse_quantity": "parse_quantity(d)",
    "weir.values.semver._tolerant": "_tolerant('1.0.0-' + t)",
}
#: What a feeder needs beside its module.
PREPARED = {
    # the largest automaton that RE2 builds, and the longest pattern that Python's engine is given
    "weir.cel.library.regex.compile_regex": """
from random import Random
from weir.cel.work import begin
read = "".join(Random(1).choices("ab", k=2000))
def searched(t):
    begin(10**9)
    compile_regex("^" + t[-500:])
    compile_regex("(a|b)*a(a|b){12}c" + t[-2000:]).test(read)
""",
    "weir.apiserver.compat.flowcontrol.dispatcher.FlowControl._flows": """
from weir.apiserver.auth.authn import User
from weir.apiserver.transport.paths import parse
from tests.unit.apiserver.compat.flowcontrol.test_dispatcher import Server
control = Server().flow
control._look()
def flows(t):
    user = User(t, groups=tuple(pieces(t)))
    control._flow(user, parse('GET', '/' + t), (t, user.name, user.groups, 'get', t))
""",
}
#: Bounded caches whose keys are the program's own.
OWN_KEYS: dict[str, str] = {
    "weir.compat.policies.matching._rows_of": "kinds",
    "weir.fields.field.context_for": "gates, subresources and flags",
    "weir.validate.ratchet.options_for": "gates",
    "weir.values.cron._knows_time_zones": "takes nothing",
    "weir.values.timestamp._zone": "names of time zones that the machine has; others raise",
}


# ── the process that forks ───────────────────────────────────────────────────────────────────────


def pieces(text: str) -> list[str]:
    """Return many short texts, at most a hundred, each of its own."""
    return [text[at : at + 5] + str(at) for at in range(0, min(len(text), 500), 5)] + [text[-9:]]


def serve() -> None:
    """Print the bounds of all caches; then, for each name of one that is read, what feeding it in a fork comes to."""
    names = [
        each.name for each in pkgutil.walk_packages(weir.__path__, "weir.") if "__main__" not in each.name
    ]
    caches = every([importlib.import_module(name) for name in names])
    bounds = {each.name: each.most for each in caches if each.most is not None}
    print(json.dumps(bounds), flush=True)
    gc.freeze()  # a fork's collector need not look through, and so copy, what was imported
    for line in sys.stdin:
        child = os.fork()
        if not child:
            try:
                said: Any = growth(line.strip(), bounds[line.strip()])
            except BaseException:
                said = traceback.format_exc()
            print(json.dumps(said), flush=True)
            os._exit(0)
        if status := os.waitpid(child, 0)[1]:
            print(json.dumps(f"ended by {status}"), flush=True)


def growth(name: str, most: int) -> float:
    """Return by how many MiB this process grows when the cache called *name* is fed."""
    path = name.rpartition(".")[0]
    try:
        module = importlib.import_module(path)
    except ImportError:  # of a class
        module = importlib.import_module(path.rpartition(".")[0])
    names = {**vars(module), "pieces": pieces, "dumps": json.dumps}
    exec(PREPARED.get(name, ""), names)
    call = compile(FEEDERS[name], name, "exec")

    def feed(count: int, text: str) -> None:
        for number in range(count):
            names.update(t=text % number, d=f"1.{number}" + "0" * (len(text) - 2), i=number)
            with suppress(Exception):
                exec(call, names)

    feed(3, "warm%d")
    assert any(each.size() for each in every([module]) if each.name == name), "the feeder reaches the cache"
    ctypes.CDLL(None).malloc_trim(0)  # else what importing has freed would be used first
    before = memory()
    feed(2 * most, "short%d")
    feed(min(2 * most, 4000), "x" * 8192 + "%d")
    feed(most, chr(128640) + "x" * 120 + "%d")
    feed(most, "z" * 490 + "%d")
    feed(240, "y" * 262_144 + "%d")
    feed(400, "[" * 65_536 + "%d" + "]" * 65_536)
    return memory() - before


def memory() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


# ── tests ────────────────────────────────────────────────────────────────────────────────────────


class Feeder:
    """The process that forks."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.property.test_cache_memory"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.bounds: dict[str, int] = self._answer()

    def growth(self, name: str) -> Any:
        assert self.process.stdin is not None
        print(name, file=self.process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


@pytest.fixture(scope="module")
def feeder() -> Iterator[Feeder]:
    started = Feeder()
    with started.process:
        yield started


def test_every_bounded_cache_has_a_feeder(feeder: Feeder) -> None:
    assert feeder.bounds.keys() == FEEDERS.keys() | OWN_KEYS.keys()


@pytest.mark.parametrize("name", FEEDERS)
def test_a_cache_takes_no_more_memory_than_it_may(name: str, feeder: Feeder) -> None:
    grown = feeder.growth(name)
    assert isinstance(grown, float), grown
    assert grown <= MOST_MIB


if __name__ == "__main__":
    serve()
