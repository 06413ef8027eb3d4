"""Claims about weir.apiserver.compat.encryption.providers: upstream's bytes are read, changed ones not."""

import base64
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from weir.apiserver.compat.encryption.configuration import AtRest
from weir.apiserver.compat.encryption.providers import (
    IDENTITY,
    Aescbc,
    Aesgcm,
    Provider,
    Providers,
    Undecipherable,
)
from weir.store.backend import Unreadable

VECTORS = yaml.safe_load((Path(__file__).parents[4] / "vectors" / "encryption.yaml").read_text())
PATH = "/registry/secrets/default/s"


def provider(kind, name="k", key=bytes(32)):
    sealing = {"aescbc": Aescbc, "aesgcm": Aesgcm}[kind](key)
    return Provider(f"k8s:enc:{kind}:v1:{name}:".encode(), sealing)


@pytest.fixture
def recorded(tmp_path):
    path = tmp_path / "encryption.yaml"
    path.write_text(yaml.safe_dump(VECTORS["configuration"]))
    return AtRest(path)


@pytest.mark.parametrize("vector", VECTORS["recorded"], ids=lambda vector: vector["key"])
def test_what_a_real_server_encrypted_is_read(recorded, vector):
    stored, value = base64.b64decode(vector["stored"]), base64.b64decode(vector["value"])
    assert recorded.from_storage(vector["key"], stored) == value
    assert not recorded.is_stale(vector["key"], stored)
    again = recorded.to_storage(vector["key"], value)
    assert (len(again), again[:22]) == (len(stored), stored[:22]) and again != stored
    assert recorded.from_storage(vector["key"], again) == value, "it is written as it is read"


def test_what_a_real_server_bound_to_its_path_is_read_nowhere_else(recorded):
    vector = VECTORS["recorded"][1]
    with pytest.raises(Unreadable, match="message authentication failed"):
        recorded.from_storage("/registry/configmaps/default/other", base64.b64decode(vector["stored"]))


@given(st.sampled_from(["aescbc", "aesgcm"]), st.binary(max_size=200), st.sampled_from([16, 24, 32]))
def test_a_value_comes_back_and_is_never_stored_twice_the_same(kind, value, size):
    providers = Providers([provider(kind, key=bytes(range(size)))])
    stored = providers.seal(value, PATH)
    assert providers.open(stored, PATH) == value
    assert stored != providers.seal(value, PATH)
    assert len(value) < 8 or value not in stored.removeprefix(f"k8s:enc:{kind}:v1:k:".encode())


@given(st.binary(max_size=60), st.data())
def test_a_changed_byte_is_noticed_by_aesgcm(value, data):
    providers = Providers([provider("aesgcm")])
    stored = bytearray(providers.seal(value, PATH))
    at = data.draw(st.integers(0, len(stored) - 1))
    stored[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(Undecipherable):
        providers.open(bytes(stored), PATH)


@given(st.binary(max_size=80))
def test_rubbish_is_refused_never_a_traceback(rubbish):
    for kind in ("aescbc", "aesgcm"):
        one = provider(kind)
        try:
            Providers([one]).open(one.prefix + rubbish, PATH)
        except Undecipherable as error:
            assert str(error)


@pytest.mark.parametrize(
    ("order", "writes"),
    [
        (["new", "old", "plain"], b"k8s:enc:aescbc:v1:new:"),
        (["old", "new", "plain"], b"k8s:enc:aesgcm:v1:old:"),
        (["plain", "new", "old"], b"value"),
    ],
)
def test_the_first_writes_and_all_read(order, writes):
    known = {"new": provider("aescbc", "new"), "old": provider("aesgcm", "old"), "plain": IDENTITY}
    providers = Providers([known[name] for name in order])
    assert providers.seal(b"value", PATH).startswith(writes)
    for name, one in known.items():
        stored = Providers([one]).seal(b"value", PATH)
        assert providers.open(stored, PATH) == b"value"
        assert providers.is_stale(stored) == (name != order[0])


def test_two_keys_of_one_name_are_both_tried():
    old, new = provider("aesgcm", key=bytes(32)), provider("aesgcm", key=bytes(range(32)))
    stored = Providers([old]).seal(b"value", PATH)
    assert Providers([new, old]).open(stored, PATH) == b"value"


def test_a_key_that_is_gone_is_an_error_not_a_value():
    stored = Providers([provider("aescbc", "old")]).seal(b"value", PATH)
    with pytest.raises(Undecipherable, match="no matching prefix found"):
        Providers([provider("aescbc", "new"), IDENTITY]).open(stored, PATH)
