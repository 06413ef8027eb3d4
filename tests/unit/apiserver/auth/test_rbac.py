"""Claims about weir.apiserver.auth.rbac: the compiled policy says what the roles, read one by one, say."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import tries
from weir.apiserver.auth.authn import User
from weir.apiserver.auth.rbac import Action, Compiled, Policy, Rule, aggregated

JANE = User("jane", groups=("dev", "system:authenticated"))


def role(name, *rules, namespace="", **rest):
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **rest.pop("metadata", {})}
    return {"metadata": metadata, "rules": list(rules), **rest}


def binding(name, kind, role_name, *subjects, namespace=""):
    return {
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "roleRef": {"kind": kind, "name": role_name, "apiGroup": "rbac.authorization.k8s.io"},
        "subjects": list(subjects),
    }


def user(name):
    return {"kind": "User", "name": name}


def group(name):
    return {"kind": "Group", "name": name}


READ_PODS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}


def get_pod(namespace="ns", **rest):
    return Action(**{"verb": "get", "resource": "pods", "namespace": namespace, "name": "p", **rest})


# --- one rule ---


@pytest.mark.parametrize(
    ("rule", "action", "allowed"),
    [
        (READ_PODS, get_pod(), True),
        (READ_PODS, get_pod(verb="delete"), False),
        (READ_PODS, get_pod(group="apps"), False),
        (READ_PODS, get_pod(subresource="log"), False),
        ({**READ_PODS, "resources": ["pods/log"]}, get_pod(subresource="log"), True),
        ({**READ_PODS, "resources": ["pods/log"]}, get_pod(), False),
        ({**READ_PODS, "resources": ["*/log"]}, get_pod(subresource="log"), True),
        ({**READ_PODS, "resources": ["*/log"]}, get_pod(), False),
        ({**READ_PODS, "resources": ["*"]}, get_pod(subresource="log"), True),
        ({**READ_PODS, "apiGroups": ["*"]}, get_pod(group="apps"), True),
        ({**READ_PODS, "verbs": ["*"]}, get_pod(verb="fly"), True),
        ({**READ_PODS, "resourceNames": ["p"]}, get_pod(), True),
        ({**READ_PODS, "resourceNames": ["p"]}, get_pod(name="q"), False),
        ({**READ_PODS, "resourceNames": ["p"]}, get_pod(verb="list", name=""), False),
        ({"verbs": ["get"], "nonResourceURLs": ["/healthz"]}, Action("get", path="/healthz"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["/healthz"]}, Action("get", path="/healthz/ping"), False),
        ({"verbs": ["get"], "nonResourceURLs": ["/healthz/*"]}, Action("get", path="/healthz/ping"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["*"]}, Action("get", path="/metrics"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["*"]}, get_pod(), False),
        ({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, Action("get", path="/metrics"), False),
    ],
)
def test_what_a_rule_allows(rule, action, allowed):
    assert Rule.of(rule).allows(action) is allowed


# --- bindings ---


def test_a_role_binding_grants_in_its_namespace_only_even_a_cluster_role():
    policy = Policy.build(
        [role("reader", READ_PODS)],
        [],
        [],
        [binding("b", "ClusterRole", "reader", user("jane"), namespace="ns")],
    )
    assert [bool(policy.authorize(JANE, get_pod(where))) for where in ("ns", "other", "")] == [
        True,
        False,
        False,
    ]


def test_a_cluster_role_binding_grants_everywhere():
    policy = Policy.build(
        [role("reader", READ_PODS)], [], [binding("b", "ClusterRole", "reader", group("dev"))]
    )
    assert policy.authorize(JANE, get_pod("")) and policy.authorize(JANE, get_pod("anywhere"))


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (
            Policy.build([role("r", READ_PODS)], [], [binding("b", "ClusterRole", "r", group("dev"))]),
            'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to Group "dev"',
        ),
        (
            Policy.build(
                [],
                [role("r", READ_PODS, namespace="ns")],
                [],
                [binding("b", "Role", "r", user("jane"), namespace="ns")],
            ),
            'RBAC: allowed by RoleBinding "b/ns" of Role "r" to User "jane"',
        ),
    ],
)
def test_a_permission_names_the_binding_that_gives_it(policy, reason):
    assert policy.authorize(JANE, get_pod()).reason == reason


def test_a_service_account_in_a_role_binding_is_of_the_bindings_namespace():
    robot = {"kind": "ServiceAccount", "name": "robot"}
    policy = Policy.build(
        [role("r", READ_PODS)], [], [], [binding("b", "ClusterRole", "r", robot, namespace="ns")]
    )
    assert policy.authorize(User("system:serviceaccount:ns:robot"), get_pod())
    assert not policy.authorize(User("system:serviceaccount:other:robot"), get_pod())


def test_a_refusal_names_the_role_that_a_binding_refers_to_in_vain():
    policy = Policy.build([], [], [binding("b", "ClusterRole", "ghost", user("jane"))])
    decision = policy.authorize(JANE, get_pod())
    assert (decision.allowed, decision.reason) == (
        False,
        'RBAC: clusterrole.rbac.authorization.k8s.io "ghost" not found',
    )


# --- aggregation ---


def labelled(name, rule, **labels):
    return role(name, rule, metadata={"labels": labels})


def gathers(name, selector, **labels):
    return {
        **role(name, metadata={"labels": labels}),
        "aggregationRule": {"clusterRoleSelectors": [selector]},
    }


def test_an_aggregated_role_has_the_rules_of_what_it_selects_also_through_another():
    secrets = {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}
    roles = [
        labelled("a", READ_PODS, to="view"),
        labelled("b", secrets, to="edit"),
        gathers("view", {"matchLabels": {"to": "view"}}, to="edit"),
        gathers("edit", {"matchLabels": {"to": "edit"}}),
    ]
    assert sorted(map(str, aggregated(roles)["edit"])) == sorted(map(str, [READ_PODS, secrets]))


def test_roles_that_gather_each_other_have_the_same_rules_and_come_to_an_end():
    roles = [
        gathers("a", {"matchLabels": {"x": "1"}}, x="1"),
        gathers("b", {"matchLabels": {"x": "1"}}, x="1"),
        labelled("c", READ_PODS, x="1"),
    ]
    rules = aggregated(roles)
    assert rules["a"] == rules["b"] == (READ_PODS,)


def test_a_selector_that_cannot_be_read_gathers_nothing():
    broken = {"matchExpressions": [{"key": "x", "operator": "Near"}]}
    assert aggregated([gathers("a", broken), labelled("c", READ_PODS, x="1")])["a"] == ()


# --- the policy against an oracle that reads the documents one by one ---

verbs = st.lists(st.sampled_from(["get", "list", "create", "*"]), min_size=1, max_size=2)
groups = st.lists(st.sampled_from(["", "apps", "*"]), min_size=1, max_size=2)
resources = st.lists(st.sampled_from(["pods", "pods/log", "*/log", "*", "secrets"]), min_size=1, max_size=2)
rules = st.one_of(
    st.fixed_dictionaries(
        {"verbs": verbs, "apiGroups": groups, "resources": resources},
        optional={"resourceNames": st.lists(st.sampled_from(["p", "q"]), max_size=2)},
    ),
    st.fixed_dictionaries(
        {"verbs": verbs, "nonResourceURLs": st.lists(st.sampled_from(["/a", "/a/*", "*", "/b"]), min_size=1)}
    ),
)
names = st.sampled_from(["r1", "r2", "r3"])
namespaces = st.sampled_from(["ns", "other"])
subjects = st.lists(
    st.one_of(
        st.builds(user, st.sampled_from(["jane", "joe"])),
        st.builds(group, st.sampled_from(["dev", "ops"])),
        st.builds(
            lambda name, where: {
                "kind": "ServiceAccount",
                "name": name,
                **({"namespace": where} if where else {}),
            },
            st.just("robot"),
            st.sampled_from(["", "ns"]),
        ),
    ),
    max_size=2,
)
worlds = st.tuples(
    st.lists(st.builds(lambda n, r: role(n, *r), names, st.lists(rules, max_size=2)), max_size=3),
    st.lists(
        st.builds(lambda n, w, r: role(n, *r, namespace=w), names, namespaces, st.lists(rules, max_size=2)),
        max_size=3,
    ),
    st.lists(st.builds(lambda n, s: binding("cb", "ClusterRole", n, *s), names, subjects), max_size=3),
    st.lists(
        st.builds(
            lambda k, n, w, s: binding("rb", k, n, *s, namespace=w),
            st.sampled_from(["Role", "ClusterRole"]),
            names,
            namespaces,
            subjects,
        ),
        max_size=3,
    ),
)
actions = st.one_of(
    st.builds(
        Action,
        st.sampled_from(["get", "list", "create"]),
        st.sampled_from(["", "apps"]),
        st.sampled_from(["pods", "secrets"]),
        st.sampled_from(["", "log"]),
        st.sampled_from(["", "ns", "other"]),
        st.sampled_from(["", "p", "z"]),
    ),
    st.builds(
        lambda verb, path: Action(verb, path=path),
        st.just("get"),
        st.sampled_from(["/a", "/a/x", "/b", "/c"]),
    ),
)
users = st.sampled_from(
    [JANE, User("joe", groups=("ops",)), User("system:serviceaccount:ns:robot", groups=("dev", "ops"))]
)


def oracle_rule(rule, action):
    def has(part, value):
        return value in rule.get(part, ()) or "*" in rule.get(part, ())

    if not has("verbs", action.verb):
        return False
    if not action.resource:
        return any(
            url in ("*", action.path) or (url[-1] == "*" and action.path.startswith(url[:-1]))
            for url in rule.get("nonResourceURLs", ())
        )
    wanted = action.resource + (f"/{action.subresource}" if action.subresource else "")
    any_parent = bool(action.subresource) and f"*/{action.subresource}" in rule.get("resources", ())
    named = not rule.get("resourceNames") or action.name in rule["resourceNames"]
    return has("apiGroups", action.group) and (has("resources", wanted) or any_parent) and named


def oracle(world, who, action):
    cluster_roles, roles, cluster_bindings, role_bindings = world
    found = {("ClusterRole", "", r["metadata"]["name"]): r for r in cluster_roles}
    found.update({("Role", r["metadata"]["namespace"], r["metadata"]["name"]): r for r in roles})
    for bound in [*cluster_bindings, *role_bindings]:
        where = bound["metadata"].get("namespace", "")
        if where and where != action.namespace:
            continue
        for subject in bound["subjects"]:
            account = f"system:serviceaccount:{subject.get('namespace') or where}:{subject['name']}"
            meant = {
                "User": subject["name"] == who.name,
                "Group": subject["name"] in who.groups,
                "ServiceAccount": account == who.name,
            }[subject["kind"]]
            kind = bound["roleRef"]["kind"]
            key = (kind, where if kind == "Role" else "", bound["roleRef"]["name"])
            if meant and any(oracle_rule(rule, action) for rule in found.get(key, {}).get("rules", ())):
                return True
    return False


@settings(max_examples=tries(160, 400), deadline=None)
@given(worlds, users, actions)
def test_the_compiled_policy_agrees_with_reading_every_document(world, who, action):
    assert bool(Policy.build(*world).authorize(who, action)) is oracle(world, who, action)


@settings(max_examples=tries(40, 100), deadline=None)
@given(worlds, users, st.lists(actions, min_size=2, max_size=6))
def test_asking_twice_gives_the_same_answer(world, who, asked):
    policy = Policy.build(*world)
    first = [policy.authorize(who, action) for action in asked]
    assert [policy.authorize(who, action) for action in asked] == first


@settings(max_examples=tries(40, 100), deadline=None)
@given(worlds, users, actions)
def test_what_the_listed_rules_allow_is_what_is_allowed(world, who, action):
    policy = Policy.build(*world)
    listed = policy.rules_for(who, action.namespace)
    assert any(Rule.of(rule).allows(action) for rule in listed) is bool(policy.authorize(who, action))


def test_long_questions_and_users_in_many_groups_are_answered_but_not_kept():
    policy = Policy.build([role("r", READ_PODS)], [], [binding("b", "ClusterRole", "r", group("dev"))])
    crowd = User("u", "", (*(f"g{number}" for number in range(1000)), "dev"), {})
    assert policy.authorize(crowd, Action("get", resource="pods", name="x")).allowed
    for number in range(50):
        long = Action("get", resource="pods", name=f"{number}" * 9_000)
        assert policy.authorize(User("v", "", ("dev",), {}), long).allowed
    assert not policy._decided
    assert len(policy._of_user) == 1


def test_after_a_write_only_what_changed_is_read_again():
    compiled, first = Compiled(), binding("b", "ClusterRole", "r", group("dev"))
    Policy.build([role("r", READ_PODS)], [], [first], compiled=compiled)
    kept = compiled.of(first, lambda document: pytest.fail("read again"))
    again = Policy.build(
        [role("r", READ_PODS)], [], [first, binding("c", "ClusterRole", "r")], compiled=compiled
    )
    assert again._bindings[0] is kept


def test_a_question_about_many_groups_looks_at_each_once_not_once_for_every_binding():
    looked = 0

    class Name(str):
        __slots__ = ()

        def __hash__(self) -> int:
            nonlocal looked
            looked += 1
            return super().__hash__()

    some = [binding(f"b{n}", "ClusterRole", "r", group(f"other-{n}"), group(f"g{n}")) for n in range(60)]
    many = binding("many", "ClusterRole", "r", *(group(f"g{n}") for n in range(3000)))
    policy = Policy.build([role("r", READ_PODS)], [], [*some, many])
    crowd = User("u", "", tuple(Name(f"g{n}") for n in range(10_000)), {})
    looked = 0
    decision = policy.authorize(crowd, Action("get", resource="pods", name="x"))
    assert decision.reason == 'RBAC: allowed by ClusterRoleBinding "b0" of ClusterRole "r" to Group "g0"'
    assert looked < 5 * 10_000
