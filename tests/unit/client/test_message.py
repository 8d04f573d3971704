from __future__ import annotations

import doctest
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

from bifrost.client import message, positions
from bifrost.client.message import SHOWN_CHARACTERS, Message
from tests.unit.client.fetched import fetched


@pytest.mark.parametrize("module", [message, positions])
def test_examples_in_the_docstrings_are_true(module: object) -> None:
    outcome = doctest.testmod(module)  # type: ignore[arg-type]
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_a_message_is_a_value() -> None:
    def make(**changes: Any) -> Message[Any, Any]:
        return Message.of(
            **{"topic": "t", "partition": 1, "offset": 2, "key": b"k", "value": {"a": 1}, "timestamp_ms": 123}
            | {"headers": [("h", None)], "leader_epoch": 4}
            | changes
        )

    one = make()
    assert one == make()
    assert hash(one) == hash(make())
    assert pickle.loads(pickle.dumps(one)) == one
    for change in ({"topic": "u"}, {"offset": 3}, {"value": None}, {"headers": []}, {"timestamp_ms": 124}):
        assert make(**change) != one
    with pytest.raises(AttributeError):
        one.value = 3  # type: ignore[misc]


def test_what_was_fetched_is_shown_as_it_is() -> None:
    (raw,) = fetched(1, 5)
    message: Message[None, str] = Message(raw, None, "decoded")
    assert (message.topic, message.partition, message.offset) == ("t", 1, 5)
    assert (message.key, message.value, message.headers, message.leader_epoch) == (None, "decoded", [], 3)
    assert message == Message.of("t", 1, 5, key=None, value="decoded", timestamp_ms=1_700_000_000_123, leader_epoch=3)


def test_milliseconds_survive_as_a_point_in_time() -> None:
    assert Message.of("t", 0, 0, key=None, value=None, timestamp_ms=1_700_000_000_123).timestamp == datetime(
        2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC
    )


def test_the_text_form_is_short_and_leaves_out_what_there_is_not() -> None:
    text = repr(Message.of("t", 0, 7, key=None, value=b"x" * 10_000))
    assert text.startswith("<Message t-0@7 key=None value=b'xxx")
    assert len(text) < 2 * SHOWN_CHARACTERS
    assert "headers=[('h', b'1')]" in repr(Message.of("t", 0, 7, key=None, value=None, headers=[("h", b"1")]))
