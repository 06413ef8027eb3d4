"""A dump that is read piece by piece holds what it holds when it is read whole."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from weir.inputs import cluster as inputs
from weir.inputs.dump_items import NotCut, cut

KEYS = st.text('a{}[],:"\\ \n\t\u00e9', max_size=6)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | KEYS
    | st.sampled_from(["\n        },\n        {\n"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.builds(
    lambda kind, name, more: {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "more": more},
    st.sampled_from(["Pod", "Node", "Service"]),
    KEYS,
    VALUES,
)
LISTS = st.lists(OBJECTS, min_size=1, max_size=5)


def written(items, indent, kind="List", *, kind_first=False):
    head = {"kind": kind} if kind_first else {}
    whole = {"apiVersion": "v1", **head, "items": items, "kind": kind, "metadata": {"resourceVersion": ""}}
    return json.dumps(whole, indent=indent, ensure_ascii=False).encode()


def pieces(content, chunk_bytes=1 << 20):
    return list(cut(io.BytesIO(content), len(content), lambda done, total: None, chunk_bytes))


@settings(max_examples=tries(60, 150))
@given(LISTS, st.sampled_from([1, 2, 4, "\t"]), st.sampled_from([1, 5, 64, 1 << 20]))
def test_the_pieces_are_the_objects_of_the_list(items, indent, chunk_bytes):
    _, *found = pieces(written(items, indent), chunk_bytes)
    assert [json.loads(piece) for piece in found] == items


@settings(max_examples=60)
@given(LISTS, st.sampled_from([None, 2, 4]), st.sampled_from(["List", "PodList"]), st.booleans())
def test_read_piece_by_piece_or_whole_a_dump_holds_the_same(
    tmp_path_factory, items, indent, kind, kind_first
):
    if kind == "PodList":
        items = [
            {key: value for key, value in each.items() if key not in ("kind", "apiVersion")} for each in items
        ]
    path = tmp_path_factory.mktemp("dump") / "dump.json"
    path.write_bytes(written(items, indent, kind, kind_first=kind_first))
    held, plain = inputs._streamed([str(path)], False), inputs._whole(str(path), path.read_bytes(), False)
    assert (held.documents, [json.loads(bytes(each)) for each in held.pods]) == (
        plain.documents,
        [json.loads(bytes(each)) for each in plain.pods],
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"kind: List\nitems: []\n",
        written([], 4),
        written([{"kind": "Node"}], None),
        written([{"kind": "Node"}], 4)[:-30],
        written([{"kind": "Node"}], 4).replace(b'"Node"', b"Node"),
        written([{"kind": "Node"}], 4).replace(b"\n", b"\r\n"),
        written([{"kind": "Node"}], 4) + b"more",
    ],
)
def test_what_is_not_written_as_kubectl_writes_is_not_cut(content):
    with pytest.raises(NotCut):
        pieces(content)


def test_the_reading_tells_how_far_it_is():
    content, seen = written([{"kind": "Node", "n": number} for number in range(2000)], 4), []
    list(cut(io.BytesIO(content), len(content), lambda done, total: seen.append((done, total)), 8192))
    assert seen[-1] == (len(content), len(content)) and [done for done, _ in seen] == sorted(
        done for done, _ in seen
    )
