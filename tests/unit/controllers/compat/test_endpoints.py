"""What stands behind a Service, in Endpoints and in EndpointSlices."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.controllers.builders import decide, made, of, only, pod
from weir.client.cache import ObjectKey
from weir.controllers.compat.endpoint_slices import EndpointMirror, EndpointSlices
from weir.controllers.compat.endpoints import Endpoints, TriggerTimes
from weir.controllers.runtime.controller import Create, Delete, Patch
from weir.controllers.runtime.listers import Listers
from weir.controllers.runtime.views import Pod
from weir.objects.kinds import PODS

KEY = ObjectKey("default", "web")


def service(**spec):
    given = {
        "selector": {"app": "web"}, "clusterIP": "10.0.0.1", "ports": [{"port": 80, "targetPort": 8080}], **spec
    }  # fmt: skip
    return made("Service", "web", spec=given)


def backend(number, *, ready=True, ports=(), family=4, **more):
    ip = f"10.1.0.{number}" if family == 4 else f"fd00::{number}"
    found = pod(f"p{number}", ready=ready, status={"podIP": ip, "podIPs": [{"ip": ip}]}, **more)
    found["spec"]["containers"][0]["ports"] = list(ports)
    return found


def subsets(*documents):
    (action,) = decide(of(Endpoints), KEY, documents)
    return action.document["subsets"]


def addresses(subset, which="addresses"):
    return [each["ip"] for each in subset.get(which, ())]


def slices(*documents):
    return decide(of(EndpointSlices), KEY, documents)


def test_ready_and_waiting_pods_are_told_apart():
    (subset,) = subsets(service(), backend(1), backend(2, ready=False))
    assert (addresses(subset), addresses(subset, "notReadyAddresses"), subset["ports"]) == (
        ["10.1.0.1"],
        ["10.1.0.2"],
        [{"port": 8080, "protocol": "TCP"}],
    )


def test_publishing_pods_that_are_not_ready_calls_them_ready():
    (subset,) = subsets(service(publishNotReadyAddresses=True), backend(2, ready=False))
    assert addresses(subset) == ["10.1.0.2"]


def test_pods_that_ended_have_no_address_or_are_not_selected_are_left_out():
    others = [backend(1, phase="Failed"), backend(2, labels={"app": "db"}), pod("p3")]
    assert subsets(service(), *others) == []


def test_a_named_port_is_looked_up_in_each_pod():
    named = service(ports=[{"port": 80, "targetPort": "http"}])
    one = backend(1, ports=[{"name": "http", "containerPort": 8080}])
    two = backend(2, ports=[{"name": "http", "containerPort": 9090}])
    found = {each["ports"][0]["port"]: addresses(each) for each in subsets(named, one, two)}
    assert found == {8080: ["10.1.0.1"], 9090: ["10.1.0.2"]}


def test_a_pod_says_its_name_in_the_services_domain():
    named = backend(1)
    named["spec"] |= {"hostname": "web-0", "subdomain": "web"}
    (subset,) = subsets(service(clusterIP="None"), named)
    assert subset["addresses"][0]["hostname"] == "web-0"


def test_endpoints_that_say_what_is_so_are_left_alone():
    (action,) = decide(of(Endpoints), KEY, [service(), backend(1), backend(2)])
    document = dict(action.document)
    document["metadata"] = {**document["metadata"], "uid": "u", "resourceVersion": "7"}
    document["subsets"][0]["addresses"].reverse()
    assert decide(of(Endpoints), KEY, [service(), backend(1), backend(2), document]) == []


def test_more_than_a_thousand_addresses_are_cut_off_and_said_to_be():
    many = [pod(f"p{n}", status={"podIP": f"10.{n // 250}.0.{n % 250 + 1}"}) for n in range(1200)]
    (action,) = decide(of(Endpoints), KEY, [service(), *many])
    mark = action.document["metadata"]["annotations"]["endpoints.kubernetes.io/over-capacity"]
    assert (len(action.document["subsets"][0]["addresses"]), mark) == (1000, "truncated")


def test_without_a_selector_endpoints_are_somebody_elses():
    assert decide(of(Endpoints), KEY, [service(selector=None), backend(1)]) == []


def test_endpoints_go_with_their_service():
    (made_one,) = decide(of(Endpoints), KEY, [service(), backend(1)])
    document = {**made_one.document, "metadata": {**made_one.document["metadata"], "uid": "u"}}
    assert [type(a) for a in decide(of(Endpoints), KEY, [document])] == [Delete]


def kept(action, name, version="1"):
    """Return a slice that was created, as the server keeps it."""
    document = dict(action.document)
    metadata = {**document["metadata"], "name": name, "uid": name, "resourceVersion": version}
    return {**document, "metadata": metadata}


def test_a_slice_tells_of_each_pod_where_it_is_and_how_it_fares():
    going = backend(2, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    (action,) = slices(service(), backend(1), going)
    conditions = [each["conditions"] for each in action.document["endpoints"]]
    assert (action.document["addressType"], action.document["ports"], conditions) == (
        "IPv4",
        [{"name": "", "port": 8080, "protocol": "TCP"}],
        [
            {"ready": True, "serving": True, "terminating": False},
            {"ready": False, "serving": True, "terminating": True},
        ],
    )


def test_nobody_is_one_empty_slice():
    (action,) = slices(service())
    assert (action.document["endpoints"], action.document["ports"]) == ([], [])


def test_a_slice_holds_a_hundred():
    many = [backend(n) for n in range(1, 251)]
    assert [len(a.document["endpoints"]) for a in slices(service(), *many)] == [100, 100, 50]


def test_one_more_pod_changes_one_slice():
    many = [backend(n) for n in range(1, 151)]
    there = [kept(action, f"s{n}") for n, action in enumerate(slices(service(), *many))]
    (action,) = slices(service(), *many, *there, backend(200))
    assert (type(action), action.name, len(action.patch["endpoints"])) == (Patch, "s1", 51)


def test_a_slice_that_empties_goes():
    many = [backend(n) for n in range(1, 151)]
    there = [kept(action, f"s{n}") for n, action in enumerate(slices(service(), *many))]
    held = {each["targetRef"]["name"] for each in there[0]["endpoints"]}
    left = [each for each in many if each["metadata"]["name"] in held]
    assert [type(a) for a in slices(service(), *left, *there)] == [Delete]


def test_each_family_has_slices_of_its_own():
    both = backend(1)
    both["status"]["podIPs"] = [{"ip": "10.1.0.1"}, {"ip": "fd00::1"}]
    found = slices(service(ipFamilies=["IPv4", "IPv6"]), both)
    assert [a.document["addressType"] for a in only(Create, found)] == ["IPv4", "IPv6"]


def test_only_what_a_service_shows_of_a_pod_wakes_it():
    controller = of(Endpoints)
    list(controller.changed(controller.kinds[0], None, service()))
    one = Listers.of([backend(1)]).pod("default", "p1")
    annotated = Listers.of([backend(1, metadata={"annotations": {"a": "b"}})]).pod("default", "p1")
    unready = Listers.of([backend(1, ready=False)]).pod("default", "p1")
    assert (list(controller.changed(PODS, one, annotated)), list(controller.changed(PODS, one, unready))) == (
        [],
        [KEY],
    )


@pytest.mark.parametrize(
    ("wish", "hints"),
    [
        (None, None),
        ("PreferClose", {"forZones": [{"name": "east"}]}),
        ("PreferSameZone", {"forZones": [{"name": "east"}]}),
        ("PreferSameNode", {"forZones": [{"name": "east"}], "forNodes": [{"name": "n0"}]}),
    ],
)
def test_a_service_that_prefers_traffic_nearby_says_for_whom_each_endpoint_is(wish, hints):
    node = made("Node", "n0", metadata={"namespace": ""}, labels={"topology.kubernetes.io/zone": "east"})
    wishes = {"trafficDistribution": wish} if wish else {}
    (action,) = slices(service(**wishes), backend(1), node)
    assert action.document["endpoints"][0].get("hints") == hints


def test_an_endpoint_that_is_not_ready_is_for_nobody():
    node = made("Node", "n0", metadata={"namespace": ""}, labels={"topology.kubernetes.io/zone": "east"})
    (action,) = slices(service(trafficDistribution="PreferClose"), backend(1, ready=False), node)
    assert "hints" not in action.document["endpoints"][0]


def ready_since(name, at):
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": at}]
    return msgspec.convert({"metadata": {"name": name}, "status": {"conditions": conditions}}, Pod)


def test_the_oldest_change_since_the_last_look_is_told():
    times, web = TriggerTimes(), {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}
    one, two = ready_since("one", "2026-01-01T00:01:00Z"), ready_since("two", "2026-01-01T00:02:00Z")
    looks = [times.look(KEY, web, pods) for pods in ([], [one], [one, two], [one], [one])]
    assert looks == ["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z", None, None]


def written(**more):
    subset = {
        "addresses": [{"ip": "10.9.0.1", "hostname": "a"}, {"ip": "fd00::1"}],
        "notReadyAddresses": [{"ip": "10.9.0.2", "nodeName": "n0"}],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
    }
    return made("Endpoints", "web", subsets=[subset], **more)


def mirrored(*documents):
    return decide(of(EndpointMirror), KEY, documents)


def test_endpoints_that_somebody_wrote_are_repeated_in_slices_one_for_each_family():
    found = {
        action.document["addressType"]: [
            (e["addresses"], e["conditions"], e.get("hostname"), e.get("nodeName"))
            for e in action.document["endpoints"]
        ]
        for action in mirrored(service(selector=None), written())
    }
    ready, waiting = {"ready": True}, {"ready": False}
    assert found == {
        "IPv4": [(["10.9.0.1"], ready, "a", None), (["10.9.0.2"], waiting, None, "n0")],
        "IPv6": [(["fd00::1"], ready, None, None)],
    }


def test_slices_that_repeat_the_endpoints_are_left_alone():
    first = mirrored(service(selector=None), written())
    there = [kept(action, f"s{number}") for number, action in enumerate(first)]
    assert mirrored(service(selector=None), written(), *there) == []


@pytest.mark.parametrize(
    "documents",
    [
        [service(), written()],
        [service(selector=None)],
        [service(selector=None), written(labels={"endpointslice.kubernetes.io/skip-mirror": "true"})],
        [written()],
    ],
    ids=["with a selector", "without Endpoints", "asked not to", "without a Service"],
)
def test_slices_go_when_there_is_nothing_to_repeat(documents):
    first = mirrored(service(selector=None), written())
    there = [kept(action, f"s{number}") for number, action in enumerate(first)]
    assert [type(action) for action in mirrored(*documents, *there)] == [Delete, Delete]
