"""The primitive types, at their edges."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bifrost.errors import ProtocolError
from bifrost.protocol import wire

VARINTS = [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (16383, "ff7f"), (16384, "808001")]
VARINTS += [(2097151, "ffff7f"), (2097152, "80808001"), (2**31 - 1, "ffffffff07"), (2**32 - 1, "ffffffff0f")]


@pytest.mark.parametrize(("value", "encoded"), VARINTS)
def test_unsigned_varints(value: int, encoded: str) -> None:
    assert wire.uvarint(value) == bytes.fromhex(encoded)
    assert wire.read_uvarint(b"x" + bytes.fromhex(encoded) + b"x", 1) == (value, 1 + len(encoded) // 2)


def test_a_varint_ends_after_five_bytes() -> None:
    with pytest.raises(ProtocolError):
        wire.read_uvarint(b"\x80\x80\x80\x80\x80\x00", 0)


@pytest.mark.parametrize("text", ["", "topic", "värld", "x" * 126, "x" * 127, "x" * 249, "é" * 16000])
@pytest.mark.parametrize(
    ("write", "read", "read_nullable"),
    [
        (wire.string, wire.read_string, wire.read_nullable_string),
        (wire.compact_string, wire.read_compact_string, wire.read_compact_nullable_string),
    ],
    ids=["legacy", "compact"],
)
def test_strings(
    write: Callable[[str | None], bytes],
    read: Callable[[wire.Buffer, int], tuple[str, int]],
    read_nullable: Callable[[wire.Buffer, int], tuple[str | None, int]],
    text: str,
) -> None:
    encoded = write(text)
    for buffer in (b".." + encoded + b"..", memoryview(bytearray(b".." + encoded + b".."))):
        assert read(buffer, 2) == read_nullable(buffer, 2) == (text, 2 + len(encoded))
    assert read_nullable(write(None), 0) == (None, len(write(None)))
    with pytest.raises(ProtocolError):
        read(write(None), 0)
    for cut in range(1, min(len(encoded), 5)):
        with pytest.raises((ProtocolError, *wire.SHORT_BUFFER)):
            read(encoded[:-cut], 0)


def test_text_that_is_no_utf8() -> None:
    with pytest.raises(wire.SHORT_BUFFER):
        wire.read_string(b"\x00\x01\xff", 0)


def test_uuids_are_raw_bytes() -> None:
    assert wire.read_uuid(memoryview(bytes(range(20))), 2) == (bytes(range(2, 18)), 18)
    with pytest.raises(ProtocolError):
        wire.read_uuid(bytes(15), 0)


def test_counts_fit_into_the_bytes_that_follow() -> None:
    assert wire.read_count(b"\0\0\0\2" + bytes(8), 0, 4) == (2, 4)
    assert wire.read_compact_count(b"\3" + bytes(8), 0, 4) == (2, 1)
    assert wire.read_compact_count(wire.compact_array_length(127) + bytes(127), 0, 1) == (127, 2)
    for buffer in (wire.array_length(3), wire.array_length(2**31 - 1), wire.array_length(-1)):
        with pytest.raises(ProtocolError):
            wire.read_count(buffer + bytes(8), 0, 4)
    for buffer in (b"\4", b"\xff\xff\xff\xff\x0f", b"\0"):
        with pytest.raises(ProtocolError):
            wire.read_compact_count(buffer + bytes(8), 0, 4)


def test_tagged_fields() -> None:
    section = wire.tags([(0, b"zero"), (1000, b"")])
    assert wire.skip_tags(b"!" + section, 1) == 1 + len(section)
    assert wire.read_tags(section + b"!", 0) == ({0: b"zero", 1000: b""}, len(section))
    assert wire.tags([]) == b"\0"
    assert wire.skip_tags(b"\0", 0) == 1


@pytest.mark.parametrize("section", [b"\1\0\5abc", b"\2\0\1a", b"\1", b"\1\0", b"\xff\xff\xff\xff\x0f\0\0", b""])
def test_tagged_fields_that_run_past_the_end(section: bytes) -> None:
    for read in (wire.skip_tags, wire.read_tags):
        with pytest.raises((ProtocolError, *wire.SHORT_BUFFER)):
            read(section, 0)


def test_request_frames() -> None:
    assert wire.request_frame(1, 4, 7, "me", [b"bo", b"dy"], flexible=False) == bytes.fromhex(
        "00000010 0001 0004 00000007 0002 6d65 626f6479"
    )
    assert wire.request_frame(1, 12, 7, None, [b"body"], flexible=True) == bytes.fromhex(
        "0000000f 0001 000c 00000007 ffff 00 626f6479"
    )
