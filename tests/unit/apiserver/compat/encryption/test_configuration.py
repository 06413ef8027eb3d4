"""Claims about weir.apiserver.compat.encryption.configuration: files and errors as upstream."""

import pytest
import yaml

from weir.apiserver.compat.encryption.configuration import (
    API_VERSION,
    AtRest,
    ConfigurationError,
    Resource,
    parse,
    read,
)
from weir.objects.kinds import KINDS

KEY = "AAECAwQFBgcICQoLDA0ODw=="
AES = {"aescbc": {"keys": [{"name": "k", "secret": KEY}]}}


def configuration(*entries, **more):
    return yaml.safe_dump(
        {"apiVersion": API_VERSION, "kind": "EncryptionConfiguration", "resources": list(entries), **more}
    )


def entry(*resources, providers=(AES,)):
    return {"resources": list(resources), "providers": list(providers)}


def test_resources_are_named_as_upstream_names_them():
    rules = parse(configuration(entry("secrets", "deployments.apps"), entry("*.batch"), entry("*.*")))
    assert {str(resource) for resource in rules} == {"secrets", "deployments.apps", "*.batch", "*.*"}
    assert set(parse(configuration(entry("*.")))) == {Resource("", "*")}


def test_two_entries_of_one_resource_are_one_list_of_providers():
    rules = parse(configuration(entry("secrets"), entry("secrets", providers=[{"identity": {}}])))
    assert rules[Resource("", "secrets")].open(b"plain", "/p") == b"plain"


@pytest.mark.parametrize("group", ["*", "example.com", "other.com"])
def test_every_stored_kind_and_custom_resources_are_encrypted_where_a_rule_names_them(tmp_path, group):
    path = tmp_path / "encryption.yaml"
    path.write_text(configuration(entry(f"*.{group}")))
    at_rest = AtRest(path)
    prefixes = {kind.prefix for kind in KINDS if kind.stored} | {"/registry/example.com/widgets/"}
    sealed = {each for each in prefixes if at_rest.to_storage(f"{each}a/b", b"x").startswith(b"k8s:enc:")}
    assert (
        sealed
        == {"*": prefixes, "example.com": {"/registry/example.com/widgets/"}, "other.com": set()}[group]
    )


def test_a_rule_for_one_custom_resource_is_for_no_other(tmp_path):
    path = tmp_path / "encryption.yaml"
    path.write_text(configuration(entry("widgets.example.com")))
    stored = [
        AtRest(path).to_storage(f"/registry/example.com/{each}/a/b", b"x") for each in ("widgets", "gadgets")
    ]
    assert stored[0].startswith(b"k8s:enc:aescbc:v1:k:") and stored[1] == b"x"


WRONG = {
    "not YAML": ("a: [", "it is not YAML at line 1"),
    "empty": ("", "it is empty"),
    "another kind": ("kind: Pod", "it must say apiVersion"),
    "no resources": (configuration(), "at least one resources is required"),
    "no names": (configuration(entry()), "resources[0].resources: Required value"),
    "a text for a list": (configuration({"resources": "secrets", "providers": [AES]}), "must be a list of names"),
    "no providers": (configuration(entry("secrets", providers=[])), "resources[0].providers: Required value"),
    "capitals": (configuration(entry("Secrets")), "should not contain capital letters"),
    "star": (configuration(entry("*")), "use '*.' to encrypt all the resources from core"),
    "no REST": (configuration(entry("serviceipallocations")), "do not have REST API/s"),
    "events": (configuration(entry("events.events.k8s.io")), "Use 'events' instead"),
    "extensions": (configuration(entry("ingresses.extensions")), "'extensions' group has been removed"),
    "across groups": (configuration(entry("secrets.*")), "across groups is not supported"),
    "twice": (configuration(entry("secrets", "secrets")), "cannot be specified multiple times"),
    "overlap": (configuration(entry("secrets", "*.")), "overlapping resources"),
    "overlap with all": (configuration(entry("*.*", "secrets")), "overlapping resources"),
    "masked": (configuration(entry("*."), entry("secrets")), 'resource "secrets" is masked by earlier rule "*."'),
    "masked by all": (configuration(entry("*.*"), entry("*.apps")), '"*.apps" is masked by earlier rule "*.*"'),
    "two in one": (configuration(entry("secrets", providers=[{**AES, "identity": {}}])), "more than one provider"),
    "unknown": (configuration(entry("secrets", providers=[{"rot13": {}}])), "expected providers: KMS, AESGCM"),
    "secretbox": (
        configuration(entry("secrets", providers=[{"secretbox": AES["aescbc"]}])),
        "resources[0].providers[0].secretbox: weir has no XSalsa20-Poly1305; use aesgcm or aescbc",
    ),
    "kms": (configuration(entry("secrets", providers=[{"kms": {"name": "x"}}])), "weir has no KMS plugin"),
    "no keys": (configuration(entry("secrets", providers=[{"aescbc": {}}])), "keys: Required value"),
    "no name": (
        configuration(entry("secrets", providers=[{"aescbc": {"keys": [{"secret": KEY}]}}])),
        "name is a mandatory field for a key",
    ),
    "no secret": (
        configuration(entry("secrets", providers=[{"aescbc": {"keys": [{"name": "k"}]}}])),
        "secret is a mandatory field for a key",
    ),
    "short": (
        configuration(entry("secrets", providers=[{"aesgcm": {"keys": [{"name": "k", "secret": "aGVsbG8="}]}}])),
        "secret is not of the expected length, got 5, expected one of [16 24 32]",
    ),
    "not base64": (
        configuration(entry("secrets", providers=[{"aesgcm": {"keys": [{"name": "k", "secret": "hunter2!"}]}}])),
        "secrets must be base64 encoded",
    ),
    "numbers": (configuration({"resources": [1], "providers": [2]}), "must be a list of names"),
}  # fmt: skip


@pytest.mark.parametrize("text, words", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_in_one_line_that_shows_no_key(text, words):
    with pytest.raises(ConfigurationError) as caught:
        parse(text)
    said = str(caught.value)
    assert words in said and "\n" not in said and "hunter2" not in said and KEY not in said


def test_the_file_is_named(tmp_path):
    with pytest.raises(
        ConfigurationError, match=r"cannot read the encryption configuration .*none: No such file"
    ):
        read(tmp_path / "none")
    (tmp_path / "bad").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="bad: it is not UTF-8 text"):
        read(tmp_path / "bad")
