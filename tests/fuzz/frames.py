"""Valid request frames of every API and version, drawn from a random generator: what mutation starts from."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import bifrost.broker.handlers  # noqa: F401  # registers the APIs
from bifrost.broker.registry import APIS
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.codec import writer
from bifrost.protocol.compression import Codec
from bifrost.protocol.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from bifrost.protocol.fetch import encode_request as encode_fetch
from bifrost.protocol.frame import encode_request
from bifrost.protocol.messages import DECLARED, request_class
from bifrost.protocol.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from bifrost.protocol.produce import encode_request as encode_produce
from bifrost.protocol.records import encode_batch
from bifrost.protocol.schema import BOOL, FLOAT64, UUID128, Array, Bytes, Fixed, Nested, String, WireType, fields_of
from bifrost.protocol.schema import Struct as Declared
from tests.property.declared import kio_bytes

NOW = 1_700_000_000_000
TOPICS = ["fuzz", "fuzz-2", "fuzz_3"]
NAMES = [*TOPICS, "", ".", "..", "../../evil", "a" * 249, "a" * 250, "träume", "\0", "segment.bytes", "0", "node"]
NUMBERS = [-(1 << 63), -(1 << 31), -2, -1, 0, 1, 2, 3, 5, 100, 1000, (1 << 15) - 1, (1 << 31) - 1, (1 << 63) - 1]
VERSIONS = [
    (key, version)
    for key, entry in sorted(APIS.items())
    if key != ApiKey.UNREGISTER_BROKER  # to forget the only broker is harm, but it is what was asked for
    for version in entry.versions
]
"""What a client may send to a broker."""
DECODERS = VERSIONS + [
    (key, version) for key in sorted(DECLARED - APIS.keys()) for version in request_class(key).versions
]
"""What bytes are made sense of at all: the quorum's messages, and those for which there is a class but no handler yet.
A new API is among them as soon as its messages are declared."""


def valid_frame(rng: random.Random, api_key: int, version: int) -> bytes:
    """A whole frame, length included, that a broker of ours has to understand."""
    if api_key == ApiKey.PRODUCE:
        return encode_produce(version, rng.getrandbits(31), "fuzz", _produce(rng))
    if api_key == ApiKey.FETCH:
        return encode_fetch(version, rng.getrandbits(31), "fuzz", _fetch(rng))
    cls = request_class(api_key)
    message: Any = _message(rng, cls, version)
    body = kio_bytes(message, version) if _kio_can(rng, message) else writer(cls, version)(message)
    return encode_request(api_key, version, rng.getrandbits(31), rng.choice([None, "", "fuzz"]), body)


def valid_batch(rng: random.Random) -> bytes:
    records = [
        (NOW + rng.randrange(-10, 10), rng.choice([None, b"", b"key"]), rng.randbytes(rng.randrange(40)), _headers(rng))
        for _ in range(rng.randrange(1, 6))
    ]
    sequenced = {"producer_id": rng.randrange(5), "producer_epoch": rng.randrange(2), "base_sequence": rng.randrange(4)}
    return bytes(
        encode_batch(
            records,
            codec=rng.choice(list(Codec)),
            control=rng.random() < 0.05,
            **(sequenced if rng.random() < 0.3 else {}),
        )
    )


def _headers(rng: random.Random) -> list[tuple[str, bytes | None]]:
    return [("header", rng.choice([None, b"", b"value"])) for _ in range(rng.randrange(3))]


def _produce(rng: random.Random) -> ProduceRequest:
    topics = [
        TopicProduceData(
            rng.choice(NAMES),
            rng.randbytes(16),
            [
                PartitionProduceData(rng.choice([0, 0, 0, 1, 7, -1]), memoryview(valid_batch(rng)))
                for _ in range(rng.randrange(3))
            ],
        )
        for _ in range(rng.choice([0, 1, 1, 1, 2]))
    ]
    return ProduceRequest(
        rng.choice([None, None, "", "txn"]), rng.choice([-1, 0, 1, 1, 7]), rng.choice([0, 50]), topics
    )


def _fetch(rng: random.Random) -> FetchRequest:
    topics = [
        FetchTopic(
            rng.choice(NAMES),
            rng.randbytes(16),
            [
                FetchPartition(
                    rng.choice([0, 0, 1, -1]),
                    rng.choice([-1, 0, 1, 5]),
                    rng.choice([0, 1, 5, -1, 1 << 40]),
                    rng.choice([-1, 0, 3]),
                    -1,
                    rng.choice([0, 1, 100, 1 << 20, -1]),
                )
                for _ in range(rng.randrange(3))
            ],
        )
        for _ in range(rng.choice([0, 1, 1, 2]))
    ]
    request = FetchRequest(rng.choice([0, 5]), rng.choice([0, 1, 1 << 30]), rng.choice([0, 1 << 20, -1]), topics)
    request.session_id = rng.choice([0, 0, 1, 77])
    request.session_epoch = rng.choice([-1, 0, 1])
    request.forgotten_topics = [ForgottenTopic(rng.choice(NAMES), rng.randbytes(16), [0])] * rng.randrange(2)
    return request


def _message(rng: random.Random, cls: type[Declared], version: int) -> Any:
    """Any values that fit the fields; about half of the numbers and names are ones that mean something here."""
    values = {
        field.name: None if field.nullable(version) and rng.random() < 0.3 else _value(rng, field.type, version)
        for field in fields_of(cls)
        if field.present(version)
    }
    return cls(**values)


def _value(rng: random.Random, kind: WireType, version: int) -> Any:
    match kind:
        case String():
            return rng.choice(NAMES)
        case Bytes():
            return rng.randbytes(rng.randrange(20))
        case Array(element):
            return [_value(rng, element, version) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
        case Nested(cls):
            return _message(rng, cls, version)
        case Fixed() if kind == BOOL:
            return rng.random() < 0.5
        case Fixed() if kind == FLOAT64:
            return rng.random()
        case Fixed() if kind == UUID128:
            return UUID(bytes=rng.choice([bytes(16), rng.randbytes(16)]))
        case Fixed(code):
            bits = kind.size * 8 - code.islower()
            lowest = -(1 << bits) if code.islower() else 0
            return min(max(rng.choice(NUMBERS), lowest), (1 << bits) - 1)


def _kio_can(rng: random.Random, message: Any) -> bool:
    """kio keeps durations in timedeltas, which are too small for some of our numbers; it writes some of the others."""
    small = all(
        abs(value) < 1 << 31 for name in message.__struct_fields__ if isinstance(value := getattr(message, name), int)
    )
    return small and rng.random() < 0.3
