"""Formats by name and by function: there and back, and what is said about values that do not fit."""

from __future__ import annotations

from typing import Any

import pytest

from bifrost.client.errors import ConfigError, SerializationError
from bifrost.client.serialization import FORMATS, deserializer, serializer


@pytest.mark.parametrize(
    ("name", "value"), [("bytes", b"\xff"), ("str", "ö"), ("json", {"a": [1, 2.5, None]}), ("msgpack", {"a": b"\xff"})]
)
def test_there_and_back(name: Any, value: object) -> None:
    data = serializer(name)(value)
    assert type(data) is bytes
    assert deserializer(name)(data) == value


@pytest.mark.parametrize("name", [*FORMATS, lambda _: 1 / 0])
def test_none_stays_none(name: Any) -> None:
    assert serializer(name)(None) is None
    assert deserializer(name)(None) is None


def test_bytes_take_what_is_nearly_bytes() -> None:
    assert [serializer("bytes")(each) for each in (bytearray(b"a"), memoryview(b"a"), "ä")] == [b"a", b"a", b"\xc3\xa4"]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("bytes", 1, 'a key of type int is not bytes. Say how it becomes bytes: key="json"'),
        ("str", b"a", "a key of type bytes cannot be sent as str: "),
        ("json", object(), "a key of type object cannot be sent as json: "),
        (len, "text", "the key serializer len returned int. It must return bytes or None."),
        (
            lambda _: 1 / 0,
            "text",
            'a key of type str cannot be sent as <lambda>: division by zero. For text, say key="str"',
        ),
    ],
)
def test_what_cannot_be_sent(name: Any, value: object, expected: str) -> None:
    with pytest.raises(SerializationError) as raised:
        serializer(name, "key")(value)
    assert str(raised.value).startswith(expected)


@pytest.mark.parametrize("name", ["str", "json", "msgpack", lambda data: data.nothing])
def test_what_cannot_be_read(name: Any) -> None:
    with pytest.raises(SerializationError, match=r'a value cannot be read as .* Read it with value="bytes"'):
        deserializer(name)(b"\xc1")


@pytest.mark.parametrize("make", [serializer, deserializer])
def test_unknown_names(make: Any) -> None:
    with pytest.raises(ConfigError, match=r"value='jsn' is no format. Did you mean json\?"):
        make("jsn")
    with pytest.raises(ConfigError, match="There are bytes, str, json, msgpack, and functions"):
        make(17)
