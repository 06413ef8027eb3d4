"""How much of a quota is used, counted from what controllers know."""

from __future__ import annotations

from tests.unit.controllers.builders import decide, made, of, only
from weir.client.cache import ObjectKey
from weir.controllers.cluster.resource_quota import KNOWN, Recount, ResourceQuotas
from weir.controllers.runtime.controller import Patch
from weir.gates import ALL_FEATURES
from weir.objects.kinds import by_kind

KEY = ObjectKey("default", "q")


def quota(**hard):
    named = {name.replace("_", "/", 1).replace("__", "."): amount for name, amount in hard.items()}
    return made("ResourceQuota", "q", spec={"hard": named})


def used(*objects, **hard):
    actions = decide(of(ResourceQuotas), KEY, [quota(**hard), *objects])
    (patch,) = only(Patch, actions)
    assert not only(Recount, actions)
    return patch.patch["status"]["used"]


def test_configmaps_and_secrets_are_counted_from_the_copy():
    objects = [made("ConfigMap", "a"), made("ConfigMap", "b"), made("Secret", "s")]
    assert used(*objects, configmaps="10", secrets="10", count_secrets="5") == {
        "configmaps": "2",
        "secrets": "1",
        "count/secrets": "1",
    }


def test_kinds_of_groups_are_counted_by_their_full_name():
    claim = made("ResourceClaim", "c", spec={})
    assert used(claim, count_resourceclaims__resource__k8s__io="1") == {
        "count/resourceclaims.resource.k8s.io": "1"
    }


def test_a_quota_counts_quotas():
    assert used(resourcequotas="1") == {"resourcequotas": "1"}


def test_custom_resources_are_asked_for():
    actions = decide(of(ResourceQuotas), KEY, [quota(count_widgets__example__com="1")])
    (recount,) = only(Recount, actions)
    assert recount.unknown == (("example.com", "widgets"),)


def test_what_comes_and_goes_makes_its_namespaces_quotas_be_counted_again():
    controller, configs = ResourceQuotas(ALL_FEATURES), by_kind("v1", "ConfigMap")
    assert configs in KNOWN
    assert not list(controller.changed(configs, None, made("ConfigMap", "a")))
    list(controller.changed(by_kind("v1", "ResourceQuota"), None, quota(configmaps="1")))
    assert list(controller.changed(configs, None, made("ConfigMap", "a"))) == [KEY]
    assert list(controller.changed(configs, made("ConfigMap", "a"), None)) == [KEY]
    changed = {**made("ConfigMap", "a"), "data": {"x": "y"}}
    assert not list(controller.changed(configs, made("ConfigMap", "a"), changed))
