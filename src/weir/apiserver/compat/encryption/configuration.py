"""Reads EncryptionConfiguration files.

Format, rules and messages are Kubernetes' (apiserver.config.k8s.io/v1): resources are `secrets`, `deployments.apps`,
`*.apps` (a group), `*.` (the core group) or `*.*`; an exact name has precedence over a group, a group over
everything. The providers `kms` and `secretbox` are not supported and rejected.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from weir.apiserver.compat.encryption.providers import (
    AES_KEY_BYTES,
    IDENTITY,
    Aescbc,
    Aesgcm,
    Provider,
    Providers,
    Sealing,
    Undecipherable,
)
from weir.objects.kinds import KINDS
from weir.objects.manifest import ManifestError, read_document
from weir.store.backend import Unreadable

API_VERSION: Final = "apiserver.config.k8s.io/v1"
KIND: Final = "EncryptionConfiguration"
_AES: Final[dict[str, Callable[[bytes], Sealing]]] = {"aescbc": Aescbc, "aesgcm": Aesgcm}
_KNOWN: Final = (*_AES, "identity", "secretbox", "kms")
_ABSENT: Final = {
    "secretbox": "weir has no XSalsa20-Poly1305; use aesgcm or aescbc",
    "kms": "weir has no KMS plugin; use aesgcm or aescbc",
}
_NOT_REST: Final = frozenset({"apiserveripinfo", "serviceipallocations", "servicenodeportallocations"})


class ConfigurationError(ValueError):
    """An encryption configuration that cannot be used; the text names the place and what is wrong."""


class Resource(NamedTuple):
    """A resource of a group, either of which may be `*`."""

    group: str
    resource: str

    @classmethod
    def of(cls, text: str) -> Resource:
        """Return the resource that *text* names.

        >>> [tuple(Resource.of(text)) for text in ("deployments.apps", "secrets", "*.")]
        [('apps', 'deployments'), ('', 'secrets'), ('', '*')]
        """
        resource, _, group = text.partition(".")
        return cls(group, resource)

    def __str__(self) -> str:
        if self == ("", "*"):
            return "*."
        return f"{self.resource}.{self.group}" if self.group else self.resource


EVERYTHING: Final = Resource("*", "*")
Rules = Mapping[Resource, Providers]


def read(path: Path) -> Rules:
    """Return the rules of the file at *path*. Raises ConfigurationError, which never shows a key."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigurationError(f"cannot read the encryption configuration {path}: {reason}") from None
    try:
        return parse(text)
    except ConfigurationError as error:
        raise ConfigurationError(f"encryption configuration {path}: {error}") from None


def parse(text: str) -> Rules:
    """Return the rules of a configuration. Raises ConfigurationError with everything that is wrong."""
    try:
        document = read_document(text, "encryption configuration")
    except ManifestError as error:  # its own text could quote the file
        raise ConfigurationError(f"it is not YAML at line {error.place.line}") from None
    if document is None:
        raise ConfigurationError("it is empty")
    if not isinstance(document, dict) or (document.get("apiVersion"), document.get("kind")) != (
        API_VERSION,
        KIND,
    ):
        raise ConfigurationError(f"it must say apiVersion: {API_VERSION} and kind: {KIND}")
    problems: list[str] = []
    rules = _rules(document.get("resources"), problems)
    if problems:
        raise ConfigurationError("; ".join(problems))
    return {resource: Providers(providers) for resource, providers in rules.items()}


def _rules(entries: Any, problems: list[str]) -> dict[Resource, list[Provider]]:
    rules: dict[Resource, list[Provider]] = {}
    if not isinstance(entries, list) or not entries:
        problems.append("resources: Required value: at least one resources is required")
        return rules
    for number, entry in enumerate(entries):
        place = f"resources[{number}]"
        if not isinstance(entry, dict):
            problems.append(f"{place}: must have `resources` and `providers`")
            continue
        names = _texts(entry.get("resources"), f"{place}.resources", problems)
        problems += _wrong_names(names, f"{place}.resources")
        providers = list(_providers(entry.get("providers"), f"{place}.providers", problems))
        for resource in map(Resource.of, names):
            for mask in (Resource(resource.group, "*"), EVERYTHING):
                if mask in rules and not problems:
                    problems.append(f'resource "{resource}" is masked by earlier rule "{mask}"')
        for resource in map(Resource.of, names):
            rules.setdefault(resource, []).extend(providers)
    return rules


def _texts(value: Any, place: str, problems: list[str]) -> list[str]:
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return value
    wrong = f"Required value: at least one {place} is required" if not value else "must be a list of names"
    problems.append(f"{place}: {wrong}")
    return []


def _wrong_names(names: list[str], place: str) -> Iterator[str]:
    """Yield what is wrong with a list of resources."""
    found = [Resource.of(name) for name in names]
    shown = ", ".join(names)
    if len(set(found)) < len(found):
        yield f"{place}: Invalid value: {shown}: the same resource cannot be specified multiple times"
    if any(
        one == EVERYTHING or (one.group == other.group and one.resource == "*")
        for one in found
        for other in found
        if one is not other and one != other
    ):
        yield (
            f"{place}: Invalid value: {shown}: using overlapping resources such as 'secrets' and '*.' in the same "
            "resource list is not allowed as they will be masked"
        )
    for number, (name, resource) in enumerate(zip(names, found, strict=True)):
        reason = _wrong_name(name, resource)
        if reason:
            yield f'{place}[{number}]: Invalid value: "{name}": {reason}'


def _wrong_name(name: str, resource: Resource) -> str:
    if name != name.lower():
        return "resource name should not contain capital letters"
    if name == "*":
        return "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
    if name in _NOT_REST:
        return "resources which do not have REST API/s cannot be encrypted"
    if resource.group == "events.k8s.io":
        return (
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. "
            "Use 'events' instead in the config file"
        )
    if resource.group == "extensions":
        return "'extensions' group has been removed and cannot be used for encryption"
    if resource.group == "*" and resource.resource != "*":
        return "encrypting the same resource across groups is not supported"
    return ""


def _providers(entries: Any, place: str, problems: list[str]) -> Iterator[Provider]:
    if not isinstance(entries, list) or not entries:
        problems.append(f"{place}: Required value: at least one {place} is required")
        return
    for number, entry in enumerate(entries):
        where = f"{place}[{number}]"
        named = [name for name in entry if name in _KNOWN] if isinstance(entry, dict) else []
        unknown = sorted(set(entry) - set(named), key=str) if isinstance(entry, dict) else []
        if not named or unknown:
            what = f" (found {', '.join(map(str, unknown))})" if unknown else ""
            problems.append(
                f"{where}: Invalid value: provider does not contain any of the expected providers: "
                f"KMS, AESGCM, AESCBC, Secretbox, Identity{what}"
            )
        elif len(named) > 1:
            problems.append(
                f"{where}: Invalid value: more than one provider specified in a single element, "
                "should split into different list elements"
            )
        elif named[0] in _ABSENT:
            problems.append(f"{where}.{named[0]}: {_ABSENT[named[0]]}")
        elif named[0] == "identity":
            yield IDENTITY
        else:
            yield from _keys(entry[named[0]], named[0], f"{where}.{named[0]}.keys", problems)


def _keys(settings: Any, provider: str, place: str, problems: list[str]) -> Iterator[Provider]:
    keys = settings.get("keys") if isinstance(settings, dict) else None
    if not isinstance(keys, list) or not keys:
        problems.append(f"{place}: Required value: at least one keys is required")
        return
    for number, key in enumerate(keys):
        where = f"{place}[{number}]"
        name, secret = (key.get("name"), key.get("secret")) if isinstance(key, dict) else (None, None)
        if not isinstance(name, str) or not name:
            problems.append(f"{where}.name: Required value: name is a mandatory field for a key")
            continue
        if not isinstance(secret, str) or not secret:
            problems.append(f"{where}.secret: Required value: secret is a mandatory field for a key")
            continue
        try:
            raw = base64.b64decode(secret, validate=True)
        except (binascii.Error, ValueError):
            problems.append(f'{where}.secret: Invalid value: "REDACTED": secrets must be base64 encoded')
            continue
        if len(raw) not in AES_KEY_BYTES:
            sizes = " ".join(map(str, AES_KEY_BYTES))
            problems.append(
                f'{where}.secret: Invalid value: "REDACTED": secret is not of the expected length, '
                f"got {len(raw)}, expected one of [{sizes}]"
            )
            continue
        yield Provider(f"k8s:enc:{provider}:v1:{name}:".encode(), _AES[provider](raw))


# ── encryption transformer of the store: finds a resource's providers by storage path ──
# A resource without a rule is stored in plain text, and encrypted data under it is an error at startup. `reload` takes
# a new configuration; an invalid one changes nothing. Spec: the file's format is Kubernetes'
# (weir.apiserver.compat.encryption.configuration).


logger = logging.getLogger("weir.apiserver.encryption")
_PLAIN = Providers([IDENTITY])


class AtRest:
    """The store's transformer (`weir.store.backend.Transformer`); safe for use from several threads."""

    def __init__(self, path: Path | None = None) -> None:
        """Read the configuration at *path*, if one is given. Raises ConfigurationError."""
        self._path = path
        self._rules: Rules = {} if path is None else read(path)
        self._by_prefix = _by_prefix(self._rules)

    @property
    def plain(self) -> bool:
        return self._path is None

    def reload(self) -> bool:
        """Read the configuration again; return whether it is in use now. A bad one is logged, and the old one stays."""
        if self._path is None:
            return True
        try:
            self._rules = read(self._path)
        except ConfigurationError as error:
            logger.error("the encryption configuration stays as it was: %s", error)
            return False
        self._by_prefix = _by_prefix(self._rules)
        logger.info("the encryption configuration was read again file=%s", self._path)
        return True

    def _of(self, key: str) -> Providers:
        """Return the providers of the resource whose object lies at *key*."""
        if not self._rules:
            return _PLAIN
        _, _, first, second, *_ = (*key.split("/", 4), "", "")
        found = self._by_prefix.get(f"/registry/{first}/") or self._by_prefix.get(
            f"/registry/{first}/{second}/"
        )
        if found is None and "." in first:  # a group of custom resources, which lie at group and plural
            found = _rule_of(self._rules, first, second)
        return found or _PLAIN

    def to_storage(self, key: str, value: bytes) -> bytes:
        return self._of(key).seal(value, key)

    def from_storage(self, key: str, stored: bytes) -> bytes:
        try:
            return self._of(key).open(stored, key)
        except Undecipherable as error:
            hint = "give the server the key that wrote it with --encryption-provider-config"
            raise Unreadable(f"{key} cannot be decrypted: {error}; {hint}") from None

    def is_stale(self, key: str, stored: bytes) -> bool:
        return self._of(key).is_stale(stored)

    def may_be_stale(self, key: str) -> bool:
        return self._of(key) is not _PLAIN


def _by_prefix(rules: Rules) -> dict[str, Providers]:
    """Return the providers of every stored kind that a rule names, by its storage path."""
    found = {}
    for kind in KINDS:
        if kind.stored:
            group = kind.group if kind.storage_group is None else kind.storage_group
            providers = _rule_of(rules, group, kind.plural)
            if providers is not None:
                found[kind.prefix] = providers
    return found


def _rule_of(rules: Rules, group: str, resource: str) -> Providers | None:
    """Return the rule for a resource: one that names it, before one for its group, before one for everything."""
    names = (Resource(group, resource), Resource(group, "*"), EVERYTHING)
    return next((rules[name] for name in names if name in rules), None)
