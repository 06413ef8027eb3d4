"""For whom does this user speak?

A user with the verb `impersonate` on users, groups, serviceaccounts, uids or userextras may send
`Impersonate-User`, `-Group` (repeatable), `-Uid` and `-Extra-<key>` and is then treated as that user.
Each part is authorized by itself; the first refused part refuses the request.

A header that occurs more than once arrives with its values joined by a line feed, which no value can hold.
Not here: who the user is to begin with (weir.apiserver.authn).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from weir.apiserver.authn import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User
from weir.apiserver.authz import Authorizer, forbidden_action
from weir.apiserver.rbac import Action
from weir.errors import InternalError

USER, GROUP, UID, EXTRA = b"impersonate-user", b"impersonate-group", b"impersonate-uid", b"impersonate-extra-"
ACCOUNT = "system:serviceaccount:"
AUTHENTICATION = "authentication.k8s.io"


def impersonate(headers: Mapping[bytes, bytes], user: User, authorizer: Authorizer) -> User:
    """Return whom *user* speaks for: themselves without the headers; raises Forbidden when they may not."""
    name = headers.get(USER)
    if name is None:
        odd = [h.decode() for h in headers if h in (GROUP, UID) or h.startswith(EXTRA)]
        if odd:
            raise InternalError(f"requested {odd} without impersonating a user")
        return user
    wanted = _wanted(headers, _text(name))
    for action in _actions(wanted):
        decision = authorizer.decide(user, action)
        if not decision.allowed:
            raise forbidden_action(user, action, decision.reason)
    return _with_groups(wanted)


def _wanted(headers: Mapping[bytes, bytes], name: str) -> User:
    groups = tuple(dict.fromkeys(_values(headers.get(GROUP, b""))))
    extra = {
        unquote(header[len(EXTRA) :].decode("latin-1")).lower(): tuple(_values(value))
        for header, value in headers.items()
        if header.startswith(EXTRA)
    }
    return User(name, _text(headers.get(UID, b"")), groups, extra)


def _actions(wanted: User) -> Iterator[Action]:
    """Yield what the speaker has to be allowed, part by part."""
    if (account := _account(wanted.name)) is not None:
        namespace, name = account
        yield Action("impersonate", "", "serviceaccounts", "", namespace, name)
    else:
        yield Action("impersonate", "", "users", name=wanted.name)
    for group in wanted.groups:
        yield Action("impersonate", "", "groups", name=group)
    for key, values in wanted.extra.items():
        for value in values:
            yield Action("impersonate", AUTHENTICATION, "userextras", key, "", value)
    if wanted.uid:
        yield Action("impersonate", AUTHENTICATION, "uids", name=wanted.uid)


def _with_groups(wanted: User) -> User:
    groups = wanted.groups
    if (account := _account(wanted.name)) is not None and not groups:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
    everybody = UNAUTHENTICATED if wanted.name == ANONYMOUS.name else AUTHENTICATED
    if AUTHENTICATED not in groups and UNAUTHENTICATED not in groups:
        groups = (*groups, everybody)
    return User(wanted.name, wanted.uid, groups, wanted.extra)


def _account(name: str) -> tuple[str, str] | None:
    """Return namespace and name of a service account's user name.

    >>> _account("system:serviceaccount:ns:robot"), _account("jane")
    (('ns', 'robot'), None)
    """
    namespace, _, account = name.removeprefix(ACCOUNT).partition(":")
    return (namespace, account) if name.startswith(ACCOUNT) and namespace and account else None


def _values(joined: bytes) -> list[str]:
    return [_text(value) for value in joined.split(b"\n") if value]


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
