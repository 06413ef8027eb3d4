from pathlib import Path

import pytest

import weir.validate
from weir.fields.meta import validate_meta
from weir.objects.kinds import KINDS
from weir.validate.registry import address, find_rule

GROUPS = {address(kind.group, kind.kind)[0] for kind in KINDS}
KIND_MODULES = {address(kind.group, kind.kind) for kind in KINDS}
VALIDATE = Path(weir.validate.__file__).parent


def test_a_custom_kind_has_no_address_though_its_group_begins_like_a_built_in_one():
    assert find_rule("apps.example.com", "Deployment") is validate_meta


def test_a_kind_is_validated_by_the_function_named_after_it():
    rule = find_rule("resource.k8s.io", "DeviceTaintRule")
    assert f"{rule.__module__}.{rule.__name__}" == (
        "weir.validate.resource.device_taint_rule.validate_device_taint_rule"
    )


def test_kinds_of_two_groups_with_one_storage_are_validated_by_one_function():
    assert find_rule("events.k8s.io", "Event") is find_rule("", "Event")


@pytest.mark.parametrize(
    "path", sorted(VALIDATE.glob("*/*.py")), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_every_folder_is_a_group_and_a_public_rule_stands_at_the_address_of_its_kind(path):
    assert path.parent.name in GROUPS
    rules = {
        rule.__name__: rule
        for kind in KINDS
        if (rule := find_rule(kind.group, kind.kind)) is not validate_meta
    }
    text = path.read_text()
    here = [name for name in rules if f"\ndef {name}(new" in text]
    assert all(rules[name].__module__.endswith(f".{path.parent.name}.{path.stem}") for name in here)
    assert not here or (path.parent.name, path.stem) in KIND_MODULES
