"""Quantities of the Kubernetes API: parsing, arithmetic, canonical form.

Spec: the Kubernetes API's quantity (resource requests, device capacity) and its CEL view (cel.md 10.6). A number may
lack digits (`Mi` is 0), anything below 1n becomes 1n, binary amounts stop at 2^63-1, and `2000m` is *not* an integer
to CEL: upstream keeps small amounts as integer × power of ten, and `is_integer` is about that form. The form is
therefore kept here too.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache, total_ordering
from typing import Final

FORMAT_WRONG: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
SUFFIX_WRONG: Final = "unable to parse quantity's suffix"
NUMBER_WRONG: Final = "unable to parse numeric part of quantity"

_INT64_MAX: Final = 2**63 - 1
_INT64_MIN: Final = -(2**63)
_NANO: Final = -9
_FAST_DIGITS: Final = 18
#: Exponents further apart than this are never lined up digit by digit: `1e2000000000` is seven bytes of text.
_MOST_SHIFT: Final = 100_000

_PARTS: Final = re.compile(
    r"([+-]?)(0*)([0-9]*)(?:(\.)([0-9]*))?((?:[eEinumkKMGTP]*)(?:[-+]?)[0-9]*)\Z", re.ASCII
)
_PLAIN: Final = re.compile(r"([1-9][0-9]{0,14})(m|Ki|Mi|Gi|k|M|G)?\Z", re.ASCII)
_EXPONENT: Final = re.compile(r"[eE][+-]?[0-9]{1,19}\Z", re.ASCII)


class Format(Enum):
    """Which family of suffixes an amount was written in, and is printed in."""

    DECIMAL_SI = "DecimalSI"
    DECIMAL_EXPONENT = "DecimalExponent"
    BINARY_SI = "BinarySI"


_DECIMAL: Final = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = {exponent: suffix for suffix, exponent in _BINARY.items()} | {0: ""}
#: Digits a binary amount may have to be held as an integer; larger ones are held as decimals.
_BINARY_DIGITS: Final = {exponent: 14 - exponent * 3 // 10 for exponent in _BINARY.values()}


class QuantityError(ValueError):
    """The text is not a quantity; the message is the API server's."""


@total_ordering
class Quantity:
    """An exact amount, `unscaled × 10^scale`; equal amounts are equal however they are written.

    >>> parse_quantity("1Gi") > parse_quantity("1G")
    True
    """

    __slots__ = ("format", "held_as_integer", "scale", "text", "unscaled")

    def __init__(
        self,
        unscaled: int,
        scale: int = 0,
        form: Format = Format.DECIMAL_SI,
        *,
        held_as_integer: bool = True,
        text: str = "",
    ) -> None:
        self.unscaled, self.scale, self.format = unscaled, scale, form
        self.held_as_integer = held_as_integer
        self.text = text

    # -- comparison ---------------------------------------------------------------------------------

    def compare(self, other: Quantity) -> int:
        """Return -1, 0 or 1 as this amount is below, equal to or above *other*."""
        mine, theirs = self.unscaled, other.unscaled
        if self.scale != other.scale:
            if (sign := _sign(mine)) != (other_sign := _sign(theirs)):
                return 1 if sign > other_sign else -1
            if sign == 0:
                return 0
            shift = self.scale - other.scale
            # Magnitudes that differ by whole orders are settled without writing the digits out.
            low, high = _digit_bounds(mine)
            other_low, other_high = _digit_bounds(theirs)
            if low + shift > other_high:
                return sign
            if high + shift < other_low:
                return -sign
            if shift > 0:
                mine *= 10**shift
            else:
                theirs *= 10**-shift
        return (mine > theirs) - (mine < theirs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.compare(other) == 0

    def __lt__(self, other: Quantity) -> bool:
        return self.compare(other) < 0

    def __hash__(self) -> int:
        return hash(_without_factors(self.unscaled, self.scale))

    # -- arithmetic ---------------------------------------------------------------------------------

    def __add__(self, other: Quantity) -> Quantity:
        return self._combine(other, other.unscaled)

    def __sub__(self, other: Quantity) -> Quantity:
        return self._combine(other, -other.unscaled)

    def _combine(self, other: Quantity, addend: int) -> Quantity:
        form = self.format if self.unscaled else other.format
        both_integers = self.held_as_integer and other.held_as_integer
        if both_integers and not addend:
            return Quantity(self.unscaled, self.scale, form)
        if both_integers and not self.unscaled:
            return Quantity(addend, other.scale, form)
        shift = self.scale - other.scale
        if abs(shift) > _MOST_SHIFT:
            raise QuantityError("quantities are too far apart to be added")
        scale = min(self.scale, other.scale)
        mine = self.unscaled * 10**shift if shift > 0 else self.unscaled
        theirs = addend * 10**-shift if shift < 0 else addend
        total = mine + theirs
        fits = both_integers and all(_INT64_MIN <= part <= _INT64_MAX for part in (mine, theirs, total))
        return Quantity(total, scale, form, held_as_integer=fits)

    def __neg__(self) -> Quantity:
        return Quantity(-self.unscaled, self.scale, self.format, held_as_integer=self.held_as_integer)

    # -- views --------------------------------------------------------------------------------------

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return _sign(self.unscaled)

    def as_int64(self) -> int | None:
        """Return the amount as CEL's `asInteger` sees it, or None unless held as an integer, scale ≥ 0.

        >>> parse_quantity("2k").as_int64(), parse_quantity("2000m").as_int64()
        (2000, None)
        """
        if not self.held_as_integer or self.scale < 0:
            return None
        if self.scale > _FAST_DIGITS:
            return 0 if not self.unscaled else None
        number = self.unscaled * 10**self.scale
        return number if _INT64_MIN <= number <= _INT64_MAX else None

    def scaled(self, scale: int) -> int:
        """Return the amount in units of 10^*scale*, rounded away from zero, as the scheduler counts it.

        >>> parse_quantity("1500m").scaled(0), parse_quantity("1.5").scaled(-3)
        (2, 1500)
        """
        shift = self.scale - scale
        if shift >= 0:
            if shift > _MOST_SHIFT:
                raise QuantityError("quantity is too large")
            return int(self.unscaled * 10**shift)
        return _shift_down(self.unscaled, -shift)

    @property
    def value(self) -> int:
        """The amount in whole units, rounded up (away from zero)."""
        return self.scaled(0)

    @property
    def milli_value(self) -> int:
        """The amount in thousandths, rounded up: how CPU is counted."""
        return self.scaled(-3)

    def as_float(self) -> float:
        """Return the nearest double upstream computes: mantissa times a power of ten, both rounded."""
        try:
            mantissa = float(self.unscaled)
        except OverflowError:
            mantissa = float("inf") if self.unscaled > 0 else float("-inf")
        if not mantissa or not self.scale:
            return mantissa
        return mantissa * _power_of_ten(self.scale)

    # -- printing -----------------------------------------------------------------------------------

    def __str__(self) -> str:
        return self.text or self._canonical()

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def _canonical(self) -> str:
        """Print without a fraction, with the largest suffix that loses nothing."""
        if not self.unscaled:
            return "0"
        form = self.format
        if form is Format.BINARY_SI:
            whole = self._whole()
            if whole is None or -1024 < whole < 1024:
                form = Format.DECIMAL_SI  # would round, or says nothing as a binary amount
            else:
                return _canonical_binary(whole)
        mantissa, exponent = _without_factors(self.unscaled, self.scale)
        excess = exponent % 3
        mantissa, exponent = mantissa * 10**excess, exponent - excess
        if form is Format.DECIMAL_SI and exponent in _DECIMAL_SUFFIX:
            return f"{mantissa}{_DECIMAL_SUFFIX[exponent]}"
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)

    def _whole(self) -> int | None:
        """Return the amount as an integer, or None when it has a fraction."""
        mantissa, exponent = _without_factors(self.unscaled, self.scale)
        return None if exponent < 0 or exponent > _MOST_SHIFT else int(mantissa * 10**exponent)


@lru_cache(maxsize=8192)
def parse_quantity(text: str) -> Quantity:
    """Return the amount *text* writes.

    >>> parse_quantity("1.5Gi").value, str(parse_quantity(".5")), str(parse_quantity("Mi"))
    (1610612736, '500m', '0')
    >>> parse_quantity("200K")
    Traceback (most recent call last):
    weir.values.quantity.QuantityError: unable to parse quantity's suffix
    """
    if plain := _PLAIN.match(text):
        return _from_plain(plain[1], plain[2] or "", text)
    if not text:
        raise QuantityError(FORMAT_WRONG)
    if text == "0":
        return Quantity(0, text=text)
    parts = _PARTS.match(text)
    if parts is None:
        raise QuantityError(FORMAT_WRONG)
    sign, zeros, digits, _, fraction, suffix = parts.groups(default="")
    base, exponent, form = _suffix(suffix)
    number, denominator = digits or "0", fraction
    amount = _held_as_integer(sign, number, denominator, base, exponent, form, text)
    if amount is not None:
        return amount
    if not (zeros or digits or fraction):
        raise QuantityError(NUMBER_WRONG)  # `Mi` is 0, but `Ei` is too large to be held as an integer
    return _held_as_decimal(sign, number, denominator, base, exponent, form)


def find_quantity(text: str) -> Quantity | None:
    """Return the amount *text* writes, or None when it writes none."""
    try:
        return parse_quantity(text)
    except QuantityError:
        return None


def _from_plain(digits: str, suffix: str, text: str) -> Quantity:
    """The common forms, `100m`, `4`, `2Gi`, without the general machinery (held equal by a test)."""
    number = int(digits)
    if shift := _BINARY.get(suffix):
        if len(digits) > _BINARY_DIGITS[shift]:
            return Quantity(min(number << shift, _INT64_MAX), 0, Format.BINARY_SI, held_as_integer=False)
        return Quantity(number << shift, 0, Format.BINARY_SI, text=text if number & 7 else "")
    return Quantity(number, _DECIMAL[suffix], text="" if digits.endswith("000") else text)


def _suffix(suffix: str) -> tuple[int, int, Format]:
    """Return (base, exponent, family) of a suffix."""
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix], Format.DECIMAL_SI
    if suffix in _BINARY:
        return 2, _BINARY[suffix], Format.BINARY_SI
    if _EXPONENT.match(suffix) and _INT64_MIN <= (exponent := int(suffix[1:])) <= _INT64_MAX:
        return 10, (exponent + 2**31) % 2**32 - 2**31, Format.DECIMAL_EXPONENT
    raise QuantityError(SUFFIX_WRONG)


def _held_as_integer(
    sign: str, number: str, denominator: str, base: int, exponent: int, form: Format, text: str
) -> Quantity | None:
    """Return the amount as integer × power of ten, or None when upstream does not hold it so."""
    if base == 2:
        if denominator or len(number) > _BINARY_DIGITS[exponent]:
            return None
        amount = int(number) << exponent
        canonical = bool(int(number) & 7)
        scale = 0
    else:
        scale = exponent - len(denominator)
        if len(number) + len(denominator) > _FAST_DIGITS or scale < _NANO:
            return None
        shifted = number + denominator
        amount = int(shifted)
        canonical = scale % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"
    if amount > _INT64_MAX:
        return None
    return Quantity(-amount if sign == "-" else amount, scale, form, text=text if canonical else "")


def _held_as_decimal(
    sign: str, number: str, denominator: str, base: int, exponent: int, form: Format
) -> Quantity:
    """Return the amount as a decimal, rounded away from zero at 1n and capped when binary."""
    try:
        unscaled, scale = int(number + denominator), -len(denominator)
    except ValueError:  # more digits than Python converts; no resource has them
        raise QuantityError(NUMBER_WRONG) from None
    if base == 2:
        unscaled <<= exponent
    else:
        scale += exponent
    if unscaled:
        if scale < _NANO:
            unscaled, scale = _shift_down(unscaled, _NANO - scale), _NANO
        elif scale - _NANO <= _MOST_SHIFT // 100:
            unscaled, scale = unscaled * 10 ** (scale - _NANO), _NANO
    if form is Format.BINARY_SI:
        amount = Quantity(unscaled, scale)
        if amount > Quantity(_INT64_MAX):
            unscaled, scale = _INT64_MAX, 0
        elif unscaled > 0 and amount < Quantity(1):
            form = Format.DECIMAL_SI
    return Quantity(-unscaled if sign == "-" else unscaled, scale, form, held_as_integer=False)


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _digit_bounds(number: int) -> tuple[int, int]:
    """Return a lower and an upper bound of how many decimal digits a number other than 0 has."""
    bits = abs(number).bit_length()
    return bits * 3 // 10, bits * 31 // 100 + 1


def _shift_down(number: int, digits: int) -> int:
    """Divide by 10^digits, rounding away from zero."""
    if digits > _digit_bounds(number or 1)[1]:
        return _sign(number)
    quotient = int(-(-abs(number) // 10**digits))
    return quotient if number > 0 else -quotient


def _without_factors(mantissa: int, exponent: int) -> tuple[int, int]:
    """Move factors of ten from the mantissa to the exponent."""
    if not mantissa:
        return 0, 0
    while mantissa % 10 == 0:
        mantissa, exponent = mantissa // 10, exponent + 1
    return mantissa, exponent


def _canonical_binary(whole: int) -> str:
    exponent = 0
    while whole % 1024 == 0 and exponent < 60:
        whole, exponent = whole // 1024, exponent + 10
    return f"{whole}{_BINARY_SUFFIX[exponent]}"


def _power_of_ten(exponent: int) -> float:
    """Return 10^exponent as upstream's table gives it: a product of two rounded powers."""
    if exponent < -323:
        return 0.0
    if exponent > 308:
        return float("inf")
    big, small = divmod(abs(exponent), 32)
    if exponent >= 0:
        return float(f"1e{32 * big}") * float(f"1e{small}")
    return float(f"1e{-32 * big}") / float(f"1e{small}")
