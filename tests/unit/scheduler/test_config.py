"""A scheduler configuration is read whole or refused with one line that names the place."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from weir.cli.main import run
from weir.cli.scheduler import scheduler as command
from weir.gates import ALL_FEATURES
from weir.objects.core import Node, Pod, read
from weir.objects.manifest import ManifestError
from weir.scheduler.config import ConfigError, SchedulerConfig, read_config
from weir.scheduler.cycle import Engine

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def config(**fields):
    return read_config(yaml.safe_dump({**HEAD, **fields}), "scheduler.yaml")


def profile(**fields):
    return config(profiles=[fields]).profiles[0]


def test_an_empty_configuration_is_the_default():
    assert (config().leader_elect, config().profiles[0].name) == (True, "default-scheduler")


def test_rates_are_read_and_upstreams_where_nothing_is_said():
    assert (config().qps, config().burst) == (50.0, 100)
    found = config(clientConnection={"qps": 7.5, "burst": 3})
    assert (found.qps, found.burst) == (7.5, 3)
    assert config(clientConnection={"qps": -1}).qps == 0.0  # no limit
    assert SchedulerConfig().qps == 0.0


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
        ({"leaderElection": {"leaderElect": "yes"}}, "leaderElection.leaderElect: 'yes': write true or false"),
        ({"leaderElection": {"leaseDuration": "5s"}}, "leaderElection.leaseDuration: must be longer"),
        ({"leaderElection": {"retryPeriod": "9s"}}, "leaderElection.renewDeadline: must be longer than 1.2 times"),
        ({"leaderElection": {"resourceLock": "endpoints"}}, "leaderElection.resourceLock: 'endpoints': write leases"),
        ({"leaderElection": {"resourceName": ""}}, "leaderElection.resourceName"),
        ({"podInitialBackoffSeconds": 0}, "podInitialBackoffSeconds: 0 is not a whole number from 1"),
        ({"extenders": []}, "extenders: unknown"),
        ({"clientConnection": {"server": "x"}}, "clientConnection.server: unknown"),
        ({"clientConnection": {"qps": "x"}}, "clientConnection.qps: a number is expected"),
        ({"clientConnection": {"burst": -1}}, "clientConnection.burst"),
        ({"profiles": [{"schedulerName": ""}]}, "profiles[0].schedulerName"),
        ({"profiles": [{"plugins": {"queueSort": {"disabled": [{"name": "*"}]}}}]}, "queueSort: a profile needs one"),
        ({"profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "DefaultBinder"}]}}}]}, "plugins.bind"),
        ({"profiles": [{"plugins": {"filter": {"enabled": [{"name": "ImageLocality"}]}}}]}, "nothing to say at filter"),
        ({"profiles": [{"plugins": {"score": {"enabled": [{"name": "NodeAffinity"}, {"name": "NodeAffinity"}]}}}]},
         "enabled[1]: NodeAffinity is enabled twice"),
    ],
)  # fmt: skip
def test_a_bad_configuration_is_one_line_naming_the_place(fields, said):
    with pytest.raises(ConfigError) as problem:
        config(**fields)
    line = str(problem.value)
    assert (line.startswith("scheduler.yaml: "), said in line, "\n" in line) == (True, True, False)


def arguments(plugin, **args):
    return profile(pluginConfig=[{"name": plugin, "args": args}])


RATIO = {"type": "RequestedToCapacityRatio"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("plugin", "args", "said"),
    [
        ("NodeResourcesFit", {"scoringStrategy": RATIO}, "requestedToCapacityRatio.shape: at least one point"),
        ("NodeResourcesFit", {"scoringStrategy": {**RATIO, "requestedToCapacityRatio": {"shape": [
            {"utilization": 50, "score": 1}, {"utilization": 50, "score": 2}]}}}, "shape[1].utilization: 50 must"),
        ("NodeResourcesFit", {"scoringStrategy": {**RATIO, "requestedToCapacityRatio": {"shape": [
            {"utilization": 0, "score": 11}]}}}, "shape[0].score: 11"),
        ("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated", "requestedToCapacityRatio": {}}},
         "is for type: RequestedToCapacityRatio"),
        ("NodeResourcesFit", {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}}, "weight: 101"),
        ("NodeResourcesFit", {"ignoredResourceGroups": ["example.com/gpu"]}, "write what is before its /"),
        ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu", "weight": 2}]}, "must be 1, not 2"),
        ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu"}, {"name": "cpu"}]}, "named twice"),
        ("InterPodAffinity", {"ignorePreferredTermsOfExistingPods": "no"}, "'no': write true or false"),
        ("PodTopologySpread", {"defaultingType": "Listed"}, "defaultingType: 'Listed': write System or List"),
        ("PodTopologySpread", {"defaultingType": "List", "defaultConstraints": [{"maxSkew": 0, "topologyKey": "z",
          "whenUnsatisfiable": "DoNotSchedule"}]}, "defaultConstraints[0].maxSkew"),
        ("PodTopologySpread", {"defaultingType": "List", "defaultConstraints": [{"maxSkew": 1, "topologyKey": "z",
          "whenUnsatisfiable": "Never"}]}, "defaultConstraints[0].whenUnsatisfiable"),
        ("PodTopologySpread", {"defaultingType": "List", "defaultConstraints": [{"maxSkew": 1, "topologyKey": "z",
          "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]}, "defaultConstraints[0].labelSelector"),
        ("NodeAffinity", {"addedAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}, f"addedAffinity.{REQUIRED}"),
        ("NodeAffinity", {"addedAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "a", "operator": "Near"}]}]}}}, "matchExpressions[0].operator"),
        ("NodeAffinity", {"addedAffinity": []}, "addedAffinity: a mapping is expected"),
        ("VolumeBinding", {"bindTimeoutSeconds": -1}, "bindTimeoutSeconds: -1"),
        ("VolumeBinding", {"shape": [{"utilization": 101, "score": 1}]}, "shape[0].utilization: 101"),
        ("DefaultPreemption", {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0}, "must not be 0"),
        ("DynamicResources", {"bindingTimeout": "10"}, "'10' is not a duration"),
    ],
)  # fmt: skip
def test_bad_arguments_of_a_plugin_are_one_line_naming_the_place(plugin, args, said):
    with pytest.raises(ConfigError) as problem:
        arguments(plugin, **args)
    line = str(problem.value)
    assert (line.startswith("scheduler.yaml: profiles[0].pluginConfig[0].args"), said in line, "\n" in line) == (
        True, True, False,
    ), line  # fmt: skip


def test_the_shape_of_the_storage_score_is_an_argument():
    points = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    assert arguments("VolumeBinding", shape=points).volume_shape == ((0, 0), (100, 10))


def test_durations_are_written_as_go_writes_them():
    election = {"leaseDuration": "1m30s", "renewDeadline": "1m", "retryPeriod": "500ms"}
    found = config(leaderElection=election)
    assert (found.lease_seconds, found.renew_seconds, found.retry_seconds) == (90.0, 60.0, 0.5)


# ── plugins on and off ──


def test_a_plugin_switched_off_in_one_profile_is_on_in_the_others():
    off = {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]},
           "preEnqueue": {"disabled": [{"name": "SchedulingGates"}]}}  # fmt: skip
    plain, mild = config(profiles=[{"schedulerName": "a"}, {"schedulerName": "b", "plugins": off}]).profiles
    assert [(p.preempts, p.honours_gates) for p in (plain, mild)] == [(True, True), (False, False)]


def test_a_plugin_named_anew_without_a_weight_weighs_one():
    again = {
        "score": {"enabled": [{"name": "TaintToleration"}]},
        "multiPoint": {"enabled": [{"name": "NodeAffinity"}]},
    }
    weights = profile(plugins=again).weights
    assert (weights["TaintToleration"], weights["NodeAffinity"], weights["InterPodAffinity"]) == (1, 1, 2)


def test_a_filter_named_at_its_own_point_is_asked_before_the_others():
    order = profile(plugins={"filter": {"enabled": [{"name": "NodeResourcesFit"}]}}).filter_order
    assert order[:3] == ("NodeResourcesFit", "NodeName", "NodeUnschedulable")


def test_only_what_is_enabled_is_asked_when_everything_else_is_off():
    names = ["PrioritySort", "DefaultBinder", "TaintToleration", "NodeName"]
    only = {"multiPoint": {"disabled": [{"name": "*"}], "enabled": [{"name": name} for name in names]}}
    found = profile(plugins=only)
    assert (found.filter_order, found.preempts, found.weights["TaintToleration"]) == (
        ("TaintToleration", "NodeName"), False, 1,
    )  # fmt: skip


def test_the_order_of_filters_decides_which_reason_is_told():
    first = {"filter": {"enabled": [{"name": "NodeResourcesFit"}]}}
    big = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "9"}}}]}
    pod = read(Pod, {"metadata": {"name": "p"}, "spec": big})
    told = [two_nodes(profile(plugins=each)).statuses(pod)["tainted"].plugin for each in ({}, first)]
    assert told == ["TaintToleration", "NodeResourcesFit"]


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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--scheduler-name", ""], "a name is expected"),
        (["--scheduler-name", "mine"], "names its own schedulers: a, b"),
        ([], "cannot read /nowhere/kubeconfig"),  # the file of the configuration is used when none is named
    ],
)
def test_a_command_line_that_does_not_fit_the_configuration_is_refused(tmp_path, capsys, options, said):
    file = tmp_path / "two.yaml"
    profiles = [{"schedulerName": "a"}, {"schedulerName": "b"}]
    connection = {"kubeconfig": "/nowhere/kubeconfig", "qps": 50}
    file.write_text(yaml.safe_dump({**HEAD, "profiles": profiles, "clientConnection": connection}))
    code = run(["scheduler", "--config", str(file), *options])
    told = capsys.readouterr().err
    assert (code, said in told, "Traceback" in told) == (2, True, False), told


def test_the_limits_of_device_claims_are_arguments():
    limits = {"name": "DynamicResources", "args": {"filterTimeout": "2s", "bindingTimeout": "1m"}}
    found = profile(pluginConfig=[limits])
    assert (found.claim_filter_seconds, found.claim_binding_seconds) == (2.0, 60.0)
