"""The reference page says what the declarations say."""

from __future__ import annotations

from pathlib import Path

from weir.cel import listing
from weir.devices.expression import environment
from weir.taints.expression import ENV

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cel.md"
DEVICE = environment(list_attributes=True, multiple_allocations=True)


def test_the_reference_page_is_current() -> None:
    expected = listing.markdown({"toleration": ENV, "device": DEVICE})
    assert PAGE.read_text() == expected, "run: weir cel functions -o markdown > docs/reference/cel.md"


def test_every_overload_users_can_call_says_its_price() -> None:
    priced = {row["overload"] for row in listing.rows(ENV) if row["cost"]}
    callable_ids = {
        overload.id
        for library in ENV.libraries
        if library.name != "authz"
        for function in library.functions
        if "@" not in function.name or function.name == "@in"
        for overload in function.overloads
    }
    assert callable_ids - priced == set()


def test_overload_ids_are_unique() -> None:
    ids = [overload.id for function in ENV.functions.values() for overload in function.overloads]
    assert len(ids) == len(set(ids))
