"""Claims about weir.scheduler.framework: the message of a failed attempt is exact, and bounded."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.scheduler.cycle import Engine
from weir.scheduler.framework import REASONS_BYTES, Code, Diagnosis, Status
from weir.scheduler.profile_arguments import ProfileArguments


def engine_with(taints, **arguments):
    engine = Engine(ALL_FEATURES, ProfileArguments(**arguments))
    for number, taint in enumerate(taints):
        key, _, value = taint.partition("=")
        document = {
            "metadata": {"name": f"n{number}"},
            "spec": {"taints": [{"key": key, "value": value, "effect": "NoSchedule"}]},
            "status": {"allocatable": {"pods": "9"}},
        }
        engine.table.put_node(read(Node, document))
    return engine


def message(engine, *tolerations):
    return engine.place(
        read(Pod, {"metadata": {"name": "p"}, "spec": {"tolerations": list(tolerations)}})
    ).message


GT = {"key": "sla", "operator": "Gt", "value": "900"}


@pytest.mark.proves("5471-45", "5471-61", "5471-127", "5721-25", "5721-39", "5500-116")
@pytest.mark.parametrize(
    ("toleration", "taint", "words"),
    [
        (GT, "sla=high", "{sla: high} (its value is not an integer)"),
        (GT, "sla=0950", "{sla: 0950} (its value is not an integer)"),
        (GT, "sla=800", "{sla: 800}"),
        (GT, "other=high", "{other: high}"),
        (
            {"key": "v", "operator": "SemverGt", "value": "1.0.0"},
            "v=x",
            "{v: x} (its value is not a version)",
        ),
        (
            {"expression": "int(taint.value) > 900"},
            "sla=high",
            "{sla: high} (the toleration's expression fails for it)",
        ),
        ({"expression": "taint.value == 'low'"}, "sla=high", "{sla: high}"),
    ],
)
def test_a_value_that_could_not_be_read_is_said_to_be_so(toleration, taint, words):
    said = message(engine_with([taint]), toleration)
    assert said == f"0/1 nodes are available: 1 node(s) had untolerated taint {words}."


def test_upstreams_words_stay_selectable():
    said = message(engine_with(["sla=high", "sla=800"], upstream_reasons=True), GT)
    assert said == "0/2 nodes are available: 2 node(s) had untolerated taint(s)."


@pytest.mark.proves("5471-111", "5721-121", "5500-101", "5500-118")
def test_a_message_of_ordinary_size_is_exact():
    said = message(engine_with([f"sla={n}" for n in (100, 200, 300, 300)]))
    assert said == (
        "0/4 nodes are available: 1 node(s) had untolerated taint {sla: 100}, "
        "1 node(s) had untolerated taint {sla: 200}, 2 node(s) had untolerated taint {sla: 300}."
    )


@pytest.mark.proves("5471-122")
@pytest.mark.parametrize("nodes", [20, 400, 2000])
def test_many_distinct_values_are_counted_not_listed(nodes):
    said = message(engine_with([f"sla={1000 + n}" for n in range(nodes)] + ["gpu=1"] * 7))
    assert len(said) < REASONS_BYTES + 150
    assert "7 node(s) had untolerated taint {gpu: 1}" in said  # the most frequent is never left out
    named = said.count("untolerated taint {sla: ")
    assert said.endswith(f"{nodes - named} node(s) had one of {nodes - named} other reasons.") and named > 5


reasons = st.lists(
    st.lists(st.text("ab", min_size=1, max_size=40), min_size=1, max_size=3, unique=True), max_size=20
)


@given(reasons, st.integers(0, 300))
def test_a_bound_cuts_only_what_is_beyond_it(found, most_bytes):
    statuses = {str(n): Status(Code.UNSCHEDULABLE, tuple(each), "P") for n, each in enumerate(found)}
    whole = Diagnosis(len(found), statuses, most_bytes=None)
    cut = replace(whole, most_bytes=most_bytes)
    every = whole.histogram()
    if sum(len(line) + 2 for line in every) <= most_bytes:
        assert cut.histogram() == every
        return
    shown = cut.histogram()
    tail = [line for line in shown if "other reasons" in line]
    named = [line for line in shown if line not in tail]
    assert named == sorted(named) and set(named) <= set(every) and named
    assert sum(len(line) + 2 for line in named) <= max(most_bytes, len(named[0]) + 2)
    if tail:
        assert int(tail[0].split(" one of ")[1].split()[0]) == len(every) - len(named)
    else:
        assert named == every
