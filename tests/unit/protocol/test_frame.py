"""Headers and frames, byte for byte."""

from __future__ import annotations

import pytest

from bifrost.errors import ProtocolError
from bifrost.protocol.apis import FLEXIBLE_SINCE, NEVER_FLEXIBLE, ApiKey
from bifrost.protocol.frame import (
    LENGTH_BYTES,
    RequestHeader,
    encode_request,
    has_flexible_response_header,
    is_flexible,
    read_request_header,
    read_response_header,
    response_prefix,
)

FETCH_11 = bytes.fromhex("0001 000b 00000007 0003") + b"abc"
FETCH_12 = bytes.fromhex("0001 000c 00000007 0003") + b"abc"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_legacy_header_ends_with_the_client_id(kind: type) -> None:
    buffer = kind(b"...." + FETCH_11 + b"body")
    assert read_request_header(buffer, 4) == (RequestHeader(ApiKey.FETCH, 11, 7, "abc"), 4 + len(FETCH_11))


def test_a_flexible_header_ends_with_tags() -> None:
    assert read_request_header(FETCH_12 + b"\0body", 0) == (RequestHeader(1, 12, 7, "abc"), len(FETCH_12) + 1)


def test_tags_of_the_header_are_skipped() -> None:
    tags = b"\x02\x00\x01x\x05\x02yz"
    assert read_request_header(FETCH_12 + tags + b"body")[1] == len(FETCH_12) + len(tags)


def test_a_client_may_be_anonymous() -> None:
    header, position = read_request_header(bytes.fromhex("0012 0000 00000001 ffff"))
    assert header == RequestHeader(ApiKey.API_VERSIONS, 0, 1, None)
    assert position == 10


def test_a_version_from_the_future_has_the_newest_header() -> None:
    header, position = read_request_header(bytes.fromhex("0012 0063 00000001 ffff 00"))
    assert header.api_version == 99
    assert position == 11


def test_an_unknown_key_is_for_the_caller_to_refuse() -> None:
    header, _ = read_request_header(bytes.fromhex("7fff 0000 00000001 ffff"))
    assert header.api_key == 0x7FFF


@pytest.mark.parametrize(
    "data",
    [
        b"",
        FETCH_11[:9],
        FETCH_11[:-1],
        FETCH_12,
        FETCH_12 + b"\x01",
        FETCH_12 + b"\x01\x00\x05abc",
        bytes.fromhex("0001 000b 00000007 fffe"),
        bytes.fromhex("0001 000b 00000007 0001 ff"),
        bytes.fromhex("0001 000b 00000007 7fff"),
    ],
)
def test_a_header_that_makes_no_sense_is_refused(data: bytes) -> None:
    for buffer in (data, memoryview(data)):
        with pytest.raises(ProtocolError):
            read_request_header(buffer)


def test_responses_repeat_the_correlation_id() -> None:
    assert response_prefix(9, flexible_header=False, body_bytes=3) == bytes.fromhex("00000007 00000009")
    assert response_prefix(9, flexible_header=True, body_bytes=3) == bytes.fromhex("00000008 00000009 00")


def test_the_header_of_an_api_versions_response_never_has_tags() -> None:
    assert is_flexible(ApiKey.API_VERSIONS, 3)
    assert not has_flexible_response_header(ApiKey.API_VERSIONS, 3)
    assert has_flexible_response_header(ApiKey.METADATA, 9)
    assert not has_flexible_response_header(ApiKey.METADATA, 8)


@pytest.mark.parametrize("client_id", ["me", "", None])
@pytest.mark.parametrize("version", [11, 12])
def test_requests_round_trip(client_id: str | None, version: int) -> None:
    frame = encode_request(ApiKey.FETCH, version, 5, client_id, b"body")
    assert int.from_bytes(frame[:LENGTH_BYTES]) == len(frame) - LENGTH_BYTES
    header, position = read_request_header(frame, LENGTH_BYTES)
    assert header == RequestHeader(ApiKey.FETCH, version, 5, client_id)
    assert frame[position:] == b"body"


@pytest.mark.parametrize("flexible", [False, True])
def test_responses_round_trip(flexible: bool) -> None:
    frame = response_prefix(-3, flexible, 4) + b"body"
    assert int.from_bytes(frame[:LENGTH_BYTES]) == len(frame) - LENGTH_BYTES
    correlation_id, position = read_response_header(memoryview(frame), LENGTH_BYTES, flexible)
    assert (correlation_id, frame[position:]) == (-3, b"body")


@pytest.mark.parametrize(
    ("data", "flexible"), [(b"", False), (b"abc", False), (b"abcd", True), (b"abcd\x02\0\0", True)]
)
def test_a_response_cut_short_is_refused(data: bytes, flexible: bool) -> None:
    with pytest.raises(ProtocolError):
        read_response_header(data, 0, flexible)


def test_every_api_has_a_first_flexible_version() -> None:
    assert set(FLEXIBLE_SINCE) == set(ApiKey)
    never = {key for key, version in FLEXIBLE_SINCE.items() if version == NEVER_FLEXIBLE}
    assert never == {ApiKey.SASL_HANDSHAKE, ApiKey.OFFSET_DELETE}
