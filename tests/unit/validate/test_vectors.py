"""The validation vectors, asked of the library."""

from __future__ import annotations

import pytest

from tests.validation_vectors import Vector, load
from weir.validate import validate

pytestmark = pytest.mark.proves(
    "5471-37",
    "5471-39",
    "5471-41",
    "5471-56",
    "5471-65",
    "5471-74",
    "5471-75",
    "5471-88",
    "5721-19",
    "5721-20",
    "5721-23",
    "5721-35",
    "5721-36",
    "5721-47",
    "5721-51",
    "5721-53",
    "5721-55",
    "5721-56",
    "5721-58",
    "5721-64",
    "5721-66",
    "5721-67",
    "5721-68",
    "5721-69",
    "5721-70",
    "5721-72",
    "5721-84",
    "5721-87",
    "5721-92",
    "5721-108",
    "5500-23",
)

VECTORS = load()
#: Rows of docs/coverage, by the name of the vector that shows them.
PROVES = {
    "nodes: a semver operator takes no second value": ("5721-20", "5721-55", "5721-56", "5721-70"),
    "volumes: a semver operator takes one value in a volume too": ("5721-58",),
    "devices: an effect of nodes only": ("5055-49",),
    "tolerations: Lt with its gate off names Lt among the supported ones": ("5471-73",),
    "nodes: a number with leading zeros is a fine taint value": ("5471-44", "5721-34"),
    "nodes: the taint value of a KEP's example is none": ("5721-26",),
    "nodes: a semver operator reads its value": ("5721-71",),
    "updates: a toleration may not be removed": ("5500-86",),
}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_the_validator_answers_with_the_lines_of_the_specification(vector: Vector) -> None:
    said = list(dict.fromkeys(map(str, validate(vector.object, vector.old, vector.gates))))
    assert said == vector.errors


def test_every_vector_names_its_section() -> None:
    assert all(vector.section for vector in VECTORS)


def test_every_vector_that_shows_a_row_is_there() -> None:
    assert PROVES.keys() <= {vector.name for vector in VECTORS}
