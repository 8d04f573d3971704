"""What a line of input means, and what is said of one that means nothing."""

from __future__ import annotations

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bifrost.cli.data.formats import Received, json_format
from bifrost.cli.data.lines import (
    LineError,
    Record,
    hex_lines,
    json_lines,
    parse_header,
    remarking,
    shown,
    text_lines,
    unescape,
)

NOTHING = Record(None)
parse_json = json_lines(NOTHING, now_ms=1_000_000)


def test_a_line_is_a_value_and_the_rest_comes_from_the_options() -> None:
    like = Record(None, b"k", [("h", b"1")], 3, 7)
    assert text_lines(like)(b"a:b\r") == Record(b"a:b\r", b"k", [("h", b"1")], 3, 7)
    assert text_lines(NOTHING)(b"") == Record(b"")
    assert text_lines(NOTHING)(b"\xff\x00") == Record(b"\xff\x00"), "bytes stay bytes"


def test_the_first_separator_ends_the_key() -> None:
    parse = text_lines(NOTHING, key_separator=b"::")
    assert parse(b"k::v::w") == Record(b"v::w", b"k")
    assert parse(b"::") == Record(b"", b"")
    with pytest.raises(LineError, match=r"no key separator '::' in 'k:v'"):
        parse(b"k:v")


def test_only_what_equals_the_marker_is_null() -> None:
    parse = text_lines(NOTHING, key_separator=b":", null=b"NULL")
    assert parse(b"NULL:NULL") == Record(None, None)
    assert parse(b"NULL:xNULL") == Record(b"xNULL", None)
    assert text_lines(NOTHING, null=b"NULL")(b"NULL") == Record(None)
    assert text_lines(NOTHING)(b"NULL") == Record(b"NULL")


def test_hexadecimal() -> None:
    assert hex_lines(NOTHING)(b"00ff 10") == Record(b"\x00\xff\x10")
    assert hex_lines(NOTHING, key_separator=b":")(b"61:62") == Record(b"b", b"a")
    assert hex_lines(Record(None, b"key"))(b"62") == Record(b"b", b"key"), "a key of the command line is text"
    for bad in (b"0", b"xy", b"\xff"):
        with pytest.raises(LineError, match="not hexadecimal"):
            hex_lines(NOTHING)(bad)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"value": "a"}', Record(b"a", headers=[])),
        ('{"value": null, "key": "k"}', Record(None, b"k", [])),
        ('{"value": {"b": [1, true]}}', Record(b'{"b":[1,true]}', headers=[])),
        ('{"value": 1.5}', Record(b"1.5", headers=[])),
        ('{"value_base64": "AP8=", "key_base64": ""}', Record(b"\x00\xff", b"", [])),
        ('{"value": "", "headers": {"a": "1", "b": null}}', Record(b"", None, [("a", b"1"), ("b", None)])),
        ('{"value": "", "headers": [["a", "1"], ["a", {"base64": "/w=="}]]}',
         Record(b"", None, [("a", b"1"), ("a", b"\xff")])),
        ('{"value": "", "partition": 2, "timestamp": 5}', Record(b"", None, [], 2, 5)),
        ('{"value": "", "timestamp": "1970-01-01T00:00:01Z"}', Record(b"", None, [], -1, 1000)),
        ('{"value": "", "topic": "t", "offset": 9}', Record(b"", None, [])),
    ],
)  # fmt: skip
def test_json(line: str, expected: Record) -> None:
    assert parse_json(line.encode()) == expected


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"value": ', "this is not JSON: "),
        ("", "this is not JSON: "),
        ('"text"', "a record is an object"),
        ("[1]", "a record is an object"),
        ('{"vlaue": 1}', "no field 'vlaue'; Did you mean value"),
        ('{"value": 1, "teapot": 1}', "no field 'teapot'; known: key, "),
        ('{"key": "k"}', "no field 'value'; null makes a tombstone"),
        ('{"value": 1, "value_base64": "AA=="}', "both 'value' and 'value_base64'"),
        ('{"value_base64": "?"}', "'value_base64' is not base64"),
        ('{"value_base64": 1}', "'value_base64' is not base64"),
        ('{"value": 1, "partition": -1}', "'partition' is a number from 0 on, not -1"),
        ('{"value": 1, "partition": "0"}', "'partition' is a number from 0 on"),
        ('{"value": 1, "partition": true}', "'partition' is a number from 0 on"),
        ('{"value": 1, "timestamp": "soon"}', "'timestamp' is milliseconds"),
        ('{"value": 1, "timestamp": -5}', "'timestamp' is milliseconds"),
        ('{"value": 1, "headers": "a=b"}', "'headers' is neither"),
        ('{"value": 1, "headers": [["a"]]}', "not a pair"),
        ('{"value": 1, "headers": {"a": 1}}', "the value of header 'a' is neither text nor null"),
    ],
)
def test_bad_json_is_told(line: str, complaint: str) -> None:
    with pytest.raises(LineError) as caught:
        parse_json(line.encode())
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_json_is_completed_by_the_options() -> None:
    parse = json_lines(Record(None, b"k", [("all", b"1")], 4))
    record = parse(b'{"value": "", "partition": 2, "headers": {"own": "2"}}')
    assert record == Record(b"", b"k", [("all", b"1"), ("own", b"2")], 4)
    assert parse(b'{"value": "", "key": null}').key is None


CONTENT = st.none() | st.binary() | st.text().map(str.encode)


@given(CONTENT, CONTENT, st.lists(st.tuples(st.text(min_size=1), CONTENT)), st.integers(0, 100), st.integers(0, 2**40))
def test_what_consume_prints_as_json_is_what_produce_reads(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], partition: int, timestamp_ms: int
) -> None:
    message = Received("t", partition, 17, 1, timestamp_ms, key, value, headers, 3)
    line = json_format(key="text", value="text")(message)
    assert line.count(b"\n") == 1
    assert parse_json(line) == Record(value, key, headers, partition, timestamp_ms)


def test_escapes_in_separators() -> None:
    assert unescape(r"\t") == b"\t"
    assert unescape(r"a\x1fb\\n\0") == b"a\x1fb\\n\0"
    assert unescape("é|") == "é|".encode()
    for bad in (r"\q", "\\", r"\x1"):
        with pytest.raises(LineError, match="unknown escape"):
            unescape(bad)


def test_headers_of_the_command_line() -> None:
    assert parse_header("a=b=c") == ("a", b"b=c")
    assert parse_header("a=") == ("a", b"")
    assert parse_header("a") == ("a", None)
    with pytest.raises(LineError, match="NAME=VALUE"):
        parse_header("=b")


def test_a_line_in_an_error_is_short_and_harmless() -> None:
    assert shown(b"\x1b[2J\xff\n") == repr("\x1b[2J\\xff\n")
    assert len(shown(b"x" * 10_000)) < 60


def test_base64_of_python_is_what_json_carries() -> None:
    data = bytes(range(256))
    line = msgspec.json.encode({"value_base64": base64.b64encode(data).decode()})
    assert parse_json(line).value == data


def test_records_that_are_about_to_become_values_are_remarked_upon(capsys: pytest.CaptureFixture[str]) -> None:
    record = json_format(key="text", value="text")(Received("t", 0, 7, 1, 5, None, b"v", (), None)).rstrip()
    parse = remarking(text_lines(Record(None)))
    assert [parse(record).value, parse(record).value] == [record, record]
    told = "these lines look like records of `bifrost consume --json`; --format json sends them as such\n"
    assert capsys.readouterr().err == told, "once"
    remarking(text_lines(Record(None)))(b'{"topic": "of conversation"}')
    assert capsys.readouterr().err == ""
