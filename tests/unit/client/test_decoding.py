from __future__ import annotations

import pickle
from typing import Any

import pytest

from bifrost.client.decoding import Decoder
from bifrost.client.errors import DeserializationError
from bifrost.types import TopicPartition
from tests.unit.client.fetched import Fetched

BAD = Fetched(TopicPartition("readings", 2), 17, b"{oops")


def test_messages_are_decoded_up_to_the_first_that_cannot_be() -> None:
    good = Fetched(TopicPartition("readings", 2), 16, b"[1]")
    (message,) = Decoder("bytes", "json", None).decode([good, BAD, good])
    assert (message.topic, message.partition, message.offset) == ("readings", 2, 16)
    assert (message.key, message.value, message.headers, message.leader_epoch) == (None, [1], [], 3)
    assert message.timestamp_ms == 1_700_000_000_123
    assert [each.value for each in Decoder("bytes", "bytes", None).decode([good, BAD])] == [b"[1]", b"{oops"]


def test_the_error_says_where_the_message_lies_and_how_to_go_on() -> None:
    decoder = Decoder("bytes", "json", None)
    with pytest.raises(DeserializationError) as caught:
        decoder.settle_bad(BAD)
    error = caught.value
    assert (error.topic, error.partition, error.offset) == ("readings", 2, 17)
    assert error.message.value == b"{oops"
    assert str(error).startswith("readings-2 at offset 17: a value cannot be read as json: ")
    assert "seek(offset=18, partitions=('readings', 2))" in error.hint
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.message) == (str(error), error.message)


def test_whoever_wants_bad_messages_gets_them_as_bytes() -> None:
    taken: list[Any] = []
    decoder = Decoder("bytes", "json", lambda message, error: taken.append((message, error)))
    decoder.settle_bad(BAD)
    ((given, error),) = taken
    assert given.offset == 17
    assert given.value == b"{oops"
    assert given.leader_epoch == 3
    assert isinstance(error, DeserializationError)
