"""Worst inputs of every function and operator of CEL: what each is asked for by tests/property/test_cel_work.py.

A row is a pair: what `v` begins as, and an expression over it. `v` is doubled by `v + v`; one with `SIZE` in it is
written with that number instead. `i` counts passes, so that nothing is constant.
"""

from __future__ import annotations

from collections.abc import Iterator

from weir.cel import ast, types
from weir.cel.env import Env, Library, Overload
from weir.cel.library import BIND, KUBERNETES
from weir.cel.types import DURATION, TIMESTAMP
from weir.compat.policies.mutating import ESCAPE

#: (how `v` begins, what is asked of it)
Row = tuple[str, str]

LIBRARIES: tuple[Library, ...] = (*KUBERNETES, BIND, ESCAPE)
ENV = Env(LIBRARIES, {"x": types.STRING, "d": types.DYN})

#: Long texts, with the characters that make most work: plain, wide, escaped, blank.
_TEXTS = ("'a'", "'é'", "'\\u4e00\\n'", "'\"'", "' '")
_NUMBERS = "lists.range(SIZE)"
_WORDS = "lists.range(SIZE).map(k, string(k))"
_LISTS = "lists.range(SIZE).map(k, [k])"
_DOUBLES = "lists.range(SIZE).map(k, double(k))"
_NANS = "lists.range(SIZE).map(k, double('NaN'))"
_OPTIONALS = "lists.range(SIZE).map(k, optional.of(k))"
_MAP = "lists.range(SIZE).transformMapEntry(k, w, {string(k): w})"
_INT_MAP = "lists.range(SIZE).transformMapEntry(k, w, {k: w})"

#: Operands by static type: one that is small and depends on `i`, one that is large.
_SMALL = {
    "bool": "(i % 2 == 0)",
    "int": "i",
    "uint": "uint(i)",
    "double": "double(i)",
    "string": "string(i)",
    "bytes": "bytes(string(i))",
    "google.protobuf.Duration": "duration(string(i) + 's')",
    "google.protobuf.Timestamp": "timestamp(i)",
    "net.IP": "ip('10.0.0.' + string(i % 256))",
    "net.CIDR": "cidr('10.0.0.0/' + string(i % 33))",
    "kubernetes.Semver": "semver('1.2.' + string(i) + '-a.b')",
    "kubernetes.Quantity": "quantity(string(i) + 'Mi')",
    "kubernetes.URL": "url('http://a/' + string(i))",
    "kubernetes.NamedFormat": "format.uri()",
}
_OPERATORS = {
    ast.ADD: "{} + {}",
    ast.SUBTRACT: "{} - {}",
    ast.MULTIPLY: "{} * {}",
    ast.DIVIDE: "{} / {}",
    ast.MODULO: "{} % {}",
    ast.NEGATE: "-{}",
    ast.LESS: "{} < {}",
    ast.LESS_EQUALS: "{} <= {}",
    ast.GREATER: "{} > {}",
    ast.GREATER_EQUALS: "{} >= {}",
    ast.NOT: "!{}",
}


def _patterns(call: str) -> list[Row]:
    """Patterns that are long, or short and long to compile."""
    patterns = (
        ("'a?'", "v"),
        ("'(?i)\\\\pL'", "v"),
        ("'a'", "'\\\\pL{' + string(i % 40) + '}'"),
        ("'a'", "v + string(i)"),
        ("'('", "v"),
        ("'(a*)*'", "v"),
        ("'\\\\pL'", "v"),
        ("'a'", "'[a-z]{1,999}[a-z]{1,' + string(i % 999) + '}x'"),
        ("'a'", "'(a{1,30}){1,30}' + string(i)"),
    )
    return [(leaf, call.format(pattern)) for leaf, pattern in patterns]


def _searches(call: str) -> list[Row]:
    """Patterns that read much, for texts that make them do so."""
    searches = (
        ("'aab'", "'(a|b)*a(a|b){20}c' + string(i)"),
        ("'a'", "'a{63}b'"),
        ("'a'", "'(a+b)?'"),
        ("'a'", "'^[a-z]+$'"),
        ("'aab'", "'a.{0,300}c'"),
        ("'ab'", "'([a-z]{1,20}){1,20}x'"),
        ("'a'", "'a'"),
        ("'a'", "''"),
        ("'é'", "'\\\\pL+x'"),
        ("'aaaaaaa,'", "'^([a-z]+,)*!$'"),
        ("'a'", "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab'"),
    )
    return [(leaf, call.format(pattern)) for leaf, pattern in searches]


#: Rows written by hand: overload id → worst inputs. Where there is none, small operands by type are enough.
BY_HAND: dict[str, list[Row]] = {
    # operators
    "add_string": [(t, "(v + v).size() > i") for t in _TEXTS],
    "add_bytes": [("b'a'", "(v + v).size() > i")],
    "add_list": [("[1]", "(v + v).size() > i"), (_WORDS, "(v + v).size() > i")],
    "equals": [
        ("'a'", "v + 'b' == v + 'c'"),
        ("[1]", "v == v + [] && i > 0"),
        (_LISTS, "v == v && i > 0"),
        (_MAP, "v == v && i > 0"),
        (_NANS, "v == v"),
        ("['a']", "[v, v] == [v, v] && i > 0"),
        ("'http://a/%41'", "url(v) == url(v)"),
        ("'1.2.3-a.b'", "semver(v + '.a') == semver(v + '.a')"),
        ("'1e9'", "quantity('1e' + string(i % 90000)) == quantity('1')"),
    ],
    "not_equals": [
        ("'a'", "v + 'b' != v + 'c'"),
        ("[1]", "v != v + []"),
        (_LISTS, "v != v"),
        (_MAP, "v != v"),
    ],
    "in_list": [
        ("'a'", "v in [v + '', v + 'b', v + 'c']"),
        ("'a'", "v + 'd' in [v + 'a', v + 'b', v + 'c']"),
        (_WORDS, "'x' in v"),
        (_NUMBERS, "-1 in v"),
        (_LISTS, "[-1] in v"),
        (_NANS, "i in dyn(v)"),
    ],
    "in_map": [
        ("'a'", "v in {v + '': 1}"),
        (_MAP, "string(i) in v"),
        (_INT_MAP, "i in v"),
        (_INT_MAP, "dyn(i) in dyn(v)"),
    ],
    "index_list": [(_NUMBERS, "v[i]"), (_NUMBERS, "v[i + 1000000]")],
    "index_map": [("'a'", "{v + 'b': 1}[v]"), (_MAP, "v[string(i)]"), ("'a'", "{v + 'b': i}[v + 'b']")],
    "logical_and": [("'a'", "i > 0 && i > 1")],
    "logical_or": [("'a'", "i > 0 || i > 1")],
    "conditional": [("'a'", "i > 0 ? v : v + 'a'")],
    "not_strictly_false": [("[true]", "v.all(e, e)")],
    "contains_string": [
        ("'a'", "v.contains('ab' + v.substring(0, v.size() / 2))"),
        ("'a'", "v.contains('aaab')"),
        ("'a'", "v.contains('a' + string(i))"),
        ("'é'", "v.contains(v.substring(0, v.size() / 3) + 'a')"),
    ],
    "starts_with_string": [("'a'", "v.startsWith(v)"), ("'a'", "v.startsWith(v + 'b')")],
    "ends_with_string": [("'a'", "v.endsWith(v)"), ("'a'", "v.endsWith('b' + v)")],
    "less_string": [("'a'", "v + 'a' < v + 'b'"), ("'é'", "v + 'a' < v + '\\u4e00'")],
    "less_bytes": [("b'a'", "v + b'a' < v + b'b'")],
    **{
        f"size_{of}": [(leaf, "size(v) > i")]
        for of, leaf in (("string", "'é'"), ("bytes", "b'a'"), ("list", "[1]"), ("map", _MAP))
    },
    # conversions
    "string_to_bool": [("'a'", "bool(v)")],
    "string_to_int64": [("'0'", "int(v + '1')"), ("'1'", "int(v)"), ("'1'", "int(v + 'x')")],
    "string_to_uint64": [("'0'", "uint(v + '1')"), ("'1'", "uint(v)")],
    "string_to_double": [
        ("'1'", "double(v)"),
        ("'1_1'", "double(v)"),
        ("'1'", "double('0.' + v)"),
        ("'1'", "double('1e-' + v)"),
        ("'f'", "double('0x' + v + 'p-1')"),
        ("'-'", "double(v)"),
    ],
    "string_to_duration": [
        ("'1h'", "duration(v)"),
        ("'.1ns'", "duration(v)"),
        ("'1'", "duration('0.' + v + 's')"),
    ],
    "string_to_timestamp": [("'1'", "timestamp('2020-01-01T00:00:00.' + v + 'Z')"), ("'1'", "timestamp(v)")],
    "string_to_bytes": [(t, "bytes(v).size() > i") for t in _TEXTS],
    "bytes_to_string": [
        ("b'a'", "string(v).size() > i"),
        ("b'\\xc3\\xa9'", "string(v)"),
        ("b'\\xff'", "string(v)"),
    ],
    "double_to_string": [("'a'", "string(double(i) / 3.0e200)")],
    "to_dyn": [("[1]", "dyn(v)")],
    "type": [(_MAP, "type(v)"), ("'a'", "type(v) == string")],
    # strings
    "string_char_at_int": [("'é'", "v.charAt(v.size() - 1)"), ("'a'", "v.charAt(v.size() + 1)")],
    "string_index_of_string": [
        ("'a'", "v.indexOf('ab' + v.substring(0, v.size() / 2))"),
        ("'a'", "v.indexOf('aab')"),
        ("'é'", "v.indexOf('b')"),
        ("'a'", "v.indexOf(v.substring(0, v.size() / 4) + 'b' + v.substring(0, v.size() / 4))"),
    ],
    "string_index_of_string_int": [
        ("'a'", "v.indexOf('aab', 1)"),
        ("'a'", "v.indexOf('a' + v, v.size() / 2)"),
    ],
    "string_last_index_of_string": [
        ("'a'", "v.lastIndexOf('ab' + v.substring(0, v.size() / 2))"),
        ("'a'", "v.lastIndexOf(v.substring(0, v.size() / 2) + 'b' + v.substring(0, v.size() / 4))"),
        ("'a'", "v.lastIndexOf('baa')"),
        ("'é'", "v.lastIndexOf('b' + v.substring(0, v.size() / 3))"),
    ],
    "string_last_index_of_string_int": [
        ("'a'", "v.lastIndexOf('ab' + v.substring(0, v.size() / 2), v.size() - 1)"),
        ("'a'", "v.lastIndexOf('baa', v.size() / 2)"),
    ],
    "string_lower_ascii": [(t, "v.lowerAscii()") for t in ("'A'", "'Aé'", "'A\\u4e00'")],
    "string_upper_ascii": [(t, "v.upperAscii()") for t in ("'a'", "'aé'", "'a\\u4e00'")],
    "string_replace_string_string": [
        ("'a'", "v.replace('a', 'bb')"),
        ("'a'", "v.replace('', 'b')"),
        ("'a'", "v.replace('a', v)"),
        ("'a'", "v.replace('', v)"),
        ("'a'", "v.replace(v.substring(0, v.size() / 2) + 'b', '')"),
        ("'ab'", "v.replace('ab', 'é')"),
    ],
    "string_replace_string_string_int": [("'a'", "v.replace('a', v, 3)"), ("'a'", "v.replace('aab', '', 1)")],
    "string_split_string": [
        ("'a'", "v.split('')"),
        ("'a'", "v.split('a')"),
        ("'\\u4e00'", "v.split('')"),
        ("'a'", "v.split(v + 'b')"),
        ("'a'", "v.split(v.substring(0, v.size() / 2) + 'b')"),
        ("'ab'", "v.split('b')"),
    ],
    "string_split_string_int": [("'a'", "v.split('', 1000000)"), ("'a'", "v.split('aab', 5)")],
    "string_substring_int": [("'é'", "v.substring(1)"), ("'a\\u4e00'", "v.substring(1)")],
    "string_substring_int_int": [("'a\\u4e00'", "v.substring(0, v.size() - 1)")],
    "string_trim": [(t, "v.trim()") for t in ("' '", "'\\u2003'", "'a '")],
    "list_join": [("['a']", "v.join()"), (_WORDS, "v.join()")],
    "list_join_string": [("['a']", "v.join('é')"), ("'a'", "[v, v, v, v].join(v)"), (_WORDS, "v.join(', ')")],
    "strings_quote": [(t, "strings.quote(v)") for t in (*_TEXTS, "'\\a\\b\\f\\n\\r\\t\\v\\\\\"'")],
    # format
    "string_format": [
        ("'%s'", "v.format([i])"),
        ("'a'", "(v + '%s').format([i])"),
        ("'%%'", "v.format([])"),
        ("'a'", "'%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s'.format([v,v,v,v,v,v,v,v,v,v,v,v,v,v,v,v])"),
        ("'é\\n'", "'%s'.format([[v]])"),
        ("'\"'", "'%s'.format([{v: v}])"),
        ("b'a'", "'%s'.format([v])"),
        ("b'a'", "'%x'.format([v])"),
        ("'é'", "'%X'.format([v])"),
        ("[1]", "'%s'.format([v])"),
        (_LISTS, "'%s'.format([v])"),
        (_MAP, "'%s'.format([v])"),
        (_DOUBLES, "'%s'.format([v])"),
        ("'a'", "'%.1000000e'.format([double(i)])"),
        ("'a'", "'%.255f'.format([1.0e300 + double(i)])"),
        ("'9'", "('%.' + v + 'f').format([1.0])"),
        ("'a'", "'%b %o %x %d'.format([i, i, i, i])"),
        (_OPTIONALS, "'%s'.format([v])"),
    ],
    # regular expressions
    "matches_string": [
        *_patterns("'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'.matches({})"),
        *_searches("v.matches({})"),
    ],
    "matches": [*_patterns("matches('aaaaaaaaaaaaaaaaaaa', {})")[:2], *_searches("matches(v, {})")[:2]],
    "string_find_string": [*_patterns("'aaaaaaaaaaaaaaaa'.find({})")[:4], *_searches("v.find({})")[:6]],
    "string_find_all_string": [
        *_patterns("'aaaaaaaaaaaaaaaaaaa'.findAll({})")[:4],
        *_searches("v.findAll({})"),
    ],
    "string_find_all_string_int": [
        *_patterns("'aaaaaaaaaaaaa'.findAll({}, 9)")[:2],
        *_searches("v.findAll({}, 100000)")[:6],
    ],
    # lists
    "list_a_index_of_int": [
        (_NUMBERS, "v.indexOf(-1)"),
        (_WORDS, "v.indexOf('x')"),
        (_LISTS, "v.indexOf([-1])"),
        (_NANS, "v.indexOf(1.0)"),
        ("'a'", "[v + 'a', v + 'b', v + 'c', v + 'd'].indexOf(v + 'e')"),
        (_OPTIONALS, "v.indexOf(optional.of(-1))"),
        ("'a'", "v.split('').indexOf('b')"),
    ],
    "list_a_last_index_of_int": [
        (_NUMBERS, "v.lastIndexOf(-1)"),
        (_WORDS, "v.lastIndexOf('x')"),
        (_LISTS, "v.lastIndexOf([-1])"),
        ("'a'", "[v + 'a', v + 'b', v + 'c', v + 'd'].lastIndexOf(v + 'e')"),
    ],
    "list_includes_dyn_dyn": [
        (_NUMBERS, "v.includes(-1)"),
        (_LISTS, "v.includes([-1])"),
        ("'a'", "[v + 'a', v + 'b'].includes(v + 'e')"),
        (_MAP, "v.includes(v)"),
    ],
    "list_slice": [(_NUMBERS, "v.slice(0, v.size())"), (_NUMBERS, "v.slice(0, v.size() + 1)")],
    "list_flatten": [(_LISTS, "v.flatten()"), (_NUMBERS, "[v, v, v].flatten()")],
    "list_flatten_int": [
        (_LISTS, "v.flatten(3)"),
        (_NUMBERS, "[[v, v], [v]].flatten(100)"),
        (_NUMBERS, "dyn(v).flatten(50)"),
    ],
    "lists_range": [(_NUMBERS, "lists.range(v.size())"), ("'a'", "lists.range(i)")],
    "list_reverse": [(_NUMBERS, "v.reverse()"), (_WORDS, "v.reverse()")],
    "list_distinct": [
        (_NUMBERS, "v.distinct()"),
        (_LISTS, "v.distinct()"),
        (_NANS, "v.distinct()"),
        (_OPTIONALS, "v.distinct()"),
        ("'a'", "[v + 'a', v + 'b', v + 'a', v + 'b'].distinct()"),
        (_WORDS, "v.distinct()"),
    ],
    "list_sets_contains_list": [
        (_NUMBERS, "sets.contains(v, v)"),
        (_LISTS, "sets.contains(v, v)"),
        (_NANS, "sets.contains(v, v)"),
        ("'a'", "sets.contains([v + 'a', v + 'b'], [v + 'b', v + 'a'])"),
    ],
    "list_sets_intersects_list": [
        (_NUMBERS, "sets.intersects(v, [-1])"),
        (_LISTS, "sets.intersects(v, [[-1], [-2]])"),
    ],
    "list_sets_equivalent_list": [
        (_NUMBERS, "sets.equivalent(v, v)"),
        (_LISTS, "sets.equivalent(v, v.reverse())"),
    ],
    # optionals
    "optional_unwrap": [(_OPTIONALS, "optional.unwrap(v)")],
    "optional_unwrapOpt": [(_OPTIONALS, "v.unwrapOpt()")],
    "optional_of": [("[1]", "optional.of(v)")],
    "optional_ofNonZeroValue": [("[1]", "optional.ofNonZeroValue(v)"), (_MAP, "optional.ofNonZeroValue(v)")],
    "optional_none": [("'a'", "i > 0 ? optional.none() : optional.of(i)")],
    "optional_value": [
        ("[1]", "optional.of(v).value()"),
        ("'a'", "(i < 0 ? optional.of(i) : optional.none()).value()"),
    ],
    "optional_hasValue": [("[1]", "optional.of(v).hasValue()")],
    "optional_or_optional": [
        ("[1]", "optional.of(i).or(optional.of(i))"),
        ("[1]", "(i < 0 ? optional.of(i) : optional.none()).or(optional.of(i))"),
    ],
    "optional_orValue_value": [("[1]", "(i < 0 ? optional.of(i) : optional.none()).orValue(i)")],
    "select_optional_field": [(_MAP, "v.?abc"), ("'a'", "{'abc': {'def': i}}.?abc.def")],
    "list_optindex_optional_int": [(_NUMBERS, "v[?i]"), (_NUMBERS, "v[?(i + 1000000)]")],
    "optional_list_optindex_optional_int": [(_NUMBERS, "optional.of(v)[?i]")],
    "map_optindex_optional_value": [(_MAP, "v[?string(i)]"), ("'a'", "{v + 'b': 1}[?v + 'b']")],
    "optional_map_optindex_optional_value": [(_MAP, "optional.of(v)[?string(i)]")],
    "optional_list_index_int": [(_NUMBERS, "optional.of(v)[i]")],
    "optional_map_index_value": [
        (_MAP, "optional.of(v)[string(i)]"),
        ("'a'", "optional.of({v + 'b': 1})[v + 'b']"),
    ],
    "list_first": [("[1]", "v.first()")],
    "list_last": [("[1]", "v.last()")],
    # library values
    "string_to_url": [
        ("'http://a/'", "url(v)"),
        ("'%41'", "url('http://a/' + v)"),
        ("'é'", "url('http://' + v)"),
        ("'\\n'", "url(v)"),
        ("'%'", "url('/' + v)"),
        ("'['", "url('http://' + v)"),
        ("'@'", "url('http://' + v + '/')"),
    ],
    "is_url_string": [
        ("'%41'", "isURL('http://a/' + v)"),
        ("'é'", "isURL('http://' + v)"),
        ("'\\n'", "isURL(v)"),
        ("'%'", "isURL('/' + v)"),
    ],
    "url_get_query": [
        ("'a=%41&'", "url('http://a/?' + v).getQuery()"),
        ("'&'", "url('http://a/?' + v).getQuery()"),
        ("'a'", "url('http://a/?' + v).getQuery()"),
    ],
    **{
        f"url_get_{part}": [
            ("'a'", f"url('http://' + v + ':80/' + v).{call}()"),
            ("'é'", f"url('http://a/' + v).{call}()"),
        ]
        for part, call in (
            ("scheme", "getScheme"),
            ("host", "getHost"),
            ("hostname", "getHostname"),
            ("port", "getPort"),
            ("escaped_path", "getEscapedPath"),
        )
    },
    "string_to_quantity": [
        ("'1'", "quantity(v)"),
        ("'0'", "quantity(v + '1')"),
        ("'1'", "quantity('0.' + v + 'Ki')"),
        ("'a'", "quantity(v)"),
        ("'a'", "quantity(string(i) + 'e' + string(i))"),
        ("'é'", "quantity(v)"),
    ],
    "is_quantity_string": [
        ("'1'", "isQuantity(v)"),
        ("'m'", "isQuantity('1' + v)"),
        ("'a'", "isQuantity('1e' + string(i))"),
    ],
    **{
        id: [
            ("'a'", f"quantity('1e' + string(99990 - i % 100)).{call}"),
            ("'1'", f"quantity(v).{call}"),
            ("'a'", f"quantity('1e' + string(i % 20000)).{call}"),
            ("'a'", f"quantity(string(i) + 'Ki').{call}"),
        ]
        for id, call in (
            ("quantity_add", "add(quantity('1'))"),
            ("quantity_add_int", "add(1)"),
            ("quantity_sub", "sub(quantity('1n'))"),
            ("quantity_sub_int", "sub(1)"),
            ("quantity_is_greater_than", "isGreaterThan(quantity('12e19'))"),
            ("quantity_is_less_than", "isLessThan(quantity('12e19'))"),
            ("quantity_compare_to", "compareTo(quantity('12e19'))"),
            ("quantity_get_float", "asApproximateFloat()"),
            ("quantity_get_int", "asInteger()"),
            ("quantity_is_integer", "isInteger()"),
        )
    },
    "quantity_sign": [("'1'", "sign(quantity(v))"), ("'a'", "sign(quantity(string(i)))")],
    "string_to_ip": [
        ("':'", "ip(v)"),
        ("'1.'", "ip(v)"),
        ("'f'", "ip('::' + v)"),
        ("'a'", "ip('::1%' + v)"),
        ("'é'", "ip(v)"),
        ("'a'", "ip('::' + string(i))"),
    ],
    "is_ip": [
        ("':'", "isIP(v)"),
        ("'1.'", "isIP(v)"),
        ("'é\\n'", "isIP(v)"),
        ("'a'", "isIP('10.0.0.' + string(i % 256))"),
    ],
    "ip_is_canonical": [("':'", "ip.isCanonical(v)"), ("'a'", "ip.isCanonical('::' + string(i % 9999))")],
    "ip_to_string": [("'a'", "string(ip('::' + string(i % 9999)))")],
    "string_to_cidr": [
        ("'1'", "cidr('1.1.1.1/' + v)"),
        ("'/'", "cidr(v)"),
        ("'é'", "cidr(v)"),
        ("':'", "cidr(v + '/1')"),
    ],
    "is_cidr": [("'1'", "isCIDR('1.1.1.1/' + v)"), ("'/'", "isCIDR(v)"), ("'é\\n'", "isCIDR(v)")],
    "cidr_contains_ip_string": [
        ("'1'", "cidr('10.0.0.0/8').containsIP(v)"),
        ("'a'", "cidr('10.0.0.0/8').containsIP('10.0.0.' + string(i % 256))"),
    ],
    "cidr_contains_cidr_string": [
        ("'1'", "cidr('10.0.0.0/8').containsCIDR(v)"),
        ("'a'", "cidr('10.0.0.0/8').containsCIDR('10.0.0.0/' + string(i % 33))"),
    ],
    "string_to_semver": [
        ("'1'", "semver(v)"),
        ("'a.'", "semver('1.0.0-' + v + 'a')"),
        ("'1.'", "semver('1.0.0+' + v + '1')"),
        ("'é'", "semver('1.0.0-' + v)"),
        ("'a'", "semver('1.0.' + string(i))"),
    ],
    "string_bool_to_semver": [("'0'", "semver('v' + v, true)"), ("'a.'", "semver('1.0.0-' + v + 'a', true)")],
    "is_semver_string": [
        ("'a.'", "isSemver('1.0.0-' + v + 'a')"),
        ("'é'", "isSemver('1.0.0-' + v)"),
        ("'1'", "isSemver(v + '.1.1')"),
    ],
    "is_semver_string_bool": [("'0'", "isSemver('v' + v, true)"), ("'.'", "isSemver(v, true)")],
    **{
        id: [("'a.'", f"semver('1.0.0-' + v + 'a').{call}"), ("'a'", f"semver('1.0.' + string(i)).{call}")]
        for id, call in (
            ("semver_is_greater_than", "isGreaterThan(semver('1.0.0-a.a.a.a.a.a.a.a.a.a'))"),
            ("semver_is_less_than", "isLessThan(semver('1.0.0-a.a.a.a.a'))"),
            ("semver_compare_to", "compareTo(semver('1.0.0-a.a.a.a.a.a.a'))"),
            ("semver_major", "major()"),
            ("semver_minor", "minor()"),
            ("semver_patch", "patch()"),
        )
    },
    "format-named": [("'a'", "format.named(v)")],
    "format-validate": [
        (leaf, f"format.{name}().validate(v)")
        for name, leaves in {
            "dns1123Label": ("'a'", "'-'"),
            "dns1123Subdomain": ("'a'", "'a.'"),
            "dns1035Label": ("'a'",),
            "qualifiedName": ("'a'", "'a/'"),
            "dns1123LabelPrefix": ("'a-'",),
            "labelValue": ("'a.'",),
            "uri": ("'/%41'", "'é'"),
            "uuid": ("'a'",),
            "byte": ("'aaaa'", "'A='"),
            "date": ("'1'",),
            "datetime": ("'t'", "'1'"),
        }.items()
        for leaf in leaves
    ],
    # behind macros
    "@mapInsert_map_map": [
        (_NUMBERS, "v.transformMapEntry(k, w, {string(k): w})"),
        (_NUMBERS, "dyn(v).transformMapEntry(k, w, {k: w})"),
    ],
    "@mapInsert_map_key_value": [(_MAP, "v.transformMap(k, w, w)"), (_MAP, "dyn(v).transformMap(k, w, w)")],
    # patches
    **{
        o.id: [("'/~'", f"{f.name}(v)"), ("'é'", f"{f.name}(v)")]
        for f in ESCAPE.functions
        for o in f.overloads
    },
}
#: Every macro and every literal is a row, too.
MACROS: list[Row] = [
    (_NUMBERS, "v.all(e, e >= 0)"),
    (_NUMBERS, "v.exists(e, e < 0)"),
    (_NUMBERS, "v.exists_one(e, e == 1)"),
    (_NUMBERS, "v.map(e, e)"),
    (_NUMBERS, "v.map(e, e > 0, e)"),
    (_NUMBERS, "v.filter(e, e > 0)"),
    (_NUMBERS, "v.all(a, b, a <= b)"),
    (_NUMBERS, "v.exists(a, b, a > b)"),
    (_NUMBERS, "v.existsOne(a, b, a == 1)"),
    (_NUMBERS, "v.transformList(a, b, b)"),
    (_MAP, "v.all(a, b, a != '')"),
    (_MAP, "v.exists(a, a == '')"),
    (_NUMBERS, "v.sortBy(e, -e)"),
    (_WORDS, "v.sortBy(e, e)"),
    (_NUMBERS, "cel.bind(w, v, w.size() + w.size())"),
    (_OPTIONALS, "v.map(e, e.optMap(f, f + 1))"),
    (_OPTIONALS, "v.map(e, e.optFlatMap(f, optional.of(f)))"),
    ("'a'", "[v, v, v]"),
    ("'a'", "{v + 'a': v, v + 'b': v}"),
    ("'a'", "{dyn(i): v, dyn(true): v}[i]"),
    ("'a'", "[?optional.of(v)]"),
    ("'a'", "google.protobuf.StringValue{value: v}"),
    ("'a'", "google.protobuf.Struct{fields: {'a': v}}"),
    ("b'\\x0a\\x02\\x1a\\x00'", "google.protobuf.Any{type_url: 'a/google.protobuf.ListValue', value: v}"),
    ("b'\\x2a\\x00'", "google.protobuf.Any{type_url: 'a/google.protobuf.Value', value: v}"),
    ("b'\\x32\\x02\\x0a\\x00'", "google.protobuf.Any{type_url: 'a/google.protobuf.Value', value: v}"),
    ("b'\\xff'", "google.protobuf.Any{type_url: 'a/google.protobuf.Value', value: v}"),
    ("'a'", "google.protobuf.Any{type_url: v, value: b''}"),
    ("'a'", "has({'a': i}.a)"),
    (_MAP, "has(v.abc)"),
    (_INT_MAP, "dyn(v)[i]"),
    ("'a'", "lists.range(9).transformMapEntry(k, w, k == 0 ? {dyn(true): 1} : {dyn(k): 1})[dyn(i % 9)]"),
    ("'a'", "dyn(i) + dyn(1) > dyn(0)"),
    ("'a'", "dyn(v).size() > i"),
    ("'a'", "dyn(v) + 'x'"),
    ("'a'", "int(dyn(v))"),
    ("'a'", "d.a"),
    ("'a'", "d.a.b.c"),
    ("'a'", "d.zz"),
    ("'a'", "d.?a"),
    ("'a'", "d[?'zz'].orValue([1])"),
    ("'a'", "has(d.a) && has(d.b) && has(d.a.b)"),
    ("'a'", "d.a == d.a && d.a != d.b"),
    ("'a'", "dyn(v) == dyn(v + '') && dyn(v) != dyn('b' + v)"),
    ("'a'", "dyn(v) == 'abc' || dyn(i) == 'abc' || dyn(i) == dyn(1u)"),
    ("'a'", "i > -1 && (d.a == x || d.b == x) && (i > 5 ? d.a == x : d.c == x)"),
    ("'a'", "dyn([1, i]) + dyn([2]) == dyn([1, i, 2])"),
    ("'a'", "dyn(x).startsWith('a') && dyn(x).matches('a.*b') && timestamp(dyn(i)) > timestamp(0)"),
    ("'a'", "string(dyn(duration('1h'))) + string(dyn(1.5))"),
    ("'a'", "dyn(x) in ['abcd', 'b'] || dyn(i) in ['a', 'b']"),
    ("'a'", "x + string(i)"),
    ("'a'", "i in [1, 2, 3]"),
    ("'a'", "dyn(i) in [1, 2, 3]"),
]
#: What cannot be called by an expression of these environments: rights are asked of a server, two or three times at
#: most (a check costs 350,000).
UNREACHABLE = {
    o.id for library in KUBERNETES if library.name == "authz" for f in library.functions for o in f.overloads
}


#: Functions whose operands have a size of their own (numbers, times, addresses), and those of lists that are alike for
#: all types of elements: their rows are made from the types of their operands.
BY_TYPE = {
    *_OPERATORS,
    "size",
    "@sortByAssociatedKeys",
    "sort",
    "isSorted",
    "min",
    "max",
    "sum",
    "bool",
    "bytes",
    "double",
    "duration",
    "int",
    "string",
    "timestamp",
    "uint",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "ip",
    "family",
    "isGlobalUnicast",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isLoopback",
    "isUnspecified",
    "containsIP",
    "containsCIDR",
    "masked",
    "prefixLength",
    "format.byte",
    "format.date",
    "format.datetime",
    "format.dns1035Label",
    "format.dns1035LabelPrefix",
    "format.dns1123Label",
    "format.dns1123LabelPrefix",
    "format.dns1123Subdomain",
    "format.dns1123SubdomainPrefix",
    "format.labelValue",
    "format.qualifiedName",
    "format.uri",
    "format.uuid",
}


def overloads(env: Env = ENV) -> Iterator[tuple[str, Overload]]:
    """Every function of *env* with its overloads."""
    for function in env.functions.values():
        for overload in function.overloads:
            yield function.name, overload


def rows_of(name: str, overload: Overload) -> list[Row]:
    """The worst inputs of one overload: those written by hand, else small operands by type, lists of them doubled."""
    rows = BY_HAND.get(overload.id, [])
    rows = (
        rows or BY_HAND.get(f"{'size_' + overload.id.removesuffix('_size')}", []) if name == "size" else rows
    )
    return rows or _by_type(name, overload)


def _by_type(name: str, overload: Overload) -> list[Row]:
    leaf, operands = "'a'", []
    for param in overload.params:
        if param.kind is types.Kind.LIST:
            of = param.params[0].name if param.params[0].kind is not types.Kind.PARAM else "int"
            leaf = f"[{_LITERALS[of]}]"
            operands.append("v")
        elif param.name in _SMALL:
            operands.append(_SMALL[param.name])
        else:
            return []
    if name in _OPERATORS:
        return [(leaf, "(" + _OPERATORS[name].format(*operands) + ")")]
    if name == "@sortByAssociatedKeys":
        return [(leaf, "v.sortBy(e, e)")]
    if overload.member:
        rows = [(leaf, f"{operands[0]}.{name}({', '.join(operands[1:])})")]
        if overload.params[-1] == types.STRING and overload.params[0] in (TIMESTAMP, DURATION):
            zones = ("'America/New_York'", "v", "'+01:' + v", "'Mars/' + string(i)")
            rows = [("'0'", f"{operands[0]}.{name}({zone})") for zone in zones]
        return rows
    return [(leaf, f"{name}({', '.join(operands)})")]


_LITERALS = {
    "bool": "true",
    "int": "3",
    "uint": "3u",
    "double": "3.5",
    "string": "'abc'",
    "bytes": "b'abc'",
    "google.protobuf.Duration": "duration('3s')",
    "google.protobuf.Timestamp": "timestamp(3)",
}
