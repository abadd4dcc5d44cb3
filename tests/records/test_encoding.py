"""Spellings: what is written is read back, and different keys are different texts."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillframe.algebra import types as t
from stillframe.algebra.types import Type
from stillframe.records.encoding import (
    key_text,
    key_values,
    lettered_text,
    lettered_values,
    text_of,
    value_of,
)
from stillframe.records.stores.sqlite_values import loaded, stored

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    t.BOOLEAN: st.booleans(),
    t.TINYINT: st.integers(-128, 127),
    t.SMALLINT: st.integers(-(2**15), 2**15 - 1),
    t.INT: st.integers(-(2**31), 2**31 - 1),
    t.BIGINT: st.integers(-(2**63), 2**63 - 1),
    t.decimal(9, 2): st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    t.decimal(38, 10): st.integers(-(10**38) + 1, 10**38 - 1).map(
        lambda n: Decimal((n < 0, _digits(n), -10))
    ),
    t.DOUBLE: st.floats(),
    t.STRING: TEXT | st.sampled_from(["", ":", "%", "%N", "%3A", "N", "::"]),
    t.BINARY: st.binary(),
    t.DATE: st.dates(),
    t.TIMESTAMP: st.datetimes(
        datetime(1, 1, 3),
        datetime(9999, 12, 29),
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=-9))]),
    ),
}
TYPES = st.sampled_from(sorted(VALUES, key=str))


def _digits(n: int) -> tuple[int, ...]:
    return tuple(map(int, str(abs(n))))


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return (
        type(one) is type(other) and one == other and (not isinstance(one, Decimal) or str(one) == str(other))
    )


@st.composite
def typed(draw: st.DrawFn) -> tuple[Type, Any]:
    type_ = draw(TYPES)
    return type_, draw(VALUES[type_])


@st.composite
def keys(draw: st.DrawFn) -> tuple[list[Type], tuple[Any, ...], tuple[Any, ...]]:
    """Types, and two keys of them that are often alike."""
    types = draw(st.lists(TYPES, max_size=4))
    one = tuple(draw(st.none() | VALUES[type_]) for type_ in types)
    other = tuple(
        draw(st.just(value) | st.none() | VALUES[type_]) for value, type_ in zip(one, types, strict=True)
    )
    return types, one, other


@given(typed())
def test_a_spelled_value_is_read_back(case: tuple[Type, Any]) -> None:
    type_, value = case
    assert same(value_of(text_of(value), type_), value)


@given(typed())
def test_what_sqlite_keeps_is_read_back(case: tuple[Type, Any]) -> None:
    type_, value = case
    assert same(loaded(stored(value), type_), value)


@given(keys())
def test_keys_are_read_back_and_told_apart(case: tuple[list[Type], tuple[Any, ...], tuple[Any, ...]]) -> None:
    types, one, other = case
    for values in (one, other):
        text = key_text(values)
        assert text.isascii()
        assert text.isprintable()
        assert all(map(same, key_values(text, types), values))
        assert all(map(same, lettered_values(lettered_text(values)), values))
    alike = all(map(same, one, other))
    assert (key_text(one) == key_text(other)) is alike
    assert (lettered_text(one) == lettered_text(other)) is alike


@given(typed(), typed())
def test_letters_tell_types_apart(one: tuple[Type, Any], other: tuple[Type, Any]) -> None:
    alike = same(one[1], other[1])
    assert (lettered_text([one[1]]) == lettered_text([other[1]])) is alike


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (-7, "-7"),
        (Decimal("1.50"), "1.50"),
        (Decimal("-0.00"), "0.00"),
        (Decimal("1E+2"), "100"),
        (0.1, "0.1"),
        (-0.0, "0.0"),
        (1e300, "1e+300"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
        (date(33, 4, 3), "0033-04-03"),
        (datetime(33, 4, 3, 15, tzinfo=UTC), "0033-04-03T15:00:00.000000Z"),
        (datetime(2026, 11, 16, 9, 30, 0, 5, timezone(timedelta(hours=1))), "2026-11-16T08:30:00.000005Z"),
        ("a:b%", "a:b%"),
        (b"\0\xff", "AP8="),
    ],
)
def test_spelling(value: Any, text: str) -> None:
    assert text_of(value) == text


def test_spelled_keys() -> None:
    assert key_text([None, "", "%N", "a:b", "Zoë", 7]) == "%N::%25N:a%3Ab:Zo%C3%AB:7"
    assert lettered_text([None, "", "7", 7, Decimal("7.0"), True]) == "%N:s:s7:i7:d7.0:btrue"
    assert key_values("", []) == lettered_values("") == ()
    assert lettered_values("s") == ("",)


def test_what_has_no_spelling() -> None:
    with pytest.raises(TypeError, match="time zone"):
        text_of(datetime(2026, 1, 1))
    with pytest.raises(TypeError, match="list"):
        text_of([])
