"""Whatever bytes come, a decoder refuses them in its own words and allocates no more than they are worth."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bifrost.errors import ApiError, ProtocolError
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.batch import CorruptBatchError, accept_produced, iter_headers
from bifrost.protocol.codec import reader
from bifrost.protocol.compression import Codec
from bifrost.protocol.fetch import decode_request as decode_fetch
from bifrost.protocol.fetch import decode_response as decode_fetch_response
from bifrost.protocol.frame import read_request_header
from bifrost.protocol.inspection import Recompression, Rules, inspect
from bifrost.protocol.messages import request_class, response_class
from bifrost.protocol.produce import decode_request as decode_produce
from bifrost.protocol.produce import decode_response as decode_produce_response
from bifrost.protocol.records import decode_batch
from tests.fuzz.cases import SECONDS, TRACED, check, kept, until
from tests.fuzz.frames import DECODERS, NOW, valid_batch, valid_frame
from tests.fuzz.mutation import mutate, spoil_frame

pytestmark = pytest.mark.timeout(SECONDS + 300)

_DECODERS = frozenset(DECODERS)
REFUSED = (ProtocolError, ApiError, CorruptBatchError)


def decode_request(frame: bytes) -> None:
    """As the dispatcher does, and then a look at the batches."""
    body = memoryview(bytearray(frame[4:]))
    header, at = read_request_header(body)
    if (header.api_key, header.api_version) not in _DECODERS:
        raise ProtocolError("nobody answers this")
    if header.api_key == ApiKey.PRODUCE:
        for topic in decode_produce(body, at, header.api_version).topics:
            for partition in topic.partitions:
                if partition.records is not None:
                    accept(partition.records)
    elif header.api_key == ApiKey.FETCH:
        decode_fetch(body, at, header.api_version)
    else:
        reader(request_class(header.api_key), header.api_version)(body, at)


def accept(records: memoryview) -> None:
    """As a partition does, and then all that a topic may ask for of the records."""
    try:
        header = accept_produced(records, max_bytes=1 << 20, api_version=9)
    except ApiError:
        return
    rules = Rules(limit_bytes=1 << 16, keys=True, latest=NOW, recompression=Recompression(Codec.NONE))
    for each in (rules, rules._replace(walk=False), Rules(limit_bytes=1 << 16)):
        changed = inspect(bytearray(records[: header.size_bytes]), each)
        if isinstance(changed, bytearray):
            accept_produced(memoryview(changed), max_bytes=1 << 20, api_version=9)


def look_inside(batch: bytes) -> None:
    accept(memoryview(bytearray(batch)))
    for position, header in iter_headers(batch):
        decode_batch(memoryview(batch)[position : position + header.size_bytes], limit_bytes=1 << 20)


def decode_response(data: bytes) -> None:
    """What a client of ours would make of it; the first two bytes choose the API and version."""
    if len(data) < 2:
        return
    api_key, version = DECODERS[(data[0] << 8 | data[1]) % len(DECODERS)]
    if api_key == ApiKey.PRODUCE:
        decode_produce_response(data, 2, version)
    elif api_key == ApiKey.FETCH:
        decode_fetch_response(data, 2, version)
    else:
        reader(response_class(api_key), version)(data, 2)


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Codecs are compiled at first use, which is no allocation of a case's."""
    rng = random.Random(0)
    for api_key, version in DECODERS:
        decode_request(valid_frame(rng, api_key, version))
        if api_key not in (ApiKey.PRODUCE, ApiKey.FETCH):
            reader(response_class(api_key), version)
    for _ in range(20):
        look_inside(valid_batch(rng))


@pytest.mark.parametrize(("api_key", "version"), DECODERS)
def test_valid_frames_are_understood(api_key: int, version: int) -> None:
    """Or the fuzzer would start from rubbish."""
    for seed in range(5):
        decode_request(valid_frame(random.Random(seed), api_key, version))


@pytest.mark.parametrize("path", kept(), ids=lambda path: path.stem)
def test_kept_cases(path: Path) -> None:
    data = path.read_bytes()
    for decode in (decode_request, look_inside, decode_response):
        check(decode, data, REFUSED, traced=True)


def test_spoilt_requests() -> None:
    seeds = [path.read_bytes() for path in kept()]
    for rng in until(0.25):
        frame = rng.choice(seeds) if seeds and rng.random() < 0.1 else valid_frame(rng, *rng.choice(DECODERS))
        others = [valid_frame(rng, *rng.choice(DECODERS))]
        check(decode_request, spoil_frame(rng, frame, others), REFUSED, traced=rng.random() < TRACED)


def test_spoilt_batches() -> None:
    for rng in until(0.15):
        data = mutate(rng, valid_batch(rng), [valid_batch(rng)])
        if len(data) >= 61 and rng.random() < 0.7:  # a checksum that is right gets further
            data = with_checksum(data)
        check(look_inside, data, REFUSED, traced=rng.random() < TRACED)


def test_spoilt_responses() -> None:
    for rng in until(0.1):
        frame = valid_frame(rng, *rng.choice(DECODERS))  # as good a start as any for another layout
        data = rng.randbytes(2) + mutate(rng, frame[12:], [frame])
        check(decode_response, data, REFUSED, traced=rng.random() < TRACED)


def with_checksum(batch: bytes) -> bytes:
    from crc32c import crc32c

    sized = batch[:8] + (len(batch) - 12).to_bytes(4, "big") + batch[12:]
    return sized[:17] + crc32c(sized[21:]).to_bytes(4, "big") + sized[21:]
