"""An answer is about the change alone: what goes on without it is told apart."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import yaml

from tests.unit.whatif.test_eviction_loops import tolerant, workload
from tests.unit.whatif.test_run import NOW, node, pod, taint
from weir.gates import ALL_FEATURES
from weir.taints.notation import parse_taint
from weir.whatif import horizon, words
from weir.whatif.changes import Cordon, Nodes, Taint, TaintEdit
from weir.whatif.run import WhatIfOptions, what_if

EXAMPLES = Path(__file__).parents[3] / "examples"
HOT = {"key": "hot", "effect": "NoExecute"}


def looping_cluster(replicas: int = 1) -> list[dict]:
    """A node whose taint drives every pod of `web` out again after five seconds, and one beside it."""
    hot = node("hot", pool="hot")
    hot["spec"] = {"taints": [HOT]}
    patient = workload("ReplicaSet", "patient", tolerations=tolerant(1000), nodeSelector={"pool": "calm"})
    web = workload("ReplicaSet", replicas=replicas, tolerations=tolerant(5), nodeSelector={"pool": "hot"})
    calm = node("calm")
    for each, pool in ((hot, "hot"), (calm, "calm")):
        each["metadata"]["labels"] = {**(each["metadata"].get("labels") or {}), "pool": pool}
    return [hot, calm, web, patient]


def test_a_loop_that_is_there_already_is_no_effect_of_the_change():
    found = what_if(looping_cluster(), [Cordon(Nodes(("calm",)))], WhatIfOptions(ALL_FEATURES, NOW, 600.0))
    assert (found.circles, found.workloads, found.leaving, found.bad) == ((), (), (), False)
    assert found.baseline is not None
    assert [each.workload for each in found.baseline.circles] == ["default/ReplicaSet/web"]
    assert "1 workload is evicted and rescheduled in a loop already" in words.goes_on_anyway(found)


def test_loops_do_not_use_up_the_looking_ahead(monkeypatch):
    monkeypatch.setattr(horizon, "LOOPING_WRITES", 200)
    monkeypatch.setattr(horizon, "MOST_WRITES", 1_000)
    change = taint("calm", "hot:NoExecute")
    found = what_if(looping_cluster(replicas=5), [change], WhatIfOptions(ALL_FEATURES, NOW, 1500.0))
    assert not found.ended_early
    assert [(one.workload, one.after) for one in found.leaving] == [
        ("default/ReplicaSet/patient", timedelta(seconds=1000))
    ]


def test_pods_that_leave_beyond_the_horizon_are_not_said_to_stay():
    question = WhatIfOptions(ALL_FEATURES, NOW, 600.0)
    found = what_if(looping_cluster(), [taint("calm", "hot:NoExecute")], question)
    assert [at for _, at in found.later] == [timedelta(seconds=1000)]
    assert (found.leaving, found.staying) == ((), 1)
    assert words.headline(found) == (
        "1 pod is evicted later after 16 min 40 s; 1 pod on the changed nodes stays until then."
    )
    assert words.looked(found).endswith("1 pod is evicted after that (--until looks further).")
    again = what_if(looping_cluster(), [taint("calm", "hot:NoExecute"), Cordon(Nodes(("hot",)))], question)
    assert again.later == found.later


def test_pods_that_leave_beyond_the_horizon_anyway_are_no_effect_of_the_change():
    documents = looping_cluster()
    documents[1]["spec"] = {"taints": [HOT]}
    found = what_if(documents, [Cordon(Nodes(("calm",)))], WhatIfOptions(ALL_FEATURES, NOW, 600.0))
    assert found.baseline is not None
    assert (found.later, len(found.baseline.later)) == ((), 1)
    assert words.headline(found) == "No pod is evicted; 1 pod on the changed nodes stays."


def test_an_answer_that_ends_early_says_so_first(monkeypatch):
    monkeypatch.setattr(horizon, "MOST_WRITES", 50)
    monkeypatch.setattr(horizon, "MOST_WRITES_A_POD", 0)
    change = taint("calm", "hot:NoExecute")
    found = what_if(looping_cluster(replicas=5), [change], WhatIfOptions(ALL_FEATURES, NOW, 1500.0))
    assert found.ended_early
    assert words.headline(found).startswith("Cannot say beyond ")


def test_rows_and_headline_count_the_same_pods_in_the_order_of_time():
    documents = yaml.safe_load_all((EXAMPLES / "gpu-fleet.yaml").read_text())
    everywhere = Taint(Nodes(), (TaintEdit(parse_taint("sla=950:NoExecute")),))
    found = what_if(documents, [everywhere], WhatIfOptions(ALL_FEATURES, NOW))
    assert sum(each.pods - each.anyway for each in found.workloads) == len(found.leaving) == 14
    assert (
        sum(each.lost - each.lost_anyway for each in found.workloads) == len(found.lost) + found.others_lost
    )
    moments = [each.first for each in found.workloads]
    assert moments == sorted(moments)
    assert words.headline(found).startswith("14 pods are evicted")
    # pods that leave at the same time and fare no worse are the baseline's, if for another value of the taint
    anyway = {"research/Job/finetune", "batch/Job/embeddings"}
    assert not anyway & {each.name for each in found.workloads}
    assert (found.circles, found.anyway) == ((), 6)


def test_what_happens_anyway_is_looked_at_as_far_as_the_change():
    change = taint("calm", "hot:NoExecute")
    found = what_if(looping_cluster(), [change], WhatIfOptions(ALL_FEATURES, NOW, 1500.0))
    assert found.baseline is not None
    assert found.baseline.looked >= found.looked


def test_pods_that_leave_anyway_are_marked_in_the_row_of_their_workload():
    loop = looping_cluster(replicas=2)
    loop[2]["spec"]["template"]["spec"]["nodeSelector"] = {}  # its pods may run on both nodes
    found = what_if(loop, [taint("calm", "hot:NoExecute")], WhatIfOptions(ALL_FEATURES, NOW, 1500.0))
    assert sum(each.pods - each.anyway for each in found.workloads) == len(found.leaving)
    for row in found.workloads:
        assert words.pods_cell(row).endswith("anyway") is bool(row.anyway)


def test_a_pod_made_at_the_horizon_is_not_called_one_without_a_place():
    change = taint("calm", "hot:NoExecute")
    found = what_if(looping_cluster(), [change], WhatIfOptions(ALL_FEATURES, NOW, 2000.0))
    (patient,) = [one for one in found.leaving if one.workload == "default/ReplicaSet/patient"]
    assert (patient.lost, patient.ends_on, patient.why_nowhere) == (False, "calm", "")
    assert patient.again_after is not None


def test_an_eviction_that_is_only_put_off_is_no_effect_of_the_change():
    sick = node("sick", *(f"node.kubernetes.io/not-ready:{effect}" for effect in ("NoSchedule", "NoExecute")))
    well = node("b")
    for each, status in ((sick, "False"), (well, "True")):
        each["status"]["conditions"] = [{"type": "Ready", "status": status}]
    key = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    patient = pod("p", "sick", tolerations=[{**key, "tolerationSeconds": 300}])
    gone = TaintEdit(parse_taint("node.kubernetes.io/not-ready:NoExecute"), removes=True)
    question = WhatIfOptions(ALL_FEATURES, NOW, 600.0)
    found = what_if([sick, well, patient], [Taint(Nodes(("sick",)), (gone,))], question)
    assert found.baseline is not None
    ((before,), (after,)) = found.baseline.leaving, found.leaving_anyway
    assert after.after > before.after + timedelta(seconds=2)  # its taint came back, its time began again
    assert (found.leaving, found.workloads, words.headline(found)) == (
        (),
        (),
        "No pod is evicted; 0 pods on the changed nodes stay.",
    )
    sooner = what_if([sick, well, patient], [taint("sick", "hot:NoExecute")], question)
    assert [one.pod for one in sooner.leaving] == ["default/p"]


def test_a_workload_that_is_in_a_loop_anyway_has_no_loop_of_the_change_in_its_row():
    web = workload("ReplicaSet", replicas=2, tolerations=tolerant(60))
    before = [node("hot", "hot:NoExecute"), node("other", "hot:NoExecute"), web]
    found = what_if(before, [taint("hot", "cold:NoExecute")], WhatIfOptions(ALL_FEATURES, NOW, 600.0))
    (row,) = found.workloads
    assert (found.circles, row.circle, row.loops_anyway) == ((), None, True)
    assert words.workload_row(row)[-1] == "↻ anyway"
