"""Impersonation headers: the effective user of a request.

Spec: KEP-5284 "Constrained Impersonation", and the older verb `impersonate`. `Impersonate-User`, `-Group`
(repeatable), `-Uid` and `-Extra-<key>` name a user; five modes are tried in order, the first that allows wins, and
the first denial is reported:

    associated-node   a service account's pod as the node it runs on
    arbitrary-node    any node             } these four check twice: `impersonate:<mode>` on the user,
    serviceaccount    a service account    } and `impersonate-on:<mode>:<verb>` on the requested resource
    user-info         any other user       }
    (legacy)          verb `impersonate`, once for every part

Upstream first tries the mode that last worked for a user; here the order is fixed. Repeated headers arrive with their
values joined by a line feed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from urllib.parse import unquote

from weir.apiserver.auth.authn import ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User
from weir.apiserver.auth.authz import Authorizer, forbidden_action
from weir.apiserver.auth.node_authorizer import NODE_USER, NODES_GROUP
from weir.apiserver.auth.rbac import Action
from weir.errors import BadRequest, Forbidden
from weir.values.names import check_dns1123_subdomain
from weir.values.quoting import quote

PREFIX = b"impersonate-"
USER, GROUP, UID, EXTRA = b"impersonate-user", b"impersonate-group", b"impersonate-uid", b"impersonate-extra-"
ACCOUNT = "system:serviceaccount:"
AUTHENTICATION = "authentication.k8s.io"
NODE_EXTRA = "authentication.kubernetes.io/node-name"


def impersonate(
    headers: Mapping[bytes, bytes],
    user: User,
    authorizer: Authorizer,
    action: Callable[[], Action] | None = None,
) -> User:
    """Return the effective user: *user* without the headers; raises Forbidden when impersonation is denied.

    *action* is the requested action; without it only the legacy verb is tried.
    """
    for header in headers:
        if header.startswith(PREFIX):
            break
    else:
        return user
    name = headers.get(USER)
    if not name:
        wanted = _wanted(headers, "")
        if wanted.groups or wanted.uid or wanted.extra:
            raise BadRequest(f"requested {_in_go(wanted)} without impersonating a user name")
        return user
    wanted = _wanted(headers, _text(name))
    refusal: Forbidden | None = None
    about = action() if action is not None else None
    for mode in _modes(wanted, user) if about is not None else ():
        assert about is not None
        try:
            return _constrained(mode, wanted, user, authorizer, about)
        except Forbidden as error:
            refusal = refusal or error
    try:
        return _legacy(wanted, user, authorizer)
    except Forbidden as error:
        raise refusal or error from None


def _modes(wanted: User, user: User) -> Iterator[str]:
    """Yield the constrained modes that apply, most specific first."""
    name_only = not (wanted.groups or wanted.uid or wanted.extra)
    node, account = _node(wanted.name), _account(wanted.name)
    if node and name_only:
        if _account(user.name) is not None and user.extra.get(NODE_EXTRA) == (node,):
            yield "associated-node"
        yield "arbitrary-node"
    elif account is not None and name_only:
        yield "serviceaccount"
    elif not node and account is None:
        yield "user-info"


def _constrained(mode: str, wanted: User, user: User, authorizer: Authorizer, action: Action) -> User:
    _check(authorizer, user, action._replace(verb=f"impersonate-on:{mode}:{action.verb}"))
    verb, node = f"impersonate:{mode}", _node(wanted.name)
    if node:
        about = Action(verb, AUTHENTICATION, "nodes", name="*" if mode == "associated-node" else node)
        _check(authorizer, user, about)
        return _authenticated(replace(wanted, groups=(NODES_GROUP,)))
    for key in wanted.extra:
        domain, slash, path = key.partition("/")
        if not slash or not path or check_dns1123_subdomain(domain):
            about = Action(verb, AUTHENTICATION, "userextras")
            raise forbidden_action(user, about, "impersonating an invalid key in extra is not allowed")
    for about in _parts(wanted, verb, AUTHENTICATION):
        if about.resource == "groups" and about.name == MASTERS:
            reason = "impersonating the system:masters group is not allowed"
            raise forbidden_action(user, about, reason)
        _check(authorizer, user, about)
    return _authenticated(wanted)


def _legacy(wanted: User, user: User, authorizer: Authorizer) -> User:
    for about in _parts(wanted, "impersonate", ""):
        _check(authorizer, user, about)
    return _authenticated(wanted)


def _check(authorizer: Authorizer, user: User, action: Action) -> None:
    decision = authorizer.decide(user, action)
    if not decision.allowed:
        raise forbidden_action(user, action, decision.reason)


def _parts(wanted: User, verb: str, group: str) -> Iterator[Action]:
    """Yield what the speaker has to be allowed, part by part; *group* is that of users and groups."""
    account = _account(wanted.name)
    if account is not None:
        yield Action(verb, group, "serviceaccounts", "", *account)
    else:
        yield Action(verb, group, "users", name=wanted.name)
    if wanted.uid:
        yield Action(verb, AUTHENTICATION, "uids", name=wanted.uid)
    for one in wanted.groups:
        yield Action(verb, group, "groups", name=one)
    for key, values in wanted.extra.items():
        for value in values:
            yield Action(verb, AUTHENTICATION, "userextras", key, "", value)


def _authenticated(wanted: User) -> User:
    """Return the user with the groups their name implies."""
    groups = wanted.groups
    account = _account(wanted.name)
    if account is not None and not groups:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
    group = UNAUTHENTICATED if wanted.name == ANONYMOUS.name else AUTHENTICATED
    if AUTHENTICATED not in groups and UNAUTHENTICATED not in groups:
        groups = (*groups, group)
    return replace(wanted, groups=groups)


def _wanted(headers: Mapping[bytes, bytes], name: str) -> User:
    extra = {
        unquote(header[len(EXTRA) :].decode("latin-1")).lower(): tuple(_values(value))
        for header, value in headers.items()
        if header.startswith(EXTRA)
    }
    return User(name, _text(headers.get(UID, b"")), tuple(_values(headers.get(GROUP, b""))), extra)


def _node(name: str) -> str:
    """Return the node a user name speaks of, "" when it is none's.

    >>> _node("system:node:n1"), _node("jane")
    ('n1', '')
    """
    node = name.removeprefix(NODE_USER) if name.startswith(NODE_USER) else ""
    return node if node and not check_dns1123_subdomain(node) else ""


def _account(name: str) -> tuple[str, str] | None:
    """Return namespace and name of a service account's user name.

    >>> _account("system:serviceaccount:ns:robot"), _account("jane")
    (('ns', 'robot'), None)
    """
    namespace, _, account = name.removeprefix(ACCOUNT).partition(":")
    return (namespace, account) if name.startswith(ACCOUNT) and namespace and account else None


def _in_go(user: User) -> str:
    """Return a user as Go prints the struct: that is what the refusal shows."""
    groups = f"[]string{{{', '.join(map(quote, user.groups))}}}" if user.groups else "[]string(nil)"
    extra = "map[string][]string(nil)"
    if user.extra:
        inside = (
            f"{quote(key)}:[]string{{{', '.join(map(quote, values))}}}" for key, values in user.extra.items()
        )
        extra = f"map[string][]string{{{', '.join(inside)}}}"
    return f'&user.DefaultInfo{{Name:"", UID:{quote(user.uid)}, Groups:{groups}, Extra:{extra}}}'


def _values(joined: bytes) -> list[str]:
    return [_text(value) for value in joined.split(b"\n") if value]


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
