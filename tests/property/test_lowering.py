"""Lowered tolerations and labels say to a stock cluster exactly what the originals say to weir."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.reference.scheduler import preference
from weir.gates import ALL_FEATURES
from weir.lowering.affinity import mark_affinity, relabelled, requirement_labels
from weir.lowering.names import label_key
from weir.lowering.tolerations import complete, is_extended, mark, read_entry, stock_gates, unite
from weir.lowering.triples import Triple
from weir.objects.core import Affinity, Pod, PodSpec, read
from weir.selectors.node import pod_selects_node
from weir.taints.eviction import stay
from weir.taints.toleration import BLOCKING, SCORING, untolerated

KEYS = ("sla", "kernel")
VALUES = (
    "0",
    "49",
    "50",
    "900",
    "950",
    "0950",
    "high",
    "",
    "1.2.3",
    "v1.3.0",
    "9223372036854775807",
    "9223372036854775808",
)
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
EXPRESSIONS = (
    "taint.key == 'sla'",
    "taint.value in ['50', '950']",
    "taint.effect == 'NoExecute' && int(taint.value) > 100",
    "semver(taint.value).major() >= 1",
)


@st.composite
def entries(draw):
    operator = draw(
        st.sampled_from(("Gt", "Lt", "SemverGt", "SemverLt", "SemverEq", "CEL", "Equal", "Exists", ""))
    )
    if operator == "CEL":
        entry = {"operator": "CEL", "value": draw(st.sampled_from(EXPRESSIONS))}
        effect = "NoExecute"
    else:
        effect = draw(st.sampled_from(("", *EFFECTS)))
        entry = {"key": draw(st.sampled_from(KEYS)), "operator": operator}
        if operator in ("Gt", "Lt"):
            entry["value"] = draw(st.sampled_from(("49", "900")))
        elif operator.startswith("Semver"):
            entry["value"] = draw(st.sampled_from(("1.2.3", "1.0.0")))
        elif operator != "Exists":
            entry["value"] = draw(st.sampled_from(VALUES))
        if effect:
            entry["effect"] = effect
    if effect == "NoExecute" and draw(st.booleans()):
        entry["tolerationSeconds"] = draw(st.integers(1, 3))
    return entry


LISTS = st.lists(entries(), max_size=5)
TRIPLES = st.lists(
    st.builds(Triple, st.sampled_from(KEYS), st.sampled_from(VALUES), st.sampled_from(EFFECTS)),
    max_size=6,
    unique=True,
)


def same(original, lowered, triples, native):
    mine = [read_entry(entry) for entry in original]
    theirs = [read_entry(entry) for entry in lowered]
    gates = stock_gates(native)
    for triple in triples:
        taints = [triple.taint]
        for effects in (BLOCKING, SCORING):
            assert untolerated(taints, theirs, gates, effects) == untolerated(
                taints, mine, ALL_FEATURES, effects
            )
        assert stay(taints, theirs, gates).limit == stay(taints, mine, ALL_FEATURES).limit


@given(LISTS, TRIPLES, TRIPLES, st.booleans())
def test_verdicts_and_times_are_the_same_for_every_known_triple(original, first, later, native):
    marked = mark(original, native_numeric=native)
    assert not any(is_extended(entry, native) for entry in marked.tolerations)
    one = complete(marked.tolerations, marked.originals, first, native)
    same(original, one.tolerations, first, native)
    two = complete(one.tolerations, marked.originals, [*first, *later], native)
    same(original, two.tolerations, [*first, *later], native)
    assert all(entry in two.tolerations for entry in one.tolerations), "only added to"
    again = unite(mark(original, native_numeric=native).tolerations, two.tolerations, marked.originals)
    assert complete(again, marked.originals, [*first, *later], native).added == ()
    same(original, again, [*first, *later], native)


@given(LISTS, TRIPLES)
def test_nothing_is_tolerated_that_is_not_known_unless_a_plain_entry_does(original, triples):
    marked = mark(original)
    plain = [read_entry(entry) for entry in original if not is_extended(entry)]
    theirs = [read_entry(entry) for entry in marked.tolerations]
    for triple in triples:
        assert untolerated([triple.taint], theirs, stock_gates(False)) == untolerated(
            [triple.taint], plain, ALL_FEATURES
        )


REQUIREMENTS = st.one_of(
    st.builds(
        lambda operator, version: {"key": "v", "operator": operator, "values": [version]},
        st.sampled_from(("SemverGt", "SemverLt", "SemverEq")),
        st.sampled_from(("1.2.3", "1.3.0", "2.0.0-rc.1")),
    ),
    st.just({"key": "zone", "operator": "In", "values": ["a"]}),
)
TERMS = st.lists(
    st.builds(lambda found: {"matchExpressions": found}, st.lists(REQUIREMENTS, max_size=3)), max_size=3
)


@given(
    TERMS, TERMS, st.lists(st.sampled_from(("1.2.3", "v1.3.0", "2.0.0", "nothing")), min_size=1, max_size=3)
)
def test_labelled_nodes_are_selected_as_the_requirements_would(required, preferred, versions):
    affinity = {"nodeAffinity": {}}
    if required:
        affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": required
        }
    affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = [
        {"weight": 1 + i, "preference": term} for i, term in enumerate(preferred)
    ]
    lowered, originals = mark_affinity(affinity)
    known = {label_key(hash_) for hash_ in originals}
    mine, theirs = (Pod(spec=PodSpec(affinity=read(Affinity, each))) for each in (affinity, lowered))
    labels = {}
    for version in versions:  # one node, relabelled at each change
        labels = {**labels, "v": version, "zone": "a" if version != "2.0.0" else "b"}
        labels = relabelled(labels, set(requirement_labels(originals, labels)), known)
        stock = stock_gates(False)
        assert pod_selects_node(theirs, labels, "n", stock) == pod_selects_node(
            mine, labels, "n", ALL_FEATURES
        )
        assert preference(theirs, labels, "n", stock) == preference(mine, labels, "n", ALL_FEATURES)
