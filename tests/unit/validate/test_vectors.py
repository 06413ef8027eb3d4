"""The validation vectors, asked of the library."""

from __future__ import annotations

import pytest

from tests.validation_vectors import Vector, load
from weir.validate import validate

VECTORS = load()


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_the_validator_answers_with_the_lines_of_the_specification(vector: Vector) -> None:
    said = list(dict.fromkeys(map(str, validate(vector.object, vector.old, vector.gates))))
    assert said == vector.errors


def test_every_vector_names_its_section() -> None:
    assert all(vector.section for vector in VECTORS)
