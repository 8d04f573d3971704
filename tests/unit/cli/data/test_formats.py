"""How a message looks: text, JSON, hex, templates, and as Kafka's console consumer prints it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bifrost.cli.data.console_format import console_format
from bifrost.cli.data.formats import (
    FormatError,
    Received,
    guarded,
    hex_format,
    json_format,
    part,
    printable,
    text_format,
)
from bifrost.cli.data.shapes import SHAPES, ShapeError
from bifrost.cli.data.template import TemplateError, template_format
from bifrost.client.errors import UnsupportedError

RAW = part("text", null=b"null", terminal=False)
SAFE = part("text", null=b"null", terminal=True)


def message(**changes: Any) -> Received:
    given = Received("orders", 1, 42, 1, 1_777_636_800_123, b"k", b"v", [("a", b"1"), ("b", None)], 0)
    return given._replace(**changes)


def test_text_is_the_value_or_key_and_value() -> None:
    assert text_format(key_separator=None, key=RAW, value=RAW)(message()) == b"v\n"
    keyed = text_format(key_separator=b": ", key=RAW, value=RAW)
    assert keyed(message()) == b"k: v\n"
    assert keyed(message(key=None, value=None)) == b"null: null\n"
    assert keyed(message(value=b"\xff\x00")) == b"k: \xff\x00\n", "in a pipe, bytes are as they were sent"


def test_a_message_cannot_steer_a_terminal() -> None:
    assert SAFE(b"\x1b[2Jhi\r\n\t\xff\xc2\x9b") == b"\\x1b[2Jhi\\r\\n\t\\xff\\x9b"
    assert printable("grün ✓".encode()) == "grün ✓".encode()


def test_json_has_one_object_on_a_line() -> None:
    line = json_format(key="text", value="text")(message())
    assert json.loads(line) == {
        "topic": "orders",
        "partition": 1,
        "offset": 42,
        "timestamp": 1_777_636_800_123,
        "key": "k",
        "value": "v",
        "headers": [["a", "1"], ["b", None]],
    }
    binary = json.loads(
        json_format(key="text", value="text")(message(value=b"\xff", key=None, headers=[("x", b"\xfe")]))
    )
    assert (binary["key"], binary["value_base64"], "value" in binary) == (None, "/w==", False)
    assert binary["headers"] == [["x", {"base64": "/g=="}]]


def test_json_shows_what_shapes_say() -> None:
    render = json_format(key="int", value="json")
    assert json.loads(render(message(key=b"\xff\xff\xff\xfe", value=b'{"a": [1]}'))) | {"headers": 0} == {
        "topic": "orders", "partition": 1, "offset": 42, "timestamp": 1_777_636_800_123, "headers": 0,
        "key": -2, "value": {"a": [1]},
    }  # fmt: skip
    with pytest.raises(FormatError, match=r"partition 1 offset 42 of orders is not JSON: .*; try hex"):
        guarded(render, advice="try hex")(message(key=None))


@pytest.mark.parametrize(
    ("shape", "data", "expected"),
    [
        ("text", "ü".encode(), "ü"), ("hex", b"\0\xff", "00ff"), ("base64", b"\0\xff", "AP8="), ("int", b"\x80", -128),
        ("int", b"\0\0\1\0", 256), ("float", b"\x3f\x80\0\0", 1.0), ("float", b"\x3f\xf0" + b"\0" * 6, 1.0),
        ("uuid", bytes(16), "00000000-0000-0000-0000-000000000000"), ("bool", b"\1", True), ("json", b"[1]", [1]),
        ("uuid", b"00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000001"),
    ],
)  # fmt: skip
def test_shapes(shape: str, data: bytes, expected: object) -> None:
    assert SHAPES[shape](data) == expected


@pytest.mark.parametrize(
    ("shape", "data"),
    [("text", b"\xff"), ("int", b"abc"), ("float", b"ab"), ("uuid", b"x"), ("bool", b"\2"), ("json", b"{")],
)
def test_bytes_that_are_not_of_a_shape(shape: str, data: bytes) -> None:
    with pytest.raises(ShapeError, match="not"):
        SHAPES[shape](data)


def test_shapes_in_text() -> None:
    assert part("hex", null=b"-", terminal=False)(b"\xff") == b"ff"
    assert part("json", null=b"-", terminal=False)(b'{"a": 1}') == b'{"a":1}'
    assert part("int", null=b"-", terminal=True)(None) == b"-"


def test_hex_is_a_dump_that_fits_on_a_terminal() -> None:
    lines = hex_format(message(value=bytes(range(60, 90)), key=None)).decode().splitlines()
    assert lines[0] == "orders partition 1 offset 42 2026-05-01T12:00:00.123Z"
    assert lines[1:4] == ["  key null", "  header a 1 bytes", f"    000000  {'31':47}  1"]
    assert lines[4:6] == ["  header b null", "  value 30 bytes"]
    assert lines[6] == "    000000  3c 3d 3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b  <=>?@ABCDEFGHIJK"
    assert lines[7].split() == ["000010", *f"{bytes(range(76, 90)).hex(' ')}".split(), "LMNOPQRSTUVWXY"]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (r"%t %p %o %k %s\n", b"orders 1 42 k v\n"),
        (r"%T\t%d", b"1777636800123\t2026-05-01T12:00:00.123Z"),
        ("%S/%K", b"1/1"), ("%R", b"\0\0\0\1"), ("%h", b"a=1,b=null"), ("100%%", b"100%"), ("%%%s%%s", b"%v%s"),
        ("%s%s", b"vv"), ("plain", b"plain"), ("", b""), ("%%%%", b"%%"),
    ],
)  # fmt: skip
def test_templates(template: str, expected: bytes) -> None:
    assert template_format(template, key=RAW, value=RAW)(message()) == expected


def test_null_in_templates() -> None:
    assert template_format("%k|%K|%s|%S", key=RAW, value=RAW)(message(key=None, value=None)) == b"null|-1|null|-1"


@pytest.mark.parametrize("template", ["%x", "%", "%s %", r"%s\q", "%%%"])
def test_templates_that_make_no_sense(template: str) -> None:
    with pytest.raises(TemplateError):
        template_format(template, key=RAW, value=RAW)


def test_the_console_prints_the_value_and_more_on_request() -> None:
    assert console_format({})(message()) == b"v\n"
    assert console_format({"print.key": "true"})(message(key=None)) == b"null\tv\n"
    names = ("timestamp", "partition", "offset", "headers", "key")
    everything = console_format({f"print.{name}": "true" for name in names})
    assert everything(message()) == b"CreateTime:1777636800123\tPartition:1\tOffset:42\ta:1,b:null\tk\tv\n"
    assert everything(message(headers=[], timestamp_type=0)).startswith(
        b"NO_TIMESTAMP\tPartition:1\tOffset:42\tNO_HEADERS"
    )
    assert console_format({"print.value": "false", "print.key": "true"})(message()) == b"k\n"
    assert (
        console_format({"key.deserializer": "a.b.LongDeserializer", "print.key": "true", "key.separator": "="})(
            message(key=b"\0" * 7 + b"\5")
        )
        == b"5=v\n"
    )


def test_the_console_refuses_what_it_cannot_print() -> None:
    with pytest.raises(UnsupportedError, match="KafkaAvroDeserializer"):
        console_format({"value.deserializer": "io.confluent.kafka.serializers.KafkaAvroDeserializer"})


def test_a_property_that_nobody_knows_is_remarked_upon(capsys: pytest.CaptureFixture[str]) -> None:
    assert console_format({"print.keys": "true"})(message()) == b"v\n"
    assert "the formatter has no property print.keys, which is ignored. Did you mean" in capsys.readouterr().err
