"""Claims about docs/reference/kinds.md: it is as `make docs` writes it, and no kind is missing."""

from docs import kinds
from docs.generate import REFERENCE

from weir.objects.kinds import KINDS


def test_every_kind_that_can_be_read_says_what_acts_on_it():
    assert {kind.kind for kind in KINDS if kind.plural and "get" in kind.verbs} == kinds.ACTS.keys()


def test_the_page_is_up_to_date():
    assert (REFERENCE / "kinds.md").read_text() == kinds.page()
