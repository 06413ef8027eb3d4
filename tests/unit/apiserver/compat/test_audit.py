"""Claims about the audit policy, its events, and the rotation of the log."""

import json
import stat
from datetime import UTC, datetime, timedelta

import pytest

from weir.apiserver.auth.authn import User, proven
from weir.apiserver.compat import audit
from weir.apiserver.compat.audit import Audit, AuditLog, Level, LogRetention, PolicyError, parse_policy
from weir.apiserver.transport.http import Request
from weir.apiserver.transport.paths import parse

# ── claims about weir.apiserver.compat.audit: the policy decides how much, and a line tells who did what ──


T0 = datetime(2026, 6, 1, tzinfo=UTC)
JANE = proven("jane", ["dev"])
CREATE = parse("POST", "/api/v1/namespaces/ns/pods")


def events(rules, info=CREATE, user=JANE, **rest):
    lines = []
    Audit(lines.append, parse_policy(rules)).record(
        user, info, 201, uri="/api/v1/namespaces/ns/pods?dryRun=All", received=T0, finished=T0, **rest
    )
    return [json.loads(line) for line in lines]


BODIES = {"request_object": b'{"a":1}', "response_object": b'{"b":2}'}


def test_a_line_tells_who_did_what_and_what_came_of_it():
    (event,) = events("rules: [{level: Metadata}]", source="127.0.0.1", user_agent="kubectl", audit_id="x")
    assert event == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": "x",
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/namespaces/ns/pods?dryRun=All",
        "verb": "create",
        "user": {"username": "jane", "groups": ["dev", "system:authenticated"]},
        "sourceIPs": ["127.0.0.1"],
        "userAgent": "kubectl",
        "objectRef": {"resource": "pods", "namespace": "ns", "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": 201},
        "requestReceivedTimestamp": "2026-06-01T00:00:00.000000Z",
        "stageTimestamp": "2026-06-01T00:00:00.000000Z",
    }


@pytest.mark.parametrize(
    ("level", "written"),
    [
        ("None", None),
        ("Metadata", set()),
        ("Request", {"requestObject"}),
        ("RequestResponse", {"requestObject", "responseObject"}),
    ],
)
def test_the_level_says_which_objects_are_written(level, written):
    found = events(f"rules: [{{level: {level}}}]", **BODIES)
    assert (found[0].keys() & {"requestObject", "responseObject"} if found else None) == written


def test_the_first_rule_that_matches_decides():
    rules = "rules: [{level: None, users: [jane]}, {level: Request}]"
    assert events(rules) == [] and len(events(rules, user=User("joe"))) == 1


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        ("verbs: [create]", True),
        ("verbs: [get]", False),
        ("userGroups: [dev]", True),
        ("userGroups: [ops]", False),
        ("namespaces: [ns]", True),
        ("namespaces: [other]", False),
        ('resources: [{group: "", resources: [pods]}]', True),
        ('resources: [{group: "", resources: [secrets]}]', False),
        ("resources: [{group: apps}]", False),
        ('resources: [{group: ""}]', True),
        ("nonResourceURLs: [/healthz*]", False),
    ],
)
def test_what_a_rule_matches(rule, matches):
    assert bool(events(f"rules: [{{level: Metadata, {rule}}}]")) is matches


def test_paths_match_by_their_beginning():
    rules = "rules: [{level: Metadata, nonResourceURLs: ['/healthz*']}]"
    assert len(events(rules, parse("GET", "/healthz/ping"))) == 1


@pytest.mark.parametrize(
    ("pattern", "matches"), [("pods", False), ("pods/log", True), ("pods/*", True), ("*/log", True)]
)
def test_a_subresource_is_named_by_itself(pattern, matches):
    rules = f'rules: [{{level: Metadata, resources: [{{group: "", resources: ["{pattern}"]}}]}}]'
    assert bool(events(rules, parse("GET", "/api/v1/namespaces/ns/pods/p/log"))) is matches


def test_a_body_that_is_no_json_is_written_as_text():
    (event,) = events("rules: [{level: Request}]", request_object=b"kind: Pod\n")
    assert event["requestObject"] == "kind: Pod\n"


def test_without_a_policy_everything_is_written_at_metadata():
    assert Audit(lambda line: None).level(JANE, CREATE) is Level.METADATA


@pytest.mark.parametrize("text", ["", "rules: 7", "rules: [{level: Loud}]", "rules: [{}]", "a: [b"])
def test_a_policy_that_cannot_be_read_is_told_in_one_line(text):
    with pytest.raises(PolicyError, match="audit policy: needs a list"):
        parse_policy(text)


def test_a_request_is_logged_with_the_time_it_came():
    lines = []
    request = Request("GET", "/api/v1/pods", "limit=1", {b"user-agent": b"kubectl"}, peer="10.0.0.9:4711")
    audit = Audit(lines.append, now=lambda: T0, timer=lambda: 12.5)
    audit.log(request, None, parse("GET", "/api/v1/pods"), 401, 10.0)
    event = json.loads(lines[0])
    assert (event["requestURI"], event["sourceIPs"], event["userAgent"], event["user"]) == (
        "/api/v1/pods?limit=1",
        ["10.0.0.9"],
        "kubectl",
        {"username": ""},
    )
    assert event["requestReceivedTimestamp"] == "2026-05-31T23:59:57.500000Z"


@pytest.mark.parametrize(
    ("policy", "stage", "written"),
    [
        ("rules: [{level: Metadata}]", "RequestReceived", True),
        ("omitStages: [RequestReceived]\nrules: [{level: Metadata}]", "RequestReceived", False),
        ("omitStages: [RequestReceived]\nrules: [{level: Metadata}]", "ResponseComplete", True),
        ("rules: [{level: Metadata, omitStages: [ResponseComplete]}]", "ResponseComplete", False),
        ("rules: [{level: Metadata, omitStages: [ResponseComplete]}]", "RequestReceived", True),
        (
            "omitStages: [ResponseStarted]\nrules: [{level: Request, omitStages: [Panic]}]",
            "ResponseStarted",
            False,
        ),
    ],
)
def test_a_policy_and_its_rules_leave_out_stages(policy, stage, written):
    found = events(policy, stage=stage)
    assert [event["stage"] for event in found] == ([stage] if written else [])


def test_the_first_stage_has_no_status():
    (event,) = events("rules: [{level: Metadata}]", stage="RequestReceived")
    assert "responseStatus" not in event and event["objectRef"]["resource"] == "pods"


@pytest.mark.parametrize(
    "policy", ["omitStages: [Nothing]\nrules: []", "rules: [{level: None, omitStages: [Nothing]}]"]
)
def test_a_stage_that_does_not_exist_is_refused(policy):
    with pytest.raises(
        PolicyError, match=r'omitStages\[0\]: Invalid value: "Nothing": allowed stages are RequestRec'
    ):
        parse_policy(policy)


# ── audit logs begin anew when they are full, and old ones go ──


STARTED_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Clock:
    def __init__(self):
        self.time = STARTED_AT

    def __call__(self):
        return self.time


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(audit, "MEGABYTE", 10)


def written(folder, keep, lines, clock=None, step=timedelta(seconds=1)):
    """Write lines of nine bytes, and return the files there are then, by name."""
    clock = clock or Clock()
    audit = AuditLog(folder / "audit.log", keep, clock)
    for number in range(lines):
        audit(f"line {number:3d}\n".encode())
        clock.time += step
    audit.close()
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def test_a_full_file_is_set_aside_under_the_time(tmp_path, small):
    assert written(tmp_path, LogRetention(megabytes=1), 2) == {
        "audit-2026-01-02T03-04-06.000.log": "line   0\n",
        "audit.log": "line   1\n",
    }


def test_only_so_many_are_kept(tmp_path, small):
    assert len(written(tmp_path, LogRetention(megabytes=1, backups=2), 6)) == 3


def test_none_is_kept_longer_than_asked(tmp_path, small):
    files = written(tmp_path, LogRetention(megabytes=1, days=2), 6, step=timedelta(days=1))
    assert sorted(files) == [
        *("audit-2026-01-05T03-04-05.000.log", "audit-2026-01-06T03-04-05.000.log"),
        *("audit-2026-01-07T03-04-05.000.log", "audit.log"),
    ]


def test_two_in_one_moment_get_two_names(tmp_path, small):
    assert len(written(tmp_path, LogRetention(megabytes=1), 4, step=timedelta(0))) == 4


def test_a_line_longer_than_the_size_is_still_written(tmp_path, small):
    audit = AuditLog(tmp_path / "audit.log", LogRetention(megabytes=1), Clock())
    audit(b"x" * 50)
    audit.close()
    assert (tmp_path / "audit.log").read_bytes() == b"x" * 50


def test_only_the_owner_may_read_it(tmp_path):
    AuditLog(tmp_path / "audit.log", LogRetention(), Clock()).close()
    assert stat.S_IMODE((tmp_path / "audit.log").stat().st_mode) == 0o600


def test_other_files_of_the_folder_stay(tmp_path, small):
    (tmp_path / "audit-notes.log").write_text("mine")
    assert "audit-notes.log" in written(tmp_path, LogRetention(megabytes=1, backups=1, days=1), 4)
