"""Text to value and back, for one key."""

from __future__ import annotations

import pytest

from bifrost.settings.keys import Key, Kind


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Kind.BOOLEAN, "true", True),
        (Kind.BOOLEAN, " FALSE ", False),
        (Kind.INT, " 12 ", 12),
        (Kind.INT, "+5", 5),
        (Kind.INT, "-2147483648", -(1 << 31)),
        (Kind.SHORT, "32767", 32_767),
        (Kind.LONG, "9223372036854775807", (1 << 63) - 1),
        (Kind.DOUBLE, "1e-1", 0.1),
        (Kind.STRING, " a b ", "a b"),
        (Kind.LIST, "a , b,c", ("a", "b", "c")),
        (Kind.LIST, "", ()),
    ],
)
def test_reads_what_kafka_reads(kind: Kind, text: str, value: object) -> None:
    assert Key("some.name", kind, None).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Kind.BOOLEAN, "yes"),
        (Kind.BOOLEAN, ""),
        (Kind.INT, ""),
        (Kind.INT, "1.5"),
        (Kind.INT, "0x10"),
        (Kind.INT, "1_000"),
        (Kind.INT, "٣"),
        (Kind.INT, "2147483648"),
        (Kind.INT, "9" * 5_000),
        (Kind.SHORT, "32768"),
        (Kind.LONG, "9223372036854775808"),
        (Kind.DOUBLE, "half"),
        (Kind.DOUBLE, "NaN"),
    ],
)
def test_refuses_what_is_not_of_the_kind(kind: Kind, text: str) -> None:
    with pytest.raises(ValueError, match=r"some\.name=.*: expected "):
        Key("some.name", kind, None).parse(text)


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        (Key("n", Kind.INT, 1, at_least=1), "0", "n=0: expected a 32-bit integer, at least 1"),
        (Key("n", Kind.INT, 1, at_least=1, at_most=9), "10", "n=10: expected a 32-bit integer from 1 to 9"),
        (Key("n", Kind.INT, 1, at_least=1, also=-1), "-2", "n=-2: expected a 32-bit integer, at least 1, or -1"),
        (Key("n", Kind.STRING, "a", choices=("a", "b")), "c", "n=c: expected one of a, b"),
        (Key("n", Kind.LIST, (), choices=("a", "b")), "a,c", "n=a,c: expected a comma-separated list of a, b"),
        (Key("n", Kind.LIST, (), pattern="[0-9]"), "1,x", "n=1,x: expected a comma-separated list (each item [0-9])"),
    ],
)
def test_a_refusal_says_name_value_and_what_is_allowed(key: Key, text: str, expected: str) -> None:
    with pytest.raises(ValueError) as refusal:
        key.parse(text)
    assert str(refusal.value) == expected


def test_the_value_with_a_meaning_of_its_own_is_allowed() -> None:
    assert Key("n", Kind.INT, 1, at_least=1, also=-1).parse("-1") == -1


def test_a_list_of_choices_names_each_once() -> None:
    assert Key("n", Kind.LIST, (), choices=("a", "b")).parse("b,a,b") == ("b", "a")


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (Kind.BOOLEAN, True, "true"),
        (Kind.INT, -1, "-1"),
        (Kind.DOUBLE, 0.5, "0.5"),
        (Kind.LIST, ("a", "b"), "a,b"),
        (Kind.LIST, (), ""),
        (Kind.STRING, None, None),
    ],
)
def test_writes_what_it_would_read(kind: Kind, value: bool | int | float | tuple[str, ...] | None, text: str) -> None:
    assert Key("n", kind, None).format(value) == text
