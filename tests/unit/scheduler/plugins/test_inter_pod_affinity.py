"""What other pods want counts in the score, unless the profile says that it does not matter to pods without wishes."""

import pytest

from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.scheduler.cycle import Engine
from weir.scheduler.profile_arguments import ProfileArguments

HOST = "kubernetes.io/hostname"
WEB = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}


def pod(name, app, **affinity):
    return read(Pod, {"metadata": {"name": name, "namespace": "x", "labels": {"app": app}},
                      "spec": {"containers": [{"name": "c"}], "affinity": affinity}})  # fmt: skip


def engine(**arguments):
    made = Engine(ALL_FEATURES, ProfileArguments(**arguments))
    for name in ("n1", "n2"):
        document = {"metadata": {"name": name, "labels": {HOST: name}},
                    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}}}  # fmt: skip
        made.table.put_node(read(Node, document))
    clings = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [WEB]}}
    made.assume("x/clings", pod("clings", "web", **clings), "n2")
    made.assume("x/other", pod("other", "db"), "n1")  # both nodes are equally full
    return made


@pytest.mark.parametrize(("ignore", "difference"), [(False, 200), (True, 0)])
def test_a_pod_without_wishes_is_drawn_to_those_that_want_it_unless_they_are_ignored(ignore, difference):
    scores = engine(ignore_preferred_terms_of_existing_pods=ignore).scores(pod("new", "web"))
    assert scores["n2"] - scores["n1"] == difference


def test_a_pod_with_wishes_of_its_own_hears_those_of_the_others_all_the_same():
    likes = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": WEB}]}
    made = engine(ignore_preferred_terms_of_existing_pods=True, hard_pod_affinity_weight=50)
    scores = made.scores(pod("new", "web", podAffinity=likes))
    assert scores["n2"] - scores["n1"] == 200
