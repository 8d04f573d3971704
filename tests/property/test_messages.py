"""Every message in every version, against kio, against an obvious encoder, and against bytes that lie."""

from __future__ import annotations

import kio.index
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.index import api_key_map, schema_name_map

from bifrost.errors import ProtocolError
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.codec import reader, writer
from bifrost.protocol.frame import has_flexible_response_header, is_flexible
from bifrost.protocol.schema import Message
from bifrost.protocol.wire import UVARINT, read_uvarint

from .declared import ALL, kio_bytes, messages, slow_bytes

UNKNOWN_TAGS = UVARINT[4000] + UVARINT[0] + UVARINT[70000] + UVARINT[3] + b"???"
UNHURRIED = settings(
    deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

every_version = pytest.mark.parametrize(("cls", "version"), ALL)
every_class = pytest.mark.parametrize("cls", list(dict.fromkeys(cls for cls, _ in ALL)))


@every_version
@settings(UNHURRIED, max_examples=4)
@given(data=st.data())
def test_bytes_are_those_of_kio_and_read_back_equal(cls: type[Message], version: int, data: st.DataObject) -> None:
    message = data.draw(messages(cls, version))
    encoded = kio_bytes(message, version)
    assert writer(cls, version)(message) == encoded
    assert reader(cls, version)(encoded, 0) == (message, len(encoded))
    assert reader(cls, version)(memoryview(bytearray(b"..." + encoded)), 3) == (message, len(encoded) + 3)


@every_class
@settings(UNHURRIED, max_examples=6)
@given(data=st.data())
def test_tags_that_nobody_declared_are_skipped(cls: type[Message], data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(cls.versions))
    flexible = version >= cls.flexible
    message = data.draw(messages(cls, version))
    assert slow_bytes(message, version, flexible) == writer(cls, version)(message)
    if flexible:
        encoded = slow_bytes(message, version, flexible, UNKNOWN_TAGS)
        assert reader(cls, version)(encoded, 0) == (message, len(encoded))


@every_class
@settings(UNHURRIED, max_examples=6)
@given(data=st.data())
def test_a_message_cut_short_is_refused(cls: type[Message], data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(cls.versions))
    encoded = writer(cls, version)(data.draw(messages(cls, version)))
    for end in range(0, len(encoded), 1 + len(encoded) // 60):
        with pytest.raises(ProtocolError):
            reader(cls, version)(encoded[:end], 0)


@every_class
@settings(UNHURRIED, max_examples=8)
@given(data=st.data())
def test_bytes_that_lie_raise_nothing_but_protocol_error(cls: type[Message], data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(cls.versions))
    encoded = bytearray(writer(cls, version)(data.draw(messages(cls, version))))
    wrong_bytes = st.sampled_from([0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF])
    for position, value in data.draw(st.lists(st.tuples(st.integers(0, len(encoded)), wrong_bytes), max_size=6)):
        encoded[position : position + 1] = bytes((value,))
    try:
        _, position = reader(cls, version)(bytes(encoded), 0)
    except ProtocolError:
        return
    assert 0 <= position <= len(encoded)


@settings(UNHURRIED, max_examples=200)
@given(case=st.sampled_from(ALL), encoded=st.binary(max_size=64))
def test_noise_raises_nothing_but_protocol_error(case: tuple[type[Message], int], encoded: bytes) -> None:
    cls, version = case
    try:
        reader(cls, version)(encoded, 0)
    except ProtocolError:
        pass


@given(st.integers(0, (1 << 32) - 1))
def test_varints_round_trip(value: int) -> None:
    encoded = UVARINT[value]
    assert read_uvarint(encoded, 0) == (value, len(encoded))


def test_keys_and_flexible_versions_are_those_of_kafka() -> None:
    assert {key.value: key.name.lower() for key in ApiKey} == dict(api_key_map)
    for key, name in api_key_map.items():
        for version in schema_name_map[name]:
            request = kio.index.load_request_schema(key, version)
            response = kio.index.load_response_schema(key, version)
            assert is_flexible(key, version) == request.__flexible__ == response.__flexible__, (name, version)
            flexible_header = response.__header_schema__.__version__ == 1
            assert has_flexible_response_header(key, version) == flexible_header, (name, version)


def test_versions_are_those_of_kafka() -> None:
    """Kafka 4.3 has a version 6 of InitProducerId that is not stable."""
    for cls in dict.fromkeys(cls for cls, _ in ALL):
        known = range(6) if cls.api == ApiKey.INIT_PRODUCER_ID else sorted(schema_name_map[api_key_map[cls.api]])
        assert list(cls.versions) == list(known), cls
