"""What an answer does with gates of which one knows, and with those of which nobody does."""

from weir.client.known_gates import KnownGates, Learned
from weir.gates import TOLERATION_CEL, TOLERATION_COMPARISON


def test_an_unknown_gate_makes_two_answers_only_where_it_is_used():
    known = KnownGates({**KnownGates.default({}).features, TOLERATION_CEL: Learned(None, "why")}, {})
    assert len(known.possible([TOLERATION_COMPARISON])) == 1
    assert [gates.cel for gates in known.possible([TOLERATION_CEL])] == [False, True]
    assert "TaintTolerationCEL not known (why)" in known.line()
