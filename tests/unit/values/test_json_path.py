"""JSONPath of printer columns: what it finds, and that it is bounded whatever path and document are."""

from __future__ import annotations

import pytest

from weir.values.json_path import JsonPath, JsonPathError, TooManyVisits, Visits

DOCUMENT = {
    "a": [{"b": 1, "c": ["x", "y"]}, {"b": 2}, {"b": None, "d": True}],
    "e": {"b": "deep", "f.g": {"h": 0}},
}


def found(path, document=DOCUMENT):
    return list(JsonPath(path).find(document, Visits(10_000)))


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".a[0].b", [1]),
        (".a[-1].d", [True]),
        (".a[3]", []),
        (".a[*].b", [1, 2, None]),
        (".a[0:2].b", [1, 2]),
        (".a[1:].b", [2, None]),
        (".a[::2].b", [1, None]),
        (".a[0,2].b", [1, None]),
        (".e['f.g'].h", [0]),
        (".e['b','f.g']", ["deep", {"h": 0}]),
        (".e.f\\.g.h", [0]),
        ("..b", [1, 2, None, "deep"]),
        (".e.*", ["deep", {"h": 0}]),
        (".a[?(@.d)].b", [None]),
        (".a[?( @.b == 2 )].b", [2]),
        (".a[?(@.b>=1)].b", [1, 2]),
        (".a[?(@.b!=1)].b", [2, None]),
        ('.e[?(@.b=="deep")].b', ["deep"]),
        (".a[?(@.c[?(@)])].b", [1]),
        (".a[0:" + "9" * 4000 + "].b", [1, 2, None]),
        (".a[?(@.c==@.c)].b", []),
        (".missing.b", []),
    ],
)
def test_paths_find_their_values_in_order(path, values):
    assert found(path) == values


@pytest.mark.parametrize(
    "path",
    [".a[", ".a[x]", ".a[?(]", ".a[?(@.b==)]", ".a[?()]", ".a[::0]", ".a[::-1]", ".a[" + "9" * 4100 + "]",
     "." + "a" * 5000, ".a" + "[?(@" * 9 + ".b" + ")]" * 9],
)  # fmt: skip
def test_a_path_that_cannot_be_read_says_so(path):
    with pytest.raises(JsonPathError):
        JsonPath(path)


def test_values_are_found_one_at_a_time():
    visits = Visits(5)
    assert next(JsonPath(".a[*].b").find({"a": [{"b": n} for n in range(1000)]}, visits)) == 0


@pytest.mark.parametrize("path", ["..z", ".a[*].z", ".a[?(@.z)]", ".a[?(@.b==@.c)]", ".a[:].z", "..*..*"])
def test_every_value_that_is_looked_at_is_counted(path):
    document = {"a": [{"b": n} for n in range(1000)]}
    with pytest.raises(TooManyVisits):
        list(JsonPath(path).find(document, Visits(999)))


def test_a_document_may_be_deeper_than_pythons_stack():
    document = 1
    for _ in range(5000):
        document = {"a": [document]}
    assert list(JsonPath("..a[?(@==1)]").find(document, Visits(100_000))) == [1]
