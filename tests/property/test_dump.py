"""The fast reader of dumps reads what the full reader reads, exactly, or leaves it to the full reader."""

from __future__ import annotations

import random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from weir.objects.block_yaml import Unusual, read_dump
from weir.objects.manifest import ManifestError, read_manifest, read_values
from weir.objects.yaml_scalars import plain_scalar


def fully(text: str) -> list[Any]:
    return [document.value for document in read_manifest(text)]


def fast(text: str) -> list[Any] | None:
    """The fast reader without help: None where anything is left to the full reader."""

    def refuse(item: str) -> Any:
        raise Unusual

    return read_dump(text, plain_scalar, refuse)


class Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


words = st.text("abcXYZ019 -_.:/'\"#{}[],&*!|>%@`~?=\\é\n", max_size=12) | st.sampled_from(
    [
        "yes",
        "null",
        "~",
        "1e3",
        "0x1f",
        "0o7",
        "1_000",
        "007",
        "-5",
        "1.5",
        ".inf",
        "2024-01-15",
        "a: b",
        "a #b",
        "x" * 90,
    ]
)
long_words = st.lists(
    st.sampled_from(["kubelet", "has", "disk:", "it's", "a", "#1", "5"]), min_size=15, max_size=30
)
scalars = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | words | long_words.map(" ".join)
keys = st.text("abkyn019./-_:", min_size=1, max_size=8) | st.sampled_from(
    ["f:spec", "a.b/c", "yes", "k v", "1"]
)
values = st.recursive(
    scalars, lambda v: st.lists(v, max_size=4) | st.dictionaries(keys, v, max_size=4), max_leaves=20
)
documents = st.dictionaries(keys, values, min_size=1, max_size=4) | st.lists(values, min_size=1, max_size=4)


@given(document=documents, width=st.sampled_from([40, 80, 1000]), indent=st.sampled_from([2, 4]))
@settings(max_examples=tries(60, 150))
def test_what_is_written_is_read_alike(document, width, indent):
    text = yaml.dump(document, Dumper=Dumper, width=width, indent=indent, allow_unicode=True)
    assert read_values(text) == fully(text)


@given(document=documents, seed=st.integers(0, 2**32))
@settings(max_examples=tries(40, 100))
def test_damaged_text_is_read_alike_or_left_alone(document, seed):
    whole = yaml.dump(document, Dumper=Dumper, allow_unicode=True)
    chance = random.Random(seed)
    for _ in range(20):
        text = whole
        for _ in range(chance.randint(1, 3)):
            at, cut = chance.randint(0, len(text)), chance.randint(0, 3)
            put = "".join(chance.choices(" \n-:#'\"|>{}[]ab&*!?,%.1", k=chance.randint(0, 3)))
            text = text[:at] + put + text[at + cut :]
        found = fast(text)
        assert found is None or found == fully(text), text


@given(st.text(" \n-:#'\"|ab1{}[]", max_size=40))
@settings(max_examples=tries(200, 500))
def test_any_text_is_read_alike_or_left_alone(text):
    found = fast(text)
    if found is not None:
        assert found == fully(text)


KUBECTL = """\
apiVersion: v1
items:
- apiVersion: v1
  kind: Node
  metadata:
    annotations:
      example.com/last-applied: |
        {"kind":"Node","metadata":{"name":"n1"}}
      note: 'it''s: quoted'
    creationTimestamp: "2026-01-01T00:00:00Z"
    labels:
      kubernetes.io/hostname: n1
      zone: ""
    name: n1
  spec:
    podCIDRs:
    - 10.0.0.0/24
    taints:
    - effect: NoSchedule
      key: sla
      value: "950"
  status:
    addresses: []
    conditions:
    - message: kubelet has sufficient memory available and this goes on until the
        line is folded
      status: "False"
    nodeInfo: {}
kind: List
metadata:
  resourceVersion: ""
"""


def test_what_kubectl_writes_needs_no_help():
    assert fast(KUBECTL) == fully(KUBECTL) != None  # noqa: E711


def test_one_unusual_item_does_not_slow_the_others():
    seen: list[str] = []

    def note(item: str) -> Any:
        seen.append(item)
        return fully(item)[0]

    text = "items:\n- a: 1\n- {b: 2}\n- c: >-\n    folded\n    text\n- d: 4\n"
    assert read_dump(text, plain_scalar, note) == fully(text)
    assert len(seen) == 2


def test_an_alias_across_items_makes_the_whole_text_go_the_full_way():
    text = "items:\n- a: &x 1\n- b: *x\n"
    assert read_values(text) == fully(text) == [{"items": [{"a": 1}, {"b": 1}]}]


def test_several_documents_are_read_as_the_full_reader_reads_them():
    text = "---\na: 1\n---\n# nothing\n---\n- b\n"
    assert fast(text) == fully(text) == [{"a": 1}, ["b"]]


@pytest.mark.parametrize(
    "text", ["a: b: c", "a:\n\tb: 1", "a: 'x", "- a\nb: 1", "a: 1\n  b: 2", "a: *x", "a: [1"]
)
def test_what_is_wrong_is_said_by_the_full_reader(text):
    with pytest.raises(ManifestError):
        read_values(text, "dump.yaml")
