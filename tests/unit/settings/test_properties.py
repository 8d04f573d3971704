r"""The .properties format. Expected values are what java.util.Properties gives for the same text."""

from __future__ import annotations

import pytest

from bifrost.settings import parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a   =   b=c", {"a": "b=c"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=b", {"": "b"}),
        ("# note\n! note\n  # note\n\n  \na=b", {"a": "b"}),
        ("a=b # not a note", {"a": "b # not a note"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b,\\\n   c", {"a": "b,c"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n# not a note", {"a": "b# not a note"}),
        ("# note \\\na=b", {"a": "b"}),
        ("a=b\\", {"a": "b"}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("a=\\u00e9\\t\\n\\q", {"a": "é\t\nq"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
        ("path=C\\:\\\\data", {"path": "C:\\data"}),
        ("", {}),
    ],
)
def test_reads_as_java_does(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_refuses_a_malformed_unicode_escape() -> None:
    with pytest.raises(ValueError, match="malformed escape"):
        parse_properties("a=\\u12g4")
