"""Hostile expressions: refused or stopped at once, never a hang, never anything but a CelError.

Each case is compiled, estimated, built and evaluated, in a bounded number of calls; what hangs in one call is ended by
the time limit of tests.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.work import count_calls
from weir.cel import work
from weir.cel.env import COST_LIMIT
from weir.cel.errors import CelError, CostLimitExceeded
from weir.cel.program import compile, refuse
from weir.cel.types import BOOL
from weir.devices.expression import check_expression
from weir.objects.core import Taint
from weir.taints.expression import ENV

#: Of functions. The dearest case makes 1.5 million, in 0.4 s.
MOST_CALLS = 2_000_000
TAINT = Taint("a" * 317, "b" * 63, "NoSchedule")

NESTING = {
    "parentheses": "(" * 5000 + "1" + ")" * 5000,
    "parentheses that are allowed": "(" * 248 + "taint.key" + ")" * 248 + " == 'a'",
    "lists": "[" * 5000 + "]" * 5000,
    "lists that are compared": "[" * 200 + "1" + "]" * 200 + " == " + "[" * 200 + "1" + "]" * 200,
    "maps": "{1:" * 3000 + "1" + "}" * 3000,
    "negations": "!" * 10000 + "true",
    "minus signs": "-" * 10001 + "size(taint.key) == 1",
    "conditions": "true?true:" * 900 + "true",
    "conditions in conditions": "true?" * 2000 + "true" + ":false" * 2000,
    "selections": "taint" + ".key" * 3000,
    "methods": "taint.key" + ".trim()" * 1400 + " == 'a'",
    "optionals": "optional.of(" * 200 + "1" + ")" * 200 + ".hasValue()",
    "loops": "[1].all(a, " * 240 + "true" + ")" * 240,
    "lists of lists": "[1].map(a, " * 240 + "1" + ")" * 240 + ".size() == 1",
    "a long conjunction": " && ".join(["taint.key == 'a'"] * 500),
    "a longer conjunction": "&&".join(["true"] * 1700),
    "a long sum": "+".join(["1"] * 5000) + " == 1",
    "a sum that is allowed": "+".join(["1"] * 250) + " == 250",
}
LITERALS = {
    "a text beyond the limit": "'" + "a" * 100_000 + "' == taint.key",
    "an integer": "1" * 10_000 + " == 1",
    "a double": "1" * 10_000 + ".0 == 1.0",
    "an exponent": "1e" + "9" * 5000 + " == 1.0",
    "a list": "[" + ",".join(["1"] * 4000) + "].size() == 1",
    "escapes": "'" + "\\x41" * 2400 + "' == taint.key",
    "an open text": "'" + "\\" * 5000,
    "an open long text": "'''" + "a" * 9000,
    "comments": "//" * 5000,
    "commas": "[" + "," * 5000 + "]",
    "emoji": "'" + "😀" * 2500 + "' == taint.key",
    "a lone surrogate": "'\ud800' == taint.key",
    "a zero byte": "'\x00' == taint.key",
    "unknown names": "[" + "foo," * 2000 + "foo]",
    "one mismatch": "[" + "[1]," * 1000 + "['a']]",
}
NUMBERS = {
    "a quantity with a huge exponent": "quantity('1e2000000000').compareTo(quantity('1')) == 1",
    "quantities far apart": "quantity('1e2000000000').add(quantity('1')) == quantity('1')",
    "a quantity as a double": "quantity('1e2000000000').asApproximateFloat() > 1.0",
    "a long quantity": "quantity('" + "1" * 9000 + "') == quantity('1')",
    "a long fraction": "quantity('0." + "1" * 9000 + "Ki') == quantity('1')",
    "a long version": "semver('" + "1" * 9000 + ".0.0') == semver('1.0.0')",
    "a long prerelease": "isSemver('1.0.0-" + "a." * 4000 + "a')",
    "a long int": "int(taint.value.replace('b', '" + "1" * 150 + "')) == 1",
    "a long duration": "duration('" + "1s" * 4000 + "') == duration('1s')",
    "a long double": "double('1e" + "9" * 9000 + "') == 1.0",
    "many colons": "isIP('" + ":" * 9000 + "')",
    "many bits": "isCIDR('1.1.1.1/" + "1" * 9000 + "')",
    "a long query": "url('http://x/?" + "a=%41&" * 1500 + "').getQuery().size() > 0",
    "a long zone": "timestamp('2020-01-01T00:00:00Z').getHours('" + "a/" * 4000 + "') == 1",
    "a zone outside": "timestamp('2020-01-01T00:00:00Z').getHours('../../../etc/passwd') == 1",
    "a huge precision": "(taint.key + '%.999999999999999999999f').format([1.0]) == ''",
    "a huge width": "(taint.key + '%.999999999e').format([1.0]) == ''",
    "a long name": "format.dns1123Subdomain().validate('" + "a." * 4000 + "!').hasValue()",
    "long base64": "format.byte().validate('" + "aaaa" * 2000 + "!').hasValue()",
}
REGEXES = {
    "nested stars": "taint.key.matches('(a*)*b')",
    "equal alternatives": "taint.key.matches('(a|a)*b')",
    "many dots": "taint.key.matches('(.*)*(.*)*(.*)*x')",
    "optional letters": "taint.key.matches('" + "(a?){100}" + "a" * 100 + "')",
    "nested counts": "taint.key.matches('((a{100}){100}){100}')",
    "nested groups": "taint.key.matches('" + "(" * 1000 + "a" + ")" * 1000 + "')",
    "large counts": "taint.key.matches('[a-z]{1,999}[a-z]{1,999}x')",
    "stars in a row": "taint.key.matches('^a*a*a*a*a*a*a*a*a*b$')",
    "a class that explodes": "taint.key.matches('\\\\pL{999}')",
    "empty matches that read everything": "taint.key.replace('a', taint.key).replace('a', 'aaaaaaaaa')"
    ".findAll('(a+b)?').size() > 0",
}
GROWTH = {
    "replacing nothing by everything": "taint.key" + ".replace('', taint.key)" * 4 + ".size() > 0",
    "replacing each letter by the text": "taint.key" + ".replace('a', taint.key)" * 6 + ".size() > 0",
    "doubling": "[taint.key]" + ".map(x, x + x)" * 22 + ".size() > 0",
    "joining copies": "taint.key.replace('a', taint.key).split('').map(x, taint.key).join('').size() > 0",
    "three loops": "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, a + b + c >= 0)))",
    "a long map": "lists.range(100000).map(x, x).size() > 0",
    "a long transformation": "lists.range(100000).transformMap(i, v, v).size() > 0",
    "lists of ranges": "lists.range(60000).map(x, lists.range(2)).size() > 0",
    "a list of lists opened": "lists.range(1000).map(x, lists.range(400)).flatten().size() > 0",
    "the longest range": "lists.range(1000000).size() > 0",
    "an affordable range": "lists.range(999000).size() > 0",
    "two ranges compared": "lists.range(499000) == lists.range(499000)",
    "sorting": "lists.range(300000).reverse().sort().size() > 0",
    "distinct numbers": "lists.range(300000).distinct().size() > 0",
    "distinct lists": "lists.range(30000).map(x, [x]).distinct().size() > 0",
    "sets of numbers": "sets.contains(lists.range(300000), lists.range(300000))",
    "sets of lists": "sets.contains(lists.range(20000).map(x, [x]), lists.range(20000).map(x, [x]))",
    "searching again and again": "lists.range(20000).all(x, lists.range(20000).indexOf(19999) > 0)",
    "sorting by keys": "lists.range(700).sortBy(x, -x).size() > 0",
    "comparing again and again": "lists.range(3000).all(x, taint.key <= taint.key)",
}
#: Each step doubles the type of `v`.
_DOUBLED = ".map(v, {v: v})" * 40
TYPES = {
    "a type that doubles": f"[1]{_DOUBLED}.size() == 1",
    "a type that doubles and is not known yet": f"[[]]{_DOUBLED}.size() == 1",
    "a type that doubles, in a message": f"[1]{_DOUBLED} + 1",
    "a type that doubles, in another message": f"[[]]{_DOUBLED}.startsWith('a')",
    "types that double, compared": f"[[]]{_DOUBLED} == [[]]{_DOUBLED}",
    "a type that doubles in lists": "[[]]" + ".map(v, {[v]: [v]})" * 40 + ".size() == 1",
    "a type that doubles in loops": "".join(
        f"[{{{f'a{n}'}: {f'a{n}'}}}].all(a{n + 1}, " for n in range(40)
    ).replace("{a0: a0}", "[]")
    + "true"
    + ")" * 40,
}
CASES = NESTING | LITERALS | NUMBERS | REGEXES | GROWTH | TYPES


@pytest.mark.parametrize("name", CASES)
def test_it_ends_at_once_and_only_with_cels_own_errors(name: str) -> None:
    expression = CASES[name]

    def ask() -> None:
        refuse(expression, ENV, (BOOL,))
        with suppress(CelError):
            compile(expression, ENV).evaluate({"taint": TAINT})

    assert count_calls(ask) < MOST_CALLS


@pytest.mark.parametrize(
    "used", ["{'a': [%s], 'b': [%s]}", "[%s, %s]", "(1 > 2 ? %s : %s)", "[1, 1].map(e, [%s, %s])"]
)
def test_bindings_within_bindings_end_at_once(used: str) -> None:
    """Code of a binding stands where it is read, twice each time: as it is written out, and as it is looked at."""
    bound = [f"cel.bind(a{n + 1}, {used % (f'a{n}', f'a{n}')}, " for n in range(60)]
    expression = "cel.bind(a0, [], " + "".join(bound) + "a60 == a60" + ")" * 61
    assert count_calls(lambda: check_expression(expression)) < MOST_CALLS


@pytest.mark.parametrize("name", GROWTH)
def test_what_grows_is_refused_by_its_price_or_within_the_budget(name: str) -> None:
    refusal = refuse(GROWTH[name], ENV, (BOOL,))
    if refusal is None:
        try:
            _, cost = compile(GROWTH[name], ENV).run({"taint": TAINT})
        except CostLimitExceeded:  # stopped on the way, by what it visits
            return
        assert cost <= COST_LIMIT


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('x')",
        "''.__class__",
        "exec('x')",
        "f'{1}'",
        "lambda: 1",
        "taint.__class__.__name__",
    ],
)
def test_python_is_not_reachable(text: str) -> None:
    refusal = refuse(text, ENV, (BOOL,))
    assert refusal is not None and refusal.kind == "invalid"


@pytest.mark.parametrize(
    "text",
    [
        "dyn(taint).__class__",
        "dyn(taint)['__class__']",
        "dyn(taint).__struct_fields__[0]",
        "dyn('').__class__",
        "dyn([]).append",
        "dyn({'a': 1}).keys",
        "dyn(1).real",
        "dyn(b'a').decode",
        "dyn(type(1)).__mro__",
        "dyn(timestamp(0)).year",
        "dyn(url('http://a')).hostname",
        "dyn(ip('10.0.0.1')).packed",
        "dyn(semver('1.0.0')).major",
    ],
)
def test_python_is_not_reachable_at_run_time(text: str) -> None:
    with pytest.raises(CelError, match=r"no such key|unsupported index type"):
        compile(f"{text} == 1", ENV).evaluate({"taint": TAINT})


@pytest.mark.parametrize(
    "quote", ["'\"'", "'\\''", "'{0}'", "'\\n'", "'%s'", "'\\\\'", '\'"""\'', "'#'", "'{'"]
)
def test_texts_stay_texts_in_generated_code(quote: str) -> None:
    assert compile(f"taint.key + {quote} == taint.key + {quote}", ENV).evaluate({"taint": TAINT}) is True


@pytest.mark.parametrize(
    "length, part, units",
    [
        (160_000, 16, 10_001),  # much can be left out: the sum of both
        (2_000, 1_000, 187 + 1_953),  # the last few thousand places: up to their product
        (1_000, 2_000, 187),
    ],
)
def test_a_search_is_charged_for_what_it_may_take(length, part, units):
    work.begin()
    work.search(length, part)
    assert work.spent() == units
