"""An unmodified kubectl, old and current, against `weir apiserver`: the commands people use every day."""

from __future__ import annotations

import json

import pytest

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers: [{name: c, image: "nginx:1.27", resources: {requests: {cpu: 100m}}}]
  affinity:
    nodeAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 1, preference: {matchExpressions: [{key: kernel, operator: SemverLt, values: [7.0.0]}]}}
  tolerations:
  - {key: sla, operator: Gt, value: "900", effect: NoExecute}
  - {key: kernel, operator: SemverGt, value: "5.15.0"}
  - expression: "taint.key.startsWith('env.example.com/')"
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: c, image: "nginx:1.27"}]}
"""
NODE = """\
apiVersion: v1
kind: Node
metadata: {name: NAME, labels: {zone: a}}
status:
  capacity: {cpu: "4", memory: 8Gi, pods: "110"}
  conditions: [{type: Ready, status: "True", reason: KubeletReady}]
"""


@pytest.fixture
def pod(kubectl, namespace):
    kubectl("apply", "-n", namespace, "-f", "-", stdin=POD)
    return namespace


@pytest.fixture
def node(kubectl, request):
    name = f"n-{abs(hash(request.node.nodeid)) % 10**8}"
    kubectl("create", "-f", "-", stdin=NODE.replace("NAME", name))
    yield name
    kubectl("delete", "node", name)


def field(kubectl, namespace, path, kind="pod", name="web"):
    return kubectl("get", kind, name, "-n", namespace, "-o", f"jsonpath={path}")


class TestReading:
    def test_get_prints_the_table(self, kubectl, pod):
        header, row = kubectl("get", "pods", "-n", pod).splitlines()
        assert header.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
        assert row.split()[:4] == ["web", "0/1", "Pending", "0"]

    def test_wide_shows_more_columns(self, kubectl, pod):
        assert "NOMINATED NODE" in kubectl("get", "pods", "-n", pod, "-o", "wide").splitlines()[0]

    def test_yaml_shows_the_new_operators_in_their_real_fields(self, kubectl, pod):
        text = kubectl("get", "pod", "web", "-n", pod, "-o", "yaml")
        assert "operator: SemverGt" in text and "expression: taint.key.startsWith" in text

    def test_jsonpath_reads_a_field(self, kubectl, pod):
        assert field(kubectl, pod, "{.spec.tolerations[0].operator}") == "Gt"

    @pytest.mark.parametrize(
        "path, found",
        [
            pytest.param(
                """{.spec.tolerations[?(@.operator=="Gt")].value}""",
                "900",
                marks=pytest.mark.proves("5471-110"),
            ),
            pytest.param(
                """{.spec.tolerations[?(@.operator=="SemverGt")].value}""",
                "5.15.0",
                marks=pytest.mark.proves("5721-120"),
            ),
            pytest.param(
                """{.spec.affinity..matchExpressions[?(@.operator=="SemverLt")].values}""",
                '["7.0.0"]',
                marks=pytest.mark.proves("5721-120"),
            ),
            pytest.param(
                "{.spec.tolerations[?(@.expression)].expression}",
                "taint.key.startsWith('env.example.com/')",
                marks=pytest.mark.proves("5500-100"),
            ),
        ],
        ids=["numeric", "by version", "affinity by version", "expression"],
    )
    def test_a_jsonpath_filter_finds_who_uses_the_features(self, kubectl, pod, path, found):
        assert field(kubectl, pod, path) == found

    def test_describe_shows_image_and_tolerations_of_a_pod(self, kubectl, pod):
        text = kubectl("describe", "pod", "web", "-n", pod)
        assert "Image:" in text and "Tolerations:" in text

    def test_describe_shows_what_a_node_can_give(self, kubectl, node):
        text = kubectl("describe", "node", node)
        assert "Allocatable:" in text and "cpu:" in text

    def test_labels_and_fields_select(self, kubectl, pod):
        assert "web" in kubectl("get", "pods", "-n", pod, "-l", "app=web")
        assert "No resources found" in kubectl(
            "get", "pods", "-n", pod, "--field-selector", "status.phase=Running"
        )

    def test_watch_shows_a_change(self, kubectl, pod):
        watching = kubectl.start(
            "get", "pod", "web", "-n", pod, "-w", "-o", "jsonpath={.metadata.labels.seen}{'\\n'}"
        )
        try:
            before = watching.stdout.readline()  # what is there comes first, changes since then after it
            kubectl("label", "pod", "web", "-n", pod, "seen=yes")
            assert (before, watching.stdout.readline()) == ("\n", "yes\n")
        finally:
            watching.kill()
            watching.wait()

    def test_explain_knows_the_fields(self, kubectl):
        assert "operator" in kubectl("explain", "pod.spec.tolerations")

    def test_api_resources_and_versions_are_listed(self, kubectl):
        assert "deployments" in kubectl("api-resources", "--api-group=apps")
        assert "apps/v1" in kubectl("api-versions")

    def test_can_i_answers_for_me_and_for_others(self, kubectl):
        assert "yes" in kubectl("auth", "can-i", "create", "pods")
        assert "no" in kubectl("auth", "can-i", "create", "pods", "--as", "nobody", fails=True)


class TestWriting:
    def test_apply_is_idempotent_and_says_so(self, kubectl, namespace):
        kubectl("apply", "-n", namespace, "-f", "-", stdin=DEPLOYMENT)
        assert "unchanged" in kubectl("apply", "-n", namespace, "-f", "-", stdin=DEPLOYMENT)

    def test_labels_and_annotations_are_set(self, kubectl, pod):
        kubectl("label", "pod", "web", "-n", pod, "tier=gold")
        kubectl("annotate", "pod", "web", "-n", pod, "note=hello world")
        assert (
            field(kubectl, pod, "{.metadata.labels.tier} {.metadata.annotations.note}") == "gold hello world"
        )

    @pytest.mark.parametrize(
        "kind, body",
        [
            ("strategic", '{"metadata":{"labels":{"k":"strategic"}}}'),
            ("merge", '{"metadata":{"labels":{"k":"merge"}}}'),
            ("json", '[{"op":"add","path":"/metadata/labels/k","value":"json"}]'),
        ],
    )
    def test_every_kind_of_patch_is_applied(self, kubectl, pod, kind, body):
        kubectl("patch", "pod", "web", "-n", pod, "--type", kind, "-p", body)
        assert field(kubectl, pod, "{.metadata.labels.k}") == kind

    def test_edit_writes_what_the_editor_left(self, kubectl, pod, tmp_path):
        editor = tmp_path / "editor.sh"
        editor.write_text("#!/bin/sh\nsed -i 's/app: web/app: edited/' \"$1\"\n")
        editor.chmod(0o755)
        kubectl("edit", "pod", "web", "-n", pod, editor=str(editor))
        assert field(kubectl, pod, "{.metadata.labels.app}") == "edited"

    def test_diff_shows_what_apply_would_change(self, kubectl, pod):
        changed = POD.replace("app: web", "app: other")
        assert "other" in kubectl("diff", "-n", pod, "-f", "-", stdin=changed, fails=True)

    def test_server_side_apply_finds_conflicts(self, kubectl, namespace):
        config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: VALUE}\n"
        kubectl(
            "apply",
            "--server-side",
            "--field-manager=one",
            "-n",
            namespace,
            "-f",
            "-",
            stdin=config.replace("VALUE", "first"),
        )
        said = kubectl(
            "apply", "--server-side", "--field-manager=two", "-n", namespace, "-f", "-",
            stdin=config.replace("VALUE", "second"), fails=True,
        )  # fmt: skip
        assert 'conflict with "one"' in said and ".data.a" in said
        kubectl(
            "apply", "--server-side", "--force-conflicts", "--field-manager=two", "-n", namespace, "-f", "-",
            stdin=config.replace("VALUE", "second"),
        )  # fmt: skip
        assert field(kubectl, namespace, "{.data.a}", "configmap", "c") == "second"

    def test_scale_changes_the_replicas(self, kubectl, namespace):
        kubectl("apply", "-n", namespace, "-f", "-", stdin=DEPLOYMENT)
        kubectl("scale", "deployment", "shop", "-n", namespace, "--replicas=5")
        assert field(kubectl, namespace, "{.spec.replicas}", "deployment", "shop") == "5"

    def test_rollout_status_waits_for_the_controller(self, kubectl, namespace):
        kubectl("apply", "-n", namespace, "-f", "-", stdin=DEPLOYMENT)
        status = {
            "observedGeneration": 1,
            "replicas": 2,
            "updatedReplicas": 2,
            "readyReplicas": 2,
            "availableReplicas": 2,
        }
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/shop"
        whole = json.loads(kubectl("get", "--raw", path))
        whole["status"] = status
        kubectl("replace", "--raw", f"{path}/status", "-f", "-", stdin=json.dumps(whole))
        assert "successfully rolled out" in kubectl(
            "rollout", "status", "deployment/shop", "-n", namespace, "--timeout=60s"
        )

    def test_wait_sees_a_condition_come_true(self, kubectl, pod):
        path = f"/api/v1/namespaces/{pod}/pods/web"
        whole = json.loads(kubectl("get", "--raw", path))
        whole["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        kubectl("replace", "--raw", f"{path}/status", "-f", "-", stdin=json.dumps(whole))
        assert "condition met" in kubectl(
            "wait", "--for=condition=Ready", "pod/web", "-n", pod, "--timeout=60s"
        )

    def test_delete_waits_until_it_is_gone(self, kubectl, pod):
        kubectl("delete", "pod", "web", "-n", pod, "--timeout=60s")
        assert "NotFound" in kubectl("get", "pod", "web", "-n", pod, fails=True)


class TestNodes:
    @pytest.mark.proves("5471-110")
    def test_a_numeric_taint_is_set_and_taken_away(self, kubectl, node):
        assert "tainted" in kubectl("taint", "nodes", node, "sla=950:NoExecute")
        path = '{.spec.taints[?(@.key=="sla")].value}'
        assert kubectl("get", "node", node, "-o", f"jsonpath={path}") == "950"
        assert "untainted" in kubectl("taint", "nodes", node, "sla=950:NoExecute-")

    def test_an_empty_node_is_cordoned_and_drained(self, kubectl, node):
        kubectl("cordon", node)
        assert "SchedulingDisabled" in kubectl("get", "node", node)
        kubectl("uncordon", node)
        kubectl("drain", node, "--ignore-daemonsets", "--force", "--timeout=60s")
        assert "SchedulingDisabled" in kubectl("get", "node", node)


class TestRefusals:
    """What the API server refuses reads in kubectl as it always did."""

    @pytest.mark.parametrize(
        "entry, words",
        [
            ('{key: sla, operator: Gt, value: "0950"}', "must be a valid decimal integer in canonical form"),
            ("{key: k, operator: SemverGt, value: v1.2.x}", 'Invalid character(s) found in patch number "x"'),
            ("{expression: \"taint.key.startsWith(\"}", "compilation failed: ERROR: <input>:1:"),
            ("{expression: \"true\", key: a}", "expression cannot be used with key, value, operator, or effect fields"),
        ],
    )  # fmt: skip
    def test_a_bad_toleration_is_refused_in_the_servers_words(self, kubectl, namespace, entry, words):
        manifest = (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\n"
            f"spec: {{containers: [{{name: c, image: i}}], tolerations: [{entry}]}}\n"
        )
        said = kubectl("create", "--validate=false", "-n", namespace, "-f", "-", stdin=manifest, fails=True)
        assert 'The Pod "bad" is invalid' in said and words in said
