"""The static estimate: paths, sizes, entries and what makes an expression too complex."""

from __future__ import annotations

import pytest

from weir.cel import types
from weir.cel.env import COST_LIMIT, Env
from weir.cel.estimate import NOWHERE, FieldPath
from weir.cel.library import BIND, KUBERNETES
from weir.cel.program import check_expression
from weir.devices.expression import environment
from weir.taints.expression import ENV

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
        ("[''][0] == taint.key", 13, 13),
        ("[''].all(s, s == taint.key)", 14, 17),
        ("{'': ''}.all(k, k == taint.key)", 34, 37),
        ("{'': ''}.all(k, v, v == taint.key)", 34, 37),
        ("{'abcdefghijkl': 'b'}['a'] + 'x' == ''", 32, 32),
        ("{'a': 'abcdefghijkl'}['a'] + 'x' == ''", 33, 33),
        ("{}['a'] + 'xxxxxxxxxxx' == 'a'", 34, 34),
        ("[][0] + 'xxxxxxxxxxx' == 'a'", 14, 14),
        ("['abcdefghijklmnopqrstuvwxyz'].all(s, s.contains('aaaaaaaaaaaaaa'))", 14, 21),
        ("(taint.key == 'a' ? taint.key : taint.value).matches('a+')", 6, 37),
        ("(taint.key == 'a' ? ['abcdefghijklmn'] : ['de']).all(s, s.matches('x'))", 17, 20),
        ("(['abcdefghijklmn'] + ['de']).all(s, s.matches('x'))", 28, 34),
        ("['a'].all(taint, taint == 'b') && taint.key.contains('a')", 14, 50),
        ("{'a': 'b'}.all(k, taint, taint == 'b') && taint.key.contains('a')", 34, 70),
        ("{'a': 'b'}.all(taint, k, taint == 'b') && taint.key.contains('a')", 34, 70),
        ("[['a']].map(x, x.all(y, true) ? 'abcdefghijklmn' : 'b')[0].matches('a')", 50, 51),
        ("['abcdefghijklmnopqrstuvwxyz'].all(x, ['b'].all(x, x.contains('a')))", 14, 30),
        ("['b'].all(x, ['abcdefghijklmnopqrstuvwxyz'].all(x, x.contains('a')))", 14, 32),
        ("dyn(['abcdefghijklmnopqrstuvwxyz']).all(s, s.contains('a'))", 15, 19),
        ("taint.key.split('.', 1).all(p, strings.quote(p).contains('x'))", 3, 1844674407370955335),
        ("google.protobuf.Int32Value{value: 3} == 3", 41, 41),
        ("google.protobuf.StringValue{value: taint.key + taint.value} == 'a'", 45, 83),
        ("{'a': 'abcdefghijklmnopqrstuvwxyz'}.all(k, k.contains('a'))", 34, 36),
        ("{'abcdefghijklmnopqrstuvwxyz': 'a'}.all(k, k.contains('a'))", 34, 38),
        ("(taint.key == 'a' ? taint.value : taint.key).matches('a+')", 6, 37),
        ("(taint.key == 'a' ? ['de'] : ['abcdefghijklmn']).all(s, s.matches('x'))", 17, 20),
        ("['a', 'b'].map(x, x).all(y, y == 'c')", 54, 58),
        ("taint.key.size() == taint.value.size()", 7, 7),
        ("optional.of(1) == optional.of(2)", 3, 3),
        ("(['a'] + taint.key.split('.')).all(s, s == 'a')", 17, 1668),
        ("(taint.key.split('.') + ['a']).all(s, s == 'a')", 17, 1668),
        ("dyn(1) + 'aaaaaaaaa' == 'b'", 3, 3),
        ("url('https://a.b') == url(taint.key)", 5, 68),
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
        ("device.attributes['g'].all(k, v, k.matches('a+'))", 4, 356),
        ("device.capacity['g'].all(k, v, k.matches('a+'))", 4, 164),
        ("device.attributes.all(k, v, v.all(l, w, l.matches('a+')))", 3, 11427),
        ("cel.bind(d, device.attributes['g'], d.all(k, k.matches('a+') && d.model == 'x'))", 15, 367),
        ("cel.bind(d, device.attributes['g'], d.all(k, d.model == 'x' && k.matches('a+')))", 15, 463),
        (
            "cel.bind(d, device.capacity['g'], d.all(k, d.memory == quantity('1') && k.matches('a+')))",
            15,
            MAX,
        ),
        ("cel.bind(device, 'a', device == 'b') && device.driver.contains('a')", 12, 21),
        ("cel.bind(x, 'abcdefghijklmn', x + 'd').contains(device.driver)", 15, 29),
        ("cel.bind(x, 'abcdefghijklmn', x).contains(device.driver)", 13, 12912720851596686861),
        ("cel.bind(x, ['abcdefghijklmn'], x + x).all(s, s.contains(device.driver))", 30, 64),
    ],
)
def test_device_expressions_are_estimated(expression: str, least: int, most: int) -> None:
    assert check_expression(expression, DEVICE).estimate == (least, most)


SIZED = Env(
    (*KUBERNETES, BIND),
    {"words": types.list_of(types.STRING), "table": types.map_of(types.STRING, types.STRING)},
    sizes={
        ("words",): 5,
        ("words", "@items"): 200,
        ("table",): 3,
        ("table", "@keys"): 30,
        ("table", "@values"): 500,
        # No path starts with a step, but a schema's sizes are looked up by what follows the first name.
        ("@items",): 7,
    },
)


@pytest.mark.parametrize(
    ("expression", "least", "most"),
    [
        ("words.all(w, w.contains('a'))", 2, 122),
        ("words.all(i, w, w.contains('a'))", 2, 122),
        ("words.all(i, w, i < 3)", 2, 27),
        ("table.all(k, k.contains('a'))", 2, 23),
        ("table.all(k, v, k.contains('a'))", 2, 23),
        ("table.all(k, v, v.contains('a'))", 2, 164),
        ("words[0].contains('a')", 2, 22),
        ("table['a'].contains('b')", 2, 52),
        ("table.a.contains('b')", 2, TENTH + 2),
        ("words.join('-').contains('a')", 1, 203),
        ("['a', 'b'].join('-').contains('a')", 12, 2 * TENTH + 10),
        ("words.includes('a')", 1, 106),
        ("['a'].includes('a')", 11, TENTH + 11),
    ],
)
def test_declared_sizes_are_looked_up_by_path(expression: str, least: int, most: int) -> None:
    assert check_expression(expression, SIZED).estimate == (least, most)


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


def test_a_call_that_the_environment_does_not_have_costs_nothing() -> None:
    env = Env((), {"table": types.map_of(types.STRING, types.STRING)})
    assert check_expression("[?table.?a]", env).estimate == (10, 10)


def test_deeply_nested_macros_do_not_exhaust_the_stack() -> None:
    nested = "[1].all(a, " * 200 + "true" + ")" * 200
    assert check_expression(nested, ENV).estimate.max > 0


def path(*steps: str) -> FieldPath:
    """Return a path that was grown step by step, as a walk does."""
    grown = FieldPath(steps[0])
    for step in steps[1:]:
        grown = grown.grown(step)
    return grown


def test_a_path_is_the_steps_that_it_was_grown_by() -> None:
    assert NOWHERE.steps == ()
    assert NOWHERE.grown("@items").steps == ("@items",)
    assert path("a", "b", "c", "d", "e", "f").steps == ("a", "b", "c", "d", "e", "f")


def test_growing_leaves_what_was_grown_as_it_was() -> None:
    short = path("self", "list", "@items")
    short.grown("name")
    assert short.steps == ("self", "list", "@items")


def siblings_apart(length: int) -> bool:
    """Whether two paths grown from one of that many steps keep their own last steps."""
    start = path(*map(str, range(length))) if length else NOWHERE
    one, other = start.grown("one"), start.grown("other")
    assert other.steps == (*start.steps, "other")
    assert one.steps in ((*start.steps, "one"), other.steps)
    return one.steps != other.steps


def test_room_doubles_when_it_is_full_and_the_last_to_grow_overwrites() -> None:
    apart = [length for length in range(20) if siblings_apart(length)]
    assert apart == [0, 1, 2, 4, 8, 16]


def test_what_was_grown_beyond_its_room_is_no_longer_changed() -> None:
    short = path("self", "list", "@items")
    items = short.grown("items")
    item = items.grown("@items")
    short.grown("name")
    assert items.steps == ("self", "list", "@items", "name")
    assert item.steps == ("self", "list", "@items", "items", "@items")
