"""What was found sound is not looked at again, and yet every document gets the errors it gets from a fresh process.

Claims, templates and statuses of claims, sound and spoilt, come in any order, several times each and under changing
feature gates. They are validated one after the other by rules that remember, and each of them by rules that have
forgotten everything and remember nothing.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from weir.gates import ALL_FEATURES, KUBERNETES_DEFAULTS, Gates
from weir.validate import valid_cache, validate

Document = dict[str, Any]
DRIVER = "gpu.example.com"
PACKAGE = import_module("weir.validate")  # `weir.validate` is the function of that name
GATES = (
    KUBERNETES_DEFAULTS,
    ALL_FEATURES,
    Gates.parse("AllAlpha=false,TaintTolerationComparisonOperators=true"),
    Gates.parse("AllAlpha=false,TaintTolerationCEL=true"),
    Gates.parse("DRAConsumableCapacity=false"),
)


def memories() -> list[dict[Any, None]]:
    """Return what every rule that remembers has found sound."""
    found = {}
    for module in pkgutil.iter_modules(PACKAGE.__path__, "weir.validate."):
        for rule in vars(import_module(module.name)).values():
            code = rule.__code__ if inspect.isfunction(rule) and hasattr(rule, "__wrapped__") else None
            if code is not None and code.co_filename == valid_cache.__file__:
                memory = inspect.getclosurevars(rule).nonlocals["sound"]
                found[id(memory)] = memory
    return list(found.values())


MEMORIES = memories()


def forget() -> None:
    for memory in MEMORIES:
        memory.clear()


@contextmanager
def forgetful() -> Iterator[None]:
    """Let nothing be remembered, not even from one part of a document to the next."""
    kept = [dict(memory) for memory in MEMORIES]
    forget()
    with patch.object(valid_cache, "LONGEST_BYTES", -1):
        yield
    assert not any(MEMORIES), "something was remembered all the same"
    for memory, before in zip(MEMORIES, kept, strict=True):
        memory.update(before)


# --------------------------------------------------------------------------------------------- strange documents


def mostly(good: list[Any], bad: list[Any]) -> st.SearchStrategy[Any]:
    """Return good values, and now and then a bad one: most documents have to be sound for the memory to be asked."""
    return st.one_of(*[st.sampled_from(good)] * 6, st.sampled_from(bad))


tolerations = st.lists(
    st.fixed_dictionaries(
        {"key": mostly(["sick", "example.com/temperature"], ["", "no good", "-"])},
        optional={
            "operator": mostly(["Exists", "Equal"], ["Lt", "Gt", "SemverLt", "In", ""]),
            "value": mostly(["", "5", "true"], ["no good!", "x" * 70, "1.x"]),
            "effect": mostly(["NoExecute", "NoSchedule"], ["None", "Sometimes"]),
            "tolerationSeconds": st.sampled_from([0, 1, 60]),
            "expression": st.sampled_from(["", "taint.key == 'sick'", "taint.", "1"]),
        },
    ),
    max_size=3,
)
selectors = st.lists(
    mostly(
        [f"device.driver == '{DRIVER}'", "true"],
        ["device.", "1 + 1", "", "device.nothing", "x" * 11_000],
    ).map(lambda text: {"cel": {"expression": text}}),
    max_size=3,
)
asked = {
    "tolerations": tolerations,
    "selectors": selectors,
    "count": mostly([1, 2], [0, -1]),
    "allocationMode": mostly(["ExactCount"], ["All", "Some"]),
    "capacity": st.sampled_from([{"requests": {"memory": "1Gi"}}, {"requests": {"No Good": "1"}}]),
}
exactly = st.fixed_dictionaries(
    {"deviceClassName": mostly(["gpu", "nic"], ["", "No_Good"])},
    optional={**asked, "adminAccess": st.booleans()},
)
alternatives = st.lists(
    st.fixed_dictionaries(
        {"name": mostly(["x", "y"], ["", "X!"]), "deviceClassName": mostly(["gpu"], [""])}, optional=asked
    ),
    max_size=2,
)
names = mostly(["a", "b", "c"], ["", "A!", "x" * 64])
request = st.one_of(
    st.fixed_dictionaries({"name": names, "exactly": exactly}),
    st.fixed_dictionaries({"name": names, "firstAvailable": alternatives}),
    st.fixed_dictionaries({"name": names}, optional={"exactly": exactly, "firstAvailable": alternatives}),
)
devices = st.fixed_dictionaries(
    {"requests": st.lists(request, max_size=3)},
    optional={
        "constraints": st.lists(
            st.fixed_dictionaries(
                {"matchAttribute": mostly([f"{DRIVER}/numa"], ["numa", ""])},
                optional={"requests": st.lists(names, max_size=2)},
            ),
            max_size=2,
        ),
    },
)
node_selector = st.fixed_dictionaries(
    {
        "nodeSelectorTerms": st.lists(
            st.fixed_dictionaries(
                {
                    "matchExpressions": st.lists(
                        st.fixed_dictionaries(
                            {
                                "key": mostly(["zone", "disk"], ["no good"]),
                                "operator": mostly(["In", "NotIn"], ["Exists", "Gt", "SemverGt", "Like"]),
                                "values": st.lists(mostly(["a", "1"], ["no good!"]), max_size=2),
                            }
                        ),
                        max_size=2,
                    )
                }
            ),
            max_size=2,
        )
    }
)


def claim(spec: Document, status: Document | None = None) -> Document:
    metadata = {"name": "c", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    told = {"status": status} if status is not None else {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": spec,
        **told,
    }


def template(spec: Document) -> Document:
    metadata = {"name": "c", "namespace": "default"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": {"spec": spec},
    }


@st.composite
def allocated(draw: st.DrawFn) -> tuple[Document, Document, str]:
    """Return the write of a status, and the claim it is of."""
    spec = {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "gpu"}}]}}
    result = {"request": "a", "driver": DRIVER, "pool": "n", "device": "d", "tolerations": draw(tolerations)}
    allocation = {"devices": {"results": [result]}, "nodeSelector": draw(node_selector)}
    return claim(spec, {"allocation": allocation}), claim(spec), "status"


specs = devices.map(lambda found: {"devices": found})
writes = st.one_of(
    specs.map(lambda spec: (claim(spec), None, "")),
    specs.map(lambda spec: (template(spec), None, "")),
    st.tuples(specs, specs).map(lambda pair: (claim(pair[0]), claim(pair[1]), "")),
    allocated(),
)
histories = st.lists(writes, min_size=1, max_size=4).flatmap(
    lambda pool: st.lists(st.tuples(st.sampled_from(pool), st.sampled_from(GATES)), min_size=2, max_size=12)
)


def told(write: tuple[Document, Document | None, str], gates: Gates) -> list[str]:
    document, old, subresource = write
    return [str(error) for error in validate(document, old, gates, subresource)]


def test_there_are_rules_that_remember() -> None:
    assert len(MEMORIES) >= 5


@settings(max_examples=250, deadline=None)
@given(histories)
def test_rules_that_remember_say_what_a_fresh_process_says(
    history: list[tuple[tuple[Document, Document | None, str], Gates]],
) -> None:
    forget()
    remembered = [told(write, gates) for write, gates in history]
    with forgetful():
        fresh = [told(write, gates) for write, gates in history]
    assert remembered == fresh


def test_a_sound_claim_is_remembered_by_every_rule_that_looked_at_it() -> None:
    """The property above would hold of rules that remember nothing, too."""
    forget()
    sick = [{"key": "sick", "operator": "Exists"}]
    request = {"name": "a", "exactly": {"deviceClassName": "gpu", "tolerations": sick}}
    told((claim({"devices": {"requests": [request]}}), None, ""), KUBERNETES_DEFAULTS)
    assert sum(map(len, MEMORIES)) == 4  # the claim and its tolerations, in both passes
