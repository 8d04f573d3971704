"""What each word of a declaration does to the bytes, and what readers refuse."""

from __future__ import annotations

import tracemalloc
from typing import Annotated
from uuid import UUID

import pytest
from msgspec import field

from bifrost.errors import ErrorCode, ProtocolError
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.codec import reader, writer
from bifrost.protocol.schema import (
    I8,
    I16,
    I32,
    I64,
    U16,
    U32,
    ZERO_UUID,
    Field,
    Fixed,
    Message,
    Struct,
    before,
    fields_of,
    nullable_since,
    since,
    tag,
)
from bifrost.protocol.wire import UVARINT, read_uvarint, skip_tags


class Numbers(Message, api=ApiKey.VOTE, versions=range(2), flexible=1):
    a: I8
    b: I16
    c: I32
    d: I64
    e: U16
    f: U32
    g: float
    h: bool
    i: UUID


class Inner(Struct):
    name: str
    since_two: Annotated[I16, since(2)] = -7


class Everything(Message, api=ApiKey.VOTE, versions=range(4), flexible=2):
    text: str
    maybe_text: Annotated[str | None, nullable_since(1)]
    blob: bytes
    maybe_blob: bytes | None = None
    numbers: list[I32]
    maybe_numbers: Annotated[list[I16] | None, since(1)] = None
    ids: list[UUID]
    inner: Inner
    maybe_inner: Annotated[Inner | None, since(2)] = None
    inners: list[Inner]
    gone: Annotated[I32, before(1)] = 99
    tagged_number: Annotated[I32, since(2), tag(1)] = -1
    tagged_list: Annotated[list[Inner], since(3), tag(0)] = []  # noqa: RUF012


class Place(Struct):
    node: I32 = -1


class TaggedStruct(Message, api=ApiKey.VOTE, versions=range(1), flexible=0):
    place: Annotated[Place, tag(0)] = field(default_factory=Place)


class WithoutDefault(Message, api=ApiKey.VOTE, versions=range(2)):
    late: Annotated[I32, since(1)]


def everything(**changes: object) -> Everything:
    values: dict[str, object] = {
        "text": "a",
        "maybe_text": "bc",
        "blob": b"\x01",
        "numbers": [1, -1],
        "ids": [],
        "inner": Inner(name="x"),
        "inners": [],
    }
    return Everything(**(values | changes))  # type: ignore[arg-type]


def read(cls: type[Message], version: int, data: bytes) -> Message:
    message, position = reader(cls, version)(data, 0)
    assert position == len(data)
    return message


def test_declarations_are_understood() -> None:
    fields = {field.name: field for field in fields_of(Everything)}
    assert list(fields) == list(Everything.__struct_fields__)
    assert fields["gone"] == Field("gone", Fixed("i"), default=99, before=1)
    assert fields["tagged_number"].tag == 1
    assert [fields["maybe_text"].nullable(version) for version in range(3)] == [False, True, True]
    assert (Everything.api, Everything.versions, Everything.flexible) == (ApiKey.VOTE, range(4), 2)


def test_numbers_are_big_endian_and_fixed() -> None:
    message = Numbers(a=-1, b=-2, c=3, d=4, e=0xFFFF, f=0xFFFFFFFF, g=1.5, h=True, i=UUID(int=5))
    expected = bytes.fromhex("ff fffe 00000003 0000000000000004 ffff ffffffff 3ff8000000000000 01" + "00" * 15 + "05")
    assert writer(Numbers, 0)(message) == expected
    assert writer(Numbers, 1)(message) == expected + b"\0"
    assert read(Numbers, 0, expected) == read(Numbers, 1, expected + b"\0") == message


def test_any_byte_but_zero_is_true() -> None:
    message = Numbers(a=0, b=0, c=0, d=0, e=0, f=0, g=0.0, h=False, i=ZERO_UUID)
    encoded = bytearray(writer(Numbers, 0)(message))
    encoded[-17] = 2
    assert reader(Numbers, 0)(encoded, 0)[0].h is True


def test_legacy_encoding() -> None:
    message = everything(gone=7)
    expected = b"\0\x01a" + b"\0\x02bc" + b"\0\0\0\x01\x01" + b"\xff\xff\xff\xff"
    expected += (
        b"\0\0\0\x02" + b"\0\0\0\x01" + b"\xff\xff\xff\xff" + b"\0\0\0\0" + b"\0\x01x" + b"\0\0\0\0" + b"\0\0\0\x07"
    )
    assert writer(Everything, 0)(message) == expected
    assert read(Everything, 0, expected) == message


def test_compact_encoding_with_tags() -> None:
    message = everything(
        maybe_text=None, maybe_inner=Inner(name="y", since_two=2), tagged_number=5, tagged_list=[Inner(name="z")]
    )
    expected = b"\x02a" + b"\0" + b"\x02\x01" + b"\0"
    expected += b"\x03" + b"\0\0\0\x01" + b"\xff\xff\xff\xff" + b"\0" + b"\x01" + b"\x02x\xff\xf9\0"
    expected += b"\x01" + b"\x02y\0\x02\0" + b"\x01"
    tags = b"\x02" + b"\0\x06\x02\x02z\xff\xf9\0" + b"\x01\x04\0\0\0\x05"
    assert writer(Everything, 3)(message) == expected + tags
    assert read(Everything, 3, expected + tags) == message


def test_a_null_struct_is_one_byte() -> None:
    assert writer(Everything, 2)(everything()).endswith(b"\x02x\xff\xf9\0" + b"\xff" + b"\x01" + b"\0")


def test_a_version_that_lacks_a_field_reads_its_default_and_does_not_write_it() -> None:
    encoded = writer(Everything, 1)(everything(gone=1, tagged_number=5))
    message = read(Everything, 1, encoded)
    assert message == everything()


def test_null_is_written_as_empty_where_null_cannot_travel() -> None:
    assert read(Everything, 0, writer(Everything, 0)(everything(maybe_text=None))) == everything(maybe_text="")


def test_error_codes_fit_into_plain_integers() -> None:
    message = Numbers(a=0, b=ErrorCode.UNKNOWN_TOPIC_ID, c=0, d=0, e=0, f=0, g=0.0, h=False, i=ZERO_UUID)
    assert reader(Numbers, 0)(writer(Numbers, 0)(message), 0)[0].b == 100


def test_defaults_are_not_shared() -> None:
    everything().tagged_list.append(Inner(name="a"))
    assert everything().tagged_list == []
    data = writer(Everything, 3)(everything())
    reader(Everything, 3)(data, 0)[0].tagged_list.append(Inner(name="b"))
    assert reader(Everything, 3)(data, 0)[0].tagged_list == []


def test_a_tagged_struct_travels_unless_it_is_the_default() -> None:
    assert writer(TaggedStruct, 0)(TaggedStruct()) == b"\0"
    message = TaggedStruct(place=Place(node=7))
    encoded = b"\x01\0\x05\0\0\0\x07\0"
    assert writer(TaggedStruct, 0)(message) == encoded
    assert read(TaggedStruct, 0, encoded) == message
    reader(TaggedStruct, 0)(b"\0", 0)[0].place.node = 7
    assert read(TaggedStruct, 0, b"\0") == TaggedStruct()


def test_what_was_read_is_a_copy() -> None:
    buffer = bytearray(writer(Everything, 3)(everything(blob=b"before")))
    message, _ = reader(Everything, 3)(memoryview(buffer), 0)
    buffer[:] = bytes(len(buffer))
    assert message.blob == b"before"


def test_bytes_after_the_message_are_left_alone() -> None:
    data = writer(Everything, 2)(everything())
    assert reader(Everything, 2)(data + b"more", 0) == (everything(), len(data))


def test_long_strings_and_arrays_need_long_lengths() -> None:
    message = everything(text="x" * 200, blob=bytes(20000), numbers=list(range(300)), maybe_text="y" * 32767)
    for version in (1, 3):
        assert read(Everything, version, writer(Everything, version)(message)) == message


def test_a_field_without_default_must_be_in_every_version() -> None:
    with pytest.raises(AssertionError, match="late needs a default"):
        reader(WithoutDefault, 0)
    with pytest.raises(AssertionError, match="no version 2"):
        reader(WithoutDefault, 2)


LEGACY = writer(Everything, 1)(everything())
COMPACT = writer(Everything, 3)(everything())


@pytest.mark.parametrize(
    ("version", "data", "complaint"),
    [
        (1, b"", "unpack_from"),
        (3, b"", "out of range"),
        (1, b"\xff\xff" + LEGACY[3:], "text has length -1"),
        (1, b"\0\x01a" + b"\xff\xfe" + LEGACY[7:], "maybe_text has length -2"),
        (1, LEGACY[:7] + b"\x80\0\0\0" + LEGACY[11:], "blob has length -2147483648"),
        (1, LEGACY[:16] + b"\x7f\xff\xff\xff" + LEGACY[20:], "2147483647 numbers in"),
        (3, b"\0" + COMPACT[2:], "text has length -1"),
        (3, b"\x02\xff" + COMPACT[2:], "can't decode"),
        (3, b"\xff\xff\xff\xff\x0f" + COMPACT[2:], "text has length 4294967294"),
        (3, b"\x80\x80\x80\x80\x80\x01" + COMPACT[2:], "varint"),
        (3, UVARINT[32769] + b"x" * 32768 + COMPACT[2:], "text has length 32768"),
        (3, COMPACT[:8] + b"\xff\xff\xff\xff\x0f" + COMPACT[9:], "4294967294 numbers in"),
        (3, COMPACT[:-1] + b"\x01", "out of range|tagged fields"),
        (3, COMPACT[:-1] + b"\x7f\0\0", "index out of range"),
        (3, COMPACT[:-1] + b"\x01\x09\x05abcd", "runs past the end"),
        (3, COMPACT[:-1] + b"\x01\x01\x05\0\0\0\0\0", "tagged_number does not fill its tag"),
    ],
)
def test_bytes_that_make_no_sense_are_refused(version: int, data: bytes, complaint: str) -> None:
    with pytest.raises(ProtocolError, match=complaint):
        reader(Everything, version)(data, 0)


def test_an_overrun_at_the_very_end_is_noticed() -> None:
    class Last(Message, api=ApiKey.VOTE, versions=range(2), flexible=1):
        text: str

    with pytest.raises(ProtocolError, match="Last v0: it ends too early"):
        reader(Last, 0)(b"\0\x05abcd", 0)


def test_a_false_count_allocates_nothing() -> None:
    read_message = reader(Everything, 3)
    data = COMPACT[:8] + UVARINT[50_000_000] + COMPACT[9:]
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            read_message(data, 0)
        assert tracemalloc.get_traced_memory()[1] < 20_000
    finally:
        tracemalloc.stop()


def test_unknown_tags_may_have_any_number_and_size() -> None:
    section = UVARINT[2] + UVARINT[7] + UVARINT[0] + UVARINT[1 << 31] + UVARINT[200] + bytes(200)
    assert skip_tags(b"xx" + section + b"rest", 2) == 2 + len(section)
    assert read(Everything, 3, COMPACT[:-1] + section) == everything()


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f")]
)
def test_varints(value: int, encoded: str) -> None:
    assert UVARINT[value] == bytes.fromhex(encoded)
    assert read_uvarint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)
