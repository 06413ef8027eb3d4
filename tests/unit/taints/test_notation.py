"""key=value:Effect, as kubectl writes it."""

import pytest

from weir.objects.core import Taint
from weir.taints.notation import DEVICE_EFFECTS, TaintNotationError, parse_taint, taint_document

pytestmark = pytest.mark.proves("1.35-19")


@pytest.mark.parametrize(
    ("text", "taint"),
    [
        ("a:NoSchedule", Taint("a", "", "NoSchedule")),
        ("a=:NoExecute", Taint("a", "", "NoExecute")),
        ("example.com/a=b=c:PreferNoSchedule", Taint("example.com/a", "b=c", "PreferNoSchedule")),
        ("a=x:y:NoExecute", Taint("a", "x:y", "NoExecute")),
    ],
)
def test_what_kubectl_writes_is_read(text, taint):
    assert parse_taint(text) == taint


@pytest.mark.parametrize("text", ["", "a", "a=b", "a:", "a:Never", ":NoExecute", "=b:NoExecute", "a:None"])
def test_what_is_no_node_taint_is_refused(text):
    with pytest.raises(TaintNotationError, match="is no taint"):
        parse_taint(text)


def test_device_taints_have_effects_of_their_own():
    assert parse_taint("a:None", DEVICE_EFFECTS).effect == "None"
    with pytest.raises(TaintNotationError, match="None, NoSchedule, NoExecute"):
        parse_taint("a:PreferNoSchedule", DEVICE_EFFECTS)


@pytest.mark.parametrize(("text", "value"), [("a", ""), ("a=b", "b")])
def test_where_the_effect_may_be_left_out_it_is_empty(text, value):
    assert parse_taint(text, effect_required=False) == Taint("a", value, "")


def test_the_document_leaves_out_what_is_empty():
    assert taint_document(Taint("a", "", "NoExecute")) == {"key": "a", "effect": "NoExecute"}
