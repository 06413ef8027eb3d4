"""Claims about the warning headers of an answer."""

from weir.apiserver.transport.bodies import LONGEST_CUT, MOST_CHARACTERS, warning_headers

# ── warnings are said once, and together have a bound (issue 14, F16) ──


def test_few_warnings_are_told_whole():
    assert warning_headers(["x" * 4000, "", "y", "y"]) == [b'299 - "' + b"x" * 4000 + b'"', b'299 - "y"']


def test_many_warnings_are_cut_and_then_left_out():
    headers = warning_headers(f"{number} {'w' * 1000}" for number in range(5002))
    assert len(headers) == MOST_CHARACTERS // LONGEST_CUT
    assert headers[0] == b'299 - "0 ' + b"w" * (LONGEST_CUT - 2) + b'"'


def test_a_warning_forges_no_header():
    assert warning_headers(['a"\r\nSet-Cookie: x\\']) == [b'299 - "a\\"  Set-Cookie: x\\\\"']
