"""Nothing that depends on values once seen grows for ever: every cache has a bound, and no dict only grows.

Caches are found, not listed by hand: remembering functions by `weir.caches.every`, containers by reading the source for
those that are added to and never taken from.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import weir
from weir.caches import every

SOURCE = Path(weir.__file__).parent

#: Remembering functions without a bound, and why their arguments are few: they are the program's own, not a client's.
FINITE = {
    "weir.apiserver.bootstrap.policy": "takes nothing",
    "weir.apiserver.discovery": "groups and versions that are served, and which are off",
    "weir.apiserver.openapi": "kinds, schemas and groups that are served",
    "weir.apiserver.patches": "kinds and their schemas",
    "weir.apiserver.printers.tables": "kinds",
    "weir.apiserver.transport.protobuf": "message types",
    "weir.devices.expression": "environments of the language, which gates make",
    "weir.objects": "kinds, schemas and view types",
    "weir.compat.policies.expressions": "environments of the language: parameters or none, rights or none",
    "weir.compat.policies.type_checking._object_meta": "one schema",
    "weir.store.journal": "sizes of a group, at most 64",
    "weir.taints.expression": "environments of the language, which gates make",
    "weir.validate": "kinds, field names of the schema and gates",
}

#: Containers that only grow within their class, and what bounds them.
ONE_TASK = "lives as long as one request, expression or decision"
START = "filled when the program starts"
OWNER = "entries go with what they describe, in another method than the scan can see"
GROWING = {
    "apiserver/admission/resource_quota.py:Ledger._total": "resource names of one namespace, gone with its quota",
    "apiserver/auth/authn.py:StaticTokens._proven": "tokens of the file, read anew with it",
    "apiserver/file_changes.py:FileChanges._followed": START,
    "apiserver/file_changes.py:FileChanges._seen": START,
    "apiserver/nonresource.py:HealthMetrics._last": "checks and the three places to ask for them",
    "apiserver/metrics.py:Metrics._requests": "MOST_REQUEST_KINDS",
    "apiserver/registry/codec.py:Reader._kept": "kinds; the documents of each are made anew",
    "apiserver/registry/codec.py:Reader._versions": "storage prefixes of kinds",
    "apiserver/handlers.py:Handlers._after_create": START,
    "apiserver/compat/webhooks/dispatch.py:Webhooks._known": "kinds",
    "controllers/workloads/daemon_nodes.py:EligibleNodes._by_label": "label keys that its nodes have",
    "client/rest.py:RestClient._with_body": "media types of the program",
    "client/local.py:_EventSink._events": "taken by the reader, under another name",
    "client/events.py:EventWriter._waiting": "taken by the classes that say what is written",
    "client/cache.py:Cache._indexes": START,
    "client/cache.py:Cache._listeners": START,
    "controllers/runtime/worker.py:Worker.tasks": START,
    "controllers/workloads/daemonset.py:_Round._made": ONE_TASK,
    "controllers/workloads/daemonset.py:_Round._removed": ONE_TASK,
    "controllers/workloads/job_sync.py:JobManage.removed": ONE_TASK,
    "devices/allocation_search.py:AllocationSearch._consumed": ONE_TASK,
    "devices/allocation_search.py:AllocationSearch._left": ONE_TASK,
    "devices/published.py:Published._by_driver": OWNER,
    "devices/published.py:Published._by_pool": OWNER,
    "devices/selector.py:Question._worded": "_MOST_ANSWERS",
    "observe/metrics.py:Family._children": "MOST_CHILDREN",
    "observe/metrics.py:Registry._families": START,
    "scheduler/claim_feasibility.py:ClaimFeasibility._found": "rows of the node table",
    "scheduler/node_table.py:NodeTable._listeners": START,
    "scheduler/node_table.py:NodeTable.nodes": "rows, used again when a node is gone",
    "scheduler/node_table.py:NodeTable.pods": "rows, used again when a node is gone",
    "scheduler/node_table.py:NodeTable.ports": "rows, and ports that pods there hold",
    "scheduler/plugins/inter_pod_affinity.py:BoundInterPodAffinity._held": "terms of one class of pods",
    "scheduler/judged_taints.py:_Lists.owners": "made again when taint lists are forgotten",
    "scheduler/judged_taints.py:_Lists.starts": "made again when taint lists are forgotten",
    "scheduler/plugins/volume_matcher.py:VolumeMatcher._known": "made again when nodes or volumes change",
    "scheduler/plugins/volume_reservation.py:VolumeReservation._written": "volumes of one pod",
    "simulation/drivers/run.py:Drivers._classes": "drivers of node classes",
    "simulation/kubelet/commands.py:_Script._output": "MOST_OUTPUT",
    "simulation/kubelet/pod_worker.py:PodWorker._addresses": OWNER,
    "simulation/kubelet/pod_worker.py:PodWorker._admitted": OWNER,
    "simulation/kubelet/pod_worker.py:PodWorker._hosts": OWNER,
    "simulation/kubelet/pod_worker.py:PodWorker._lives": OWNER,
    "simulation/kubelet/pod_worker.py:PodWorker._rejected": OWNER,
    "simulation/kubelet/pod_worker.py:PodWorker._views": OWNER,
    "store/etcd.py:EtcdStore._leases": "lifetimes of kinds: one",
    "store/etcd_wire.py:EtcdConnection._calls": "methods of etcd that are called, for each endpoint",
    "taints/judge.py:_Key.effects": "gone with the judge's taints",
    "taints/judge.py:_Key.integers": "gone with the judge's taints",
    "taints/judge.py:_Key.numbers": "gone with the judge's taints",
    "taints/judge.py:_Key.readable": "gone with the judge's taints",
    "taints/judge.py:_Key.values": "gone with the judge's taints",
}
#: Packages whose objects outlive a question: what runs for a week.
LONG_LIVED = (
    "apiserver", "client", "controllers", "devices", "observe", "scheduler", "simulation/kubelet",
    "simulation/drivers", "store", "taints",
)  # fmt: skip

_GROWS = {"setdefault", "append", "add", "update", "extend", "insert", "appendleft"}
_SHRINKS = {"pop", "clear", "popitem", "popleft", "discard", "remove"}
_MAKERS = {"dict", "set", "list", "defaultdict", "OrderedDict", "Counter", "deque"}


@pytest.fixture(scope="module")
def modules() -> list[ModuleType]:
    names = [
        found.name for found in pkgutil.walk_packages(weir.__path__, "weir.") if "__main__" not in found.name
    ]
    return [importlib.import_module(name) for name in names]


def test_every_remembering_function_has_a_bound_or_a_reason(modules):
    found = list(every(modules))
    assert len(found) > 60  # the search finds what there is
    unbounded = {each.name for each in found if each.most is None}
    unexplained = {name for name in unbounded if not any(name.startswith(place) for place in FINITE)}
    assert unexplained == set()
    assert [place for place in FINITE if not any(name.startswith(place) for name in unbounded)] == []


def test_no_bounded_cache_holds_more_than_it_may(modules):
    wrong = [each.name for each in every(modules) if each.most is not None and each.size() > each.most]
    assert wrong == []


def own(node: ast.expr) -> str:
    """Return the attribute of self that *node* names."""
    is_own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return node.attr if is_own else ""  # type: ignore[attr-defined]


def is_empty(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        bounded = any(keyword.arg == "maxlen" for keyword in value.keywords)
        return isinstance(value.func, ast.Name) and value.func.id in _MAKERS and not bounded
    return (isinstance(value, ast.Dict) and not value.keys) or (
        isinstance(value, ast.List) and not value.elts
    )


def growing(tree: ast.AST) -> Iterator[str]:
    """Yield the containers that a class makes empty, adds to later and never takes from or makes anew."""
    for scope in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        made, grown, shrunk = set(), set(), set()
        for method in scope.body:
            if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            first = method.name in ("__init__", "__post_init__")
            for node in ast.walk(method):
                if isinstance(node, ast.Assign | ast.AnnAssign):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    for target in [each for one in targets for each in getattr(one, "elts", [one])]:
                        if own(target):
                            (made if first and is_empty(node.value) else shrunk).add(own(target))
                        elif isinstance(target, ast.Subscript) and not first:
                            grown.add(own(target.value))
                elif isinstance(node, ast.Delete):
                    shrunk |= {own(each.value) for each in node.targets if isinstance(each, ast.Subscript)}
                elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    if node.func.attr in _GROWS and not first:
                        grown.add(own(node.func.value))
                    elif node.func.attr in _SHRINKS:
                        shrunk.add(own(node.func.value))
        yield from (f"{scope.name}.{name}" for name in sorted((made & grown) - shrunk - {""}))


def module_caches(tree: ast.Module) -> Iterator[str]:
    """Yield the empty dicts of a module that its functions add to."""
    made = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and is_empty(node.value)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    grown = {
        target.value.id
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name)
    }
    yield from sorted(made & grown)


def test_the_scan_finds_what_only_grows():
    leaking = ast.parse(
        "class A:\n def __init__(self):\n  self.seen = {}\n  self.kept = {}\n"
        " def put(self, key):\n  self.seen[key] = 1\n  self.kept[key] = 1\n"
        " def drop(self, key):\n  del self.kept[key]\n"
    )
    assert list(growing(leaking)) == ["A.seen"]
    assert list(module_caches(ast.parse("C = {}\ndef f(x):\n C[x] = 1\n"))) == ["C"]


def test_nothing_that_lives_long_only_grows():
    found = set()
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith(LONG_LIVED):
            found |= {f"{name}:{container}" for container in growing(ast.parse(path.read_text()))}
    assert found - GROWING.keys() == set(), "these only grow: bound them, or say in GROWING what does"
    assert GROWING.keys() - found == set()


def test_no_module_remembers_in_a_dict_of_its_own():
    found = {
        f"{path.relative_to(SOURCE).as_posix()}:{name}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).as_posix().startswith(LONG_LIVED)
        for name in module_caches(ast.parse(path.read_text()))
    }
    assert found == set()
