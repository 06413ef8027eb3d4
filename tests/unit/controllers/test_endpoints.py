"""What stands behind a Service, in Endpoints and in EndpointSlices."""

from __future__ import annotations

from tests.unit.controllers.builders import decide, made, of, only, pod
from weir.controllers.actions import Create, Delete, Patch
from weir.controllers.endpoint_slices import EndpointSlices
from weir.controllers.endpoints import Endpoints
from weir.controllers.known import PODS, Known
from weir.controllers.service_pods import ServiceKey

KEY = ServiceKey("default", "web")


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
    annotations = action.document["metadata"]["annotations"]
    assert (len(action.document["subsets"][0]["addresses"]), annotations) == (
        1000,
        {"endpoints.kubernetes.io/over-capacity": "truncated"},
    )


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
    one = Known.of([backend(1)]).pod("default", "p1")
    annotated = Known.of([backend(1, metadata={"annotations": {"a": "b"}})]).pod("default", "p1")
    unready = Known.of([backend(1, ready=False)]).pod("default", "p1")
    assert (list(controller.changed(PODS, one, annotated)), list(controller.changed(PODS, one, unready))) == (
        [],
        [KEY],
    )
