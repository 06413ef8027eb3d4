"""A scheduler configuration is read whole or refused with one line that names the place."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from weir.cli.scheduler import scheduler as command
from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.objects.manifest import ManifestError
from weir.scheduler.config import ConfigError, read_config
from weir.scheduler.cycle import Engine

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def config(**fields):
    return read_config(yaml.safe_dump({**HEAD, **fields}), "scheduler.yaml")


def profile(**fields):
    return config(profiles=[fields]).profiles[0]


def test_an_empty_configuration_is_the_default():
    assert (config().leader_elect, config().profiles[0].name) == (True, "default-scheduler")


def test_leader_election_and_backoff_are_read():
    found = config(
        leaderElection={"leaderElect": False, "leaseDuration": "30s", "resourceName": "mine"},
        podInitialBackoffSeconds=2,
        podMaxBackoffSeconds=20,
        parallelism=4,
    )
    read_back = (found.leader_elect, found.lease_seconds, found.lease_name, found.max_backoff_seconds)
    assert (*read_back, found.parallelism) == (False, 30.0, "mine", 20.0, 4)


def test_profiles_differ_in_plugins_and_weights():
    found = config(
        profiles=[
            {"schedulerName": "plain"},
            {
                "schedulerName": "packing",
                "plugins": {
                    "score": {
                        "disabled": [{"name": "ImageLocality"}],
                        "enabled": [{"name": "NodeAffinity", "weight": 9}],
                    }
                },
                "pluginConfig": [
                    {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
                ],
            },
        ]
    )
    plain, packing = found.profiles
    assert (plain.fit.strategy, packing.fit.strategy, packing.weights["NodeAffinity"]) == (
        "LeastAllocated", "MostAllocated", 9,
    )  # fmt: skip


def two_nodes(arguments):
    engine = Engine(ALL_FEATURES, arguments)
    for name, taints in (("tainted", [{"key": "a", "effect": "NoSchedule"}]), ("plain", [])):
        document = {"metadata": {"name": name, "labels": {"name": name}}, "spec": {"taints": taints},
                    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}}}  # fmt: skip
        engine.table.put_node(read(Node, document))
    return engine


def test_waits_and_samples_can_be_tuned():
    preemption = {"name": "DefaultPreemption", "args": {"minCandidateNodesAbsolute": 5}}
    binding = {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 30}}
    found = profile(pluginConfig=[preemption, binding])
    assert (found.least_candidates, found.bind_timeout_seconds) == (5, 30.0)


def test_a_filter_that_is_switched_off_refuses_nobody():
    arguments = profile(plugins={"multiPoint": {"disabled": [{"name": "TaintToleration"}]}})
    assert two_nodes(arguments).statuses(read(Pod, {"metadata": {"name": "p"}})) == {}


def test_added_affinity_holds_for_every_pod():
    term = {"matchExpressions": [{"key": "name", "operator": "In", "values": ["tainted"]}]}
    added = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    arguments = profile(pluginConfig=[{"name": "NodeAffinity", "args": {"addedAffinity": added}}])
    statuses = two_nodes(arguments).statuses(read(Pod, {"metadata": {"name": "p"}}))
    assert statuses["plain"].reasons == ("node(s) didn't match scheduler-enforced node affinity",)


def test_packing_prefers_the_fuller_node():
    packing = {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
    arguments = profile(pluginConfig=[packing], plugins={"score": {"disabled": [{"name": "*"}], "enabled": [
        {"name": "NodeResourcesFit"}]}})  # fmt: skip
    engine = Engine(ALL_FEATURES, arguments)
    for name in ("empty", "fuller"):
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "9"}
        engine.table.put_node(read(Node, {"metadata": {"name": name}, "status": {"allocatable": amounts}}))
    asking = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}
    pod = read(Pod, {"metadata": {"name": "p", "namespace": "x"}, "spec": asking})
    engine.assume("x/there", pod, "fuller")
    assert engine.place(pod).node == "fuller"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kind": "Pod"}, "write apiVersion"),
        ({"colour": "red"}, "colour: unknown"),
        ({"profiles": {"a": 1}}, "profiles: a list is expected"),
        ({"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]}, "two profiles are called 'a'"),
        ({"profiles": [{"plugins": {"filter": {"disabled": [{"name": "Nope"}]}}}]}, "unknown plugin 'Nope'"),
        ({"profiles": [{"plugins": {"nowhere": {}}}]}, "profiles[0].plugins.nowhere: unknown"),
        ({"profiles": [{"pluginConfig": [{"name": "Nope"}]}]}, "no arguments are known for 'Nope'"),
        ({"profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "X"}}}]}]},
         "scoringStrategy.type"),
        ({"percentageOfNodesToScore": 101}, "percentageOfNodesToScore: 101"),
        ({"podInitialBackoffSeconds": 9, "podMaxBackoffSeconds": 3}, "podMaxBackoffSeconds"),
        ({"leaderElection": {"leaseDuration": "soon"}}, "'soon' is not a duration"),
        ({"parallelism": 0}, "parallelism"),
        ({"parallelism": True}, "parallelism"),
        ({"profiles": [7]}, "profiles[0]: a mapping is expected"),
        ({"profiles": [{"plugins": {"score": {"enabled": [{"name": "NodeAffinity", "weight": -1}]}}}]}, "weight"),
        ({"profiles": [{"pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultConstraints": [{}]}}]}]},
         "needs defaultingType: List"),
        ({"profiles": [{"pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 101}}]}]},
         "hardPodAffinityWeight"),
        ({"profiles": [{"pluginConfig": [{"name": "DynamicResources", "args": {"filterTimeout": "soon"}}]}]},
         "filterTimeout"),
        ({"profiles": [{"pluginConfig": [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": "x"}}]}]},
         "bindTimeoutSeconds"),
        ({"profiles": [{"pluginConfig": [{"name": "DefaultPreemption", "args": {"minCandidates": 1}}]}]},
         "minCandidates: unknown"),
        ({"profiles": [{"pluginConfig": 3}]}, "profiles[0].pluginConfig"),
        ({"profiles": [{"plugins": {"score": {"enabled": 3}}}]}, "enabled"),
        ({"profiles": [{"plugins": 3}]}, "plugins"),
        ({"leaderElection": 3}, "leaderElection"),
    ],
)  # fmt: skip
def test_a_bad_configuration_is_one_line_naming_the_place(fields, said):
    with pytest.raises(ConfigError) as problem:
        config(**fields)
    line = str(problem.value)
    assert (line.startswith("scheduler.yaml: "), said in line, "\n" in line) == (True, True, False)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 200) | st.sampled_from(["x", "1s", "NodeAffinity", "*"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["name", "args", "plugins", "score", "enabled", "disabled", "weight", "filter", "resources",
                         "scoringStrategy", "requestedToCapacityRatio", "shape", "type", "schedulerName",
                         "pluginConfig", "addedAffinity", "defaultConstraints", "defaultingType"]),
        inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
fields = st.dictionaries(
    st.sampled_from(
        ["profiles", "leaderElection", "parallelism", "percentageOfNodesToScore", "podMaxBackoffSeconds"]
    ),
    values,
    max_size=3,
)


@given(fields)
def test_whatever_is_written_is_read_or_refused_and_never_breaks(written):
    try:
        config(**written)
    except (ConfigError, ManifestError) as problem:
        assert "\n" not in str(problem)


def test_the_command_says_what_is_wrong_without_a_traceback(tmp_path: Path):
    file = tmp_path / "bad.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\n")
    result = CliRunner().invoke(command, ["--config", str(file)])
    assert (
        result.exit_code,
        "Traceback" in result.output,
        "KubeSchedulerConfiguration" in result.output,
    ) == (
        2,
        False,
        True,
    )


def test_the_limits_of_device_claims_are_arguments():
    limits = {"name": "DynamicResources", "args": {"filterTimeout": "2s", "bindingTimeout": "1m"}}
    found = profile(pluginConfig=[limits])
    assert (found.claim_filter_seconds, found.claim_binding_seconds) == (2.0, 60.0)
