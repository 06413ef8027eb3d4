"""Claims about weir.apiserver.auth.reviews and weir.apiserver.auth.impersonation."""

from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.unit.apiserver.admission_world import Objects, stored
from weir.apiserver.auth.authn import Authenticator, StaticTokens, User, proven
from weir.apiserver.auth.authz import Authorizer
from weir.apiserver.auth.impersonation import impersonate
from weir.apiserver.auth.rbac import Action
from weir.apiserver.auth.reviews import Reviews
from weir.apiserver.auth.tokens import ISSUER, Signer, Verifier, issue
from weir.apiserver.bootstrap.policy import objects
from weir.errors import BadRequest, Forbidden, Invalid
from weir.objects.kinds import by_kind

NOW = datetime(2026, 6, 1, tzinfo=UTC)
JANE = proven("jane", ["dev"])
ADMIN = proven("admin", ["system:masters"], uid="admin-uid")
GROUP = "rbac.authorization.k8s.io"
ACCOUNT = stored("v1", "ServiceAccount", "robot", "ns", metadata={"uid": "u1"})
SIGNER = Signer(ec.generate_private_key(ec.SECP256R1()))


def allow(name, subject, *rules):
    ref = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
    return (
        stored(f"{GROUP}/v1", "ClusterRole", name, rules=list(rules)),
        stored(f"{GROUP}/v1", "ClusterRoleBinding", name, roleRef=ref, subjects=[subject]),
    )


PODS = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
WORLD = Objects(*objects(), *allow("pods", {"kind": "Group", "name": "dev"}, PODS))


@pytest.fixture(scope="module")
def reviews():
    verifier = Verifier(
        [SIGNER.public], lambda *key: ACCOUNT if key[0] == "serviceaccounts" else None, lambda: NOW
    )
    tokens = StaticTokens({"static": JANE})
    return Reviews(Authorizer(WORLD), Authenticator([tokens.find, verifier.user]), verifier)


def ask(reviews, kind, spec=None, user=JANE, namespace="", **metadata):
    group = "authentication" if kind in ("TokenReview", "SelfSubjectReview") else "authorization"
    api_version = f"{group}.k8s.io/v1"
    document = {"kind": kind, "apiVersion": api_version, "metadata": metadata, "spec": spec or {}}
    answer = reviews.review(by_kind(api_version, kind), document, user, namespace, "2026-06-01T00:00:00Z")
    return answer["status"]


def test_a_user_learns_who_they_are(reviews):
    assert ask(reviews, "SelfSubjectReview", user=ADMIN) == {
        "userInfo": {
            "username": "admin",
            "uid": "admin-uid",
            "groups": ["system:masters", "system:authenticated"],
        }
    }


def test_a_good_token_is_named(reviews):
    token, _ = issue(SIGNER, ACCOUNT, NOW)
    status = ask(reviews, "TokenReview", {"token": token})
    assert (status["authenticated"], status["user"]["username"], status["audiences"]) == (
        True,
        "system:serviceaccount:ns:robot",
        [ISSUER],
    )


@pytest.mark.parametrize(("audiences", "good"), [([], [ISSUER]), (["x", ISSUER], [ISSUER]), (["x"], None)])
def test_a_static_token_is_for_this_server_only(reviews, audiences, good):
    status = ask(reviews, "TokenReview", {"token": "static", "audiences": audiences})
    assert status.get("audiences") == good


@pytest.mark.parametrize("audiences", [["vault"], ["vault", "other"]])
def test_a_token_for_another_audience_is_not_good(reviews, audiences):
    token, _ = issue(SIGNER, ACCOUNT, NOW)
    assert ask(reviews, "TokenReview", {"token": token, "audiences": audiences}) == {
        "user": {},
        "error": "invalid bearer token",
    }


def test_a_wrong_token_is_told(reviews):
    assert ask(reviews, "TokenReview", {"token": "x"}) == {"user": {}, "error": "invalid bearer token"}


def test_a_review_needs_a_token(reviews):
    with pytest.raises(BadRequest, match="token is required for TokenReview in authentication"):
        ask(reviews, "TokenReview")


GET_POD = {"verb": "get", "resource": "pods", "namespace": "ns"}
BECAUSE = 'RBAC: allowed by ClusterRoleBinding "pods" of ClusterRole "pods" to Group "dev"'


@pytest.mark.parametrize(
    ("kind", "spec", "status"),
    [
        ("SelfSubjectAccessReview", {"resourceAttributes": GET_POD}, {"allowed": True, "reason": BECAUSE}),
        (
            "SelfSubjectAccessReview",
            {"resourceAttributes": {**GET_POD, "verb": "delete"}},
            {"allowed": False},
        ),
        (
            "SubjectAccessReview",
            {"resourceAttributes": GET_POD, "user": "x", "groups": ["dev"]},
            {"allowed": True, "reason": BECAUSE},
        ),
        ("SubjectAccessReview", {"resourceAttributes": GET_POD, "user": "x"}, {"allowed": False}),
        (
            "SubjectAccessReview",
            {"nonResourceAttributes": {"verb": "get", "path": "/x"}, "groups": ["system:masters"]},
            {"allowed": True},
        ),
    ],
)
def test_access_is_answered_with_its_reason(reviews, kind, spec, status):
    assert ask(reviews, kind, spec) == status


def test_a_local_review_stays_in_its_namespace(reviews):
    spec = {"resourceAttributes": GET_POD, "groups": ["dev"]}
    document = {"metadata": {"namespace": "ns"}, "spec": spec}
    kind = by_kind("authorization.k8s.io/v1", "LocalSubjectAccessReview")
    assert reviews.review(kind, document, JANE, "ns")["status"]["allowed"]
    with pytest.raises(Invalid, match=r"must match metadata\.namespace"):
        reviews.review(kind, {**document, "metadata": {"namespace": "other"}}, JANE, "other")


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        (
            "SelfSubjectAccessReview",
            {},
            '.authorization.k8s.io "" is invalid: spec: Invalid value: null: exactly one of '
            "nonResourceAttributes or resourceAttributes must be specified",
        ),
        (
            "SubjectAccessReview",
            {"resourceAttributes": GET_POD},
            '.authorization.k8s.io "" is invalid: spec.user: Invalid value: "": at least one of user or '
            "group must be specified",
        ),
    ],
)
def test_a_question_without_object_or_subject_is_invalid(reviews, kind, spec, message):
    with pytest.raises(Invalid) as refused:
        ask(reviews, kind, spec)
    assert refused.value.message == message


def test_a_user_learns_their_rules(reviews):
    status = ask(reviews, "SelfSubjectRulesReview", {"namespace": "ns"})
    assert PODS in status["resourceRules"] and status["incomplete"] is False
    assert any("/healthz" in rule["nonResourceURLs"] for rule in status["nonResourceRules"])


def test_rules_are_asked_for_a_namespace(reviews):
    with pytest.raises(BadRequest, match="no namespace on request"):
        ask(reviews, "SelfSubjectRulesReview")


# --- impersonation ---

JOE = {b"impersonate-user": b"joe"}


def speaker(*resources):
    rule = {
        "verbs": ["impersonate"],
        "apiGroups": ["", "authentication.k8s.io"],
        "resources": list(resources),
    }
    return Authorizer(Objects(*allow("speak", {"kind": "User", "name": "jane"}, rule)))


def test_without_the_headers_everybody_speaks_for_themselves():
    assert impersonate({b"accept": b"*/*"}, JANE, speaker()) is JANE


def test_who_may_speak_for_another_becomes_them():
    assert impersonate(JOE, JANE, speaker("users")) == User("joe", groups=("system:authenticated",))


def test_groups_are_checked_one_by_one_and_kept_in_order():
    headers = {**JOE, b"impersonate-group": b"b\na"}
    assert impersonate(headers, JANE, speaker("users", "groups")).groups == ("b", "a", "system:authenticated")


def test_who_may_not_is_refused():
    with pytest.raises(Forbidden) as refused:
        impersonate({**JOE, b"impersonate-group": b"system:masters"}, JANE, speaker("users"))
    assert refused.value.message == (
        'groups "system:masters" is forbidden: User "jane" cannot impersonate resource "groups" '
        'in API group "" at the cluster scope'
    )


def test_a_service_account_brings_its_groups():
    robot = {b"impersonate-user": b"system:serviceaccount:ns:robot"}
    assert impersonate(robot, JANE, speaker("serviceaccounts")).groups == (
        "system:serviceaccounts",
        "system:serviceaccounts:ns",
        "system:authenticated",
    )


def test_extras_and_uid_are_taken_over():
    headers = {**JOE, b"impersonate-uid": b"7", b"impersonate-extra-scopes%2fx": b"a\nb"}
    user = impersonate(headers, ADMIN, speaker())
    assert (user.uid, user.extra) == ("7", {"scopes/x": ("a", "b")})


def test_a_group_without_a_user_is_an_error():
    with pytest.raises(BadRequest) as refused:
        impersonate({b"impersonate-group": b"x"}, ADMIN, speaker())
    assert refused.value.message == (
        'requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"x"}, Extra:map[string][]string(nil)} '
        "without impersonating a user name"
    )


LIST_PODS = Action("list", "", "pods", namespace="ns")
AUTHENTICATION = "authentication.k8s.io"


def may(*rules, name="jane"):
    return Authorizer(Objects(*allow("speak", {"kind": "User", "name": name}, *rules)))


def on(mode):
    return {"verbs": [f"impersonate-on:{mode}:list"], "apiGroups": [""], "resources": ["pods"]}


def speak(mode, resource):
    return {"verbs": [f"impersonate:{mode}"], "apiGroups": [AUTHENTICATION], "resources": [resource]}


def as_user(name):
    return {b"impersonate-user": name.encode()}


def test_speaking_for_a_user_can_be_limited_to_what_is_done():
    authorizer = may(speak("user-info", "users"), on("user-info"))
    assert impersonate(as_user("joe"), JANE, authorizer, lambda: LIST_PODS).name == "joe"
    with pytest.raises(Forbidden) as refused:
        impersonate(as_user("joe"), JANE, authorizer, lambda: LIST_PODS._replace(verb="delete"))
    assert refused.value.message == (
        'pods is forbidden: User "jane" cannot impersonate-on:user-info:delete resource "pods" in API group "" '
        'in the namespace "ns"'
    )


@pytest.mark.parametrize(
    ("mode", "resource", "name", "groups"),
    [
        ("arbitrary-node", "nodes", "system:node:n1", ("system:nodes", "system:authenticated")),
        (
            "serviceaccount",
            "serviceaccounts",
            "system:serviceaccount:ns:robot",
            ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
        ),
    ],
)
def test_nodes_and_accounts_have_modes_and_groups_of_their_own(mode, resource, name, groups):
    authorizer = may(speak(mode, resource), on(mode))
    assert impersonate(as_user(name), JANE, authorizer, lambda: LIST_PODS).groups == groups


def test_a_pod_may_speak_for_the_node_it_runs_on_and_no_other():
    agent = proven(
        "system:serviceaccount:ns:agent", extra={"authentication.kubernetes.io/node-name": ("n1",)}
    )
    authorizer = may(speak("associated-node", "nodes"), on("associated-node"), name=agent.name)
    assert (
        impersonate(as_user("system:node:n1"), agent, authorizer, lambda: LIST_PODS).name == "system:node:n1"
    )
    with pytest.raises(Forbidden):
        impersonate(as_user("system:node:n2"), agent, authorizer, lambda: LIST_PODS)


def test_constrained_speakers_never_become_masters():
    authorizer = may(speak("user-info", "users"), speak("user-info", "groups"), on("user-info"))
    headers = {**as_user("joe"), b"impersonate-group": b"system:masters"}
    with pytest.raises(Forbidden, match="impersonating the system:masters group is not allowed"):
        impersonate(headers, JANE, authorizer, lambda: LIST_PODS)


def test_constrained_speakers_name_extras_by_domain():
    authorizer = may(speak("user-info", "users"), speak("user-info", "userextras/scopes"), on("user-info"))
    headers = {**as_user("joe"), b"impersonate-extra-scopes": b"a"}
    with pytest.raises(Forbidden, match="impersonating an invalid key in extra is not allowed"):
        impersonate(headers, JANE, authorizer, lambda: LIST_PODS)


def test_the_old_verb_still_opens_every_door():
    assert impersonate(as_user("joe"), JANE, speaker("users"), lambda: LIST_PODS).name == "joe"
