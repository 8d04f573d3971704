"""Lines as Kafka's console producer reads them."""

from __future__ import annotations

import pytest

from bifrost.cli.data.console_lines import line_reader
from bifrost.cli.data.lines import LineError, Record
from bifrost.client.errors import ConfigError


def test_without_properties_a_line_is_a_value() -> None:
    assert line_reader({})(b"a\tb") == Record(b"a\tb", None, [])


def test_key_and_headers() -> None:
    assert line_reader({"parse.key": "true"})(b"k\tv\tw") == Record(b"v\tw", b"k", [])
    both = line_reader({"parse.key": "TRUE ", "parse.headers": "true", "key.separator": ":"})
    assert both(b"a:1,b:2\tk:v") == Record(b"v", b"k", [("a", b"1"), ("b", b"2")])
    assert line_reader({"parse.headers": "true"})(b"a:\tv") == Record(b"v", None, [("a", b"")])


def test_the_null_marker() -> None:
    reader = line_reader({"parse.key": "true", "parse.headers": "true", "null.marker": "NULL"})
    assert reader(b"NULL\tNULL\tNULL") == Record(None, None, [])
    assert reader(b"a:NULL\tk\tv") == Record(b"v", b"k", [("a", None)])
    with pytest.raises(LineError, match="cannot be null"):
        reader(b"NULL:1\tk\tv")


def test_errors_are_told_or_ignored() -> None:
    with pytest.raises(LineError, match="no key separator"):
        line_reader({"parse.key": "true"})(b"v")
    with pytest.raises(LineError, match="no headers delimiter"):
        line_reader({"parse.headers": "true"})(b"v")
    with pytest.raises(LineError, match="no header key separator in 'a'"):
        line_reader({"parse.headers": "true"})(b"a\tv")
    lenient = line_reader({"parse.key": "true", "parse.headers": "true", "ignore.error": "true"})
    assert lenient(b"v") == Record(b"v", None, [])
    assert lenient(b"a\tk\tv") == Record(b"v", b"k", [("a", None)])


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({"headers.separator": ":"}, "headers.separator and headers.key.separator are equal"),
        ({"null.marker": "\t"}, "and null.marker are equal"),
        ({"key.separator": ""}, "key.separator is empty"),
    ],
)
def test_properties_that_make_no_sense(properties: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        line_reader(properties)
    assert complaint in str(caught.value)


def test_a_property_that_nobody_knows_is_remarked_upon(capsys: pytest.CaptureFixture[str]) -> None:
    assert line_reader({"parse.keys": "true"})(b"a\tb") == Record(b"a\tb", None, [])
    assert (
        capsys.readouterr().err == "the reader has no property parse.keys, which is ignored. Did you mean parse.key?\n"
    )
