"""The static estimate: paths, sizes, entries and what makes an expression too complex."""

from __future__ import annotations

import pytest

from weir.cel.program import check_expression
from weir.devices.expression import environment
from weir.taints.expression import COST_LIMIT, ENV

MAX = 2**64 - 1
TENTH = 1844674407370955264
DEVICE = environment()


@pytest.mark.parametrize(
    ("expression", "least", "most"),
    [
        ("taint.key", 2, 2),
        ("taint.effect == 'NoSchedule'", 3, 3),
        ("taint.value == taint.effect", 5, 6),
        ("has(taint.value) && taint.value == 'x'", 1, 4),
        ("taint.?value.orValue('none') == 'none'", 4, 4),
        ("[taint.key, taint.value].exists(s, s == 'x')", 23, 27),
        ("[taint.key, taint.value].map(s, s.size())", 53, 53),
        ("['a', 'b'].exists(p, taint.key.startsWith(p))", 19, 27),
        ("taint.key.split('.').exists(p, p == 'example')", 3, 1969),
        ("taint.key.split('.').all(a, taint.value.split('.').all(b, a != b))", 3, MAX),
        ("lists.range(1000).all(x, lists.range(1000).all(y, x >= 0))", 4012, 6016012),
        ("taint.value in {'dev': true, 'prod': false}", 33, 33),
        ("{'a': 1}.transformMap(k, v, v + 1).size() == 1", 68, 68),
        ("(taint.key + '=' + taint.value) == 'a=b'", 7, 76),
        ("(taint.key == 'a' ? taint.key : taint.value) == taint.key", 8, 39),
        ("string(bytes(taint.value)) == taint.value", 5, 44),
        ("type(taint.key) == string", 5, TENTH + 4),
        ("dyn(taint.key) == taint.value", 6, 12),
        ("dyn(taint.key) + dyn(taint.value)", 6, 44),
        ("{'a': taint.key}.a == taint.key", 36, 67),
        ("[taint.key][0] == taint.key", 16, 47),
        ("{'k': taint.key}['k'].matches('a+')", 34, 65),
        ("taint.key.split('/', 2).size() == 2", 4, 68),
        ("taint.key.split('/')[0] == taint.key", 6, 101),
        ("optional.of(taint.key).optMap(k, k.size()).orValue(0) == 0", 7, 23),
        ("[[1], [2]].map(x, x.size())", 69, 69),
        ("[1, 2].map(x, taint.key)[0].matches('a+')", 51, 82),
    ],
)
def test_toleration_expressions_are_estimated(expression: str, least: int, most: int) -> None:
    assert check_expression(expression, ENV).estimate == (least, most)


@pytest.mark.parametrize(
    ("expression", "least", "most"),
    [
        ("device.attributes['gpu.example.com']['model'] == 'a100'", 5, 5),
        ("device.attributes[device.driver].model == 'a100'", 7, 7),
        ("has(device.attributes['gpu.example.com'].model)", 3, 3),
        ("device.attributes['gpu.example.com'].driverVersion == semver('1.2.3')", 6, 12),
        ("cel.bind(d, device.attributes['g'], has(d.model) && d.model.startsWith('a'))", 14, 17),
        ("device.attributes['gpu.example.com'].exists(k, k == 'model')", 4, 196),
        ("device.attributes.exists(d, device.attributes[d].exists(k, k == 'model'))", 3, 6435),
        ("device.attributes == device.attributes", 5, 8),
        ("device.capacity['g'].memory == quantity('1')", 6, 6),
        ("device.capacity['g'].memory != quantity('1')", 6, TENTH + 5),
    ],
)
def test_device_expressions_are_estimated(expression: str, least: int, most: int) -> None:
    assert check_expression(expression, DEVICE).estimate == (least, most)


@pytest.mark.parametrize(
    "expression",
    [
        "semver(taint.value) != semver('1.0.0')",
        "['a', 'b'].join('-') == 'a'",
        "['a'].includes(taint.value)",
        "taint.key.split('.').exists(p, p.matches('a'))",
        "optional.none() == optional.none()",
    ],
)
def test_what_surprises_people_is_too_complex(expression: str) -> None:
    assert check_expression(expression, ENV).estimate.max > COST_LIMIT


def test_deeply_nested_macros_do_not_exhaust_the_stack() -> None:
    nested = "[1].all(a, " * 200 + "true" + ")" * 200
    assert check_expression(nested, ENV).estimate.max > 0
