"""Offsets and their JSON."""

from __future__ import annotations

import json

import pytest

from bifrost.spark.failures import OptionError
from bifrost.spark.offsets import (
    from_spark,
    parse_assignment,
    parse_offsets,
    parse_timestamps,
    to_spark,
)
from bifrost.types import TopicPartition

A0, A1, A10, B0 = (TopicPartition(*each) for each in (("a", 0), ("a", 1), ("a", 10), ("b", 0)))


def test_a_checkpoint_has_the_form_that_the_kafka_connector_writes() -> None:
    """Spark writes the JSON itself, with blanks that the connector does not have, nor mind."""
    assert json.dumps(to_spark({B0: 7, A10: 3, A1: 2, A0: 1})) == '{"a": {"0": 1, "1": 2, "10": 3}, "b": {"0": 7}}'


def test_what_the_kafka_connector_wrote_is_understood() -> None:
    written = '{"b":{"0":7},"a":{"1":2,"10":3,"0":1}}'
    assert from_spark(json.loads(written)) == {A0: 1, A1: 2, A10: 3, B0: 7}


def test_equal_offsets_are_equal_text_whatever_their_order() -> None:
    assert json.dumps(to_spark({A0: 1, B0: 2})) == json.dumps(to_spark({B0: 2, A0: 1}))


def test_offsets_of_an_option() -> None:
    assert parse_offsets("startingOffsets", ' {"a":{"0":23,"1":-1},"b":{"0":-2}} ') == {A0: 23, A1: -1, B0: -2}


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "3", '{"a":5}', '{"a":{"x":5}}', '{"a":{"0":"5"}}', '{"a":{"0":1.5}}', '{"a":{"0":true}}', '{"a":[0]}'],
)
def test_malformed_offsets_name_the_option_and_show_the_form(text: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse_offsets("startingOffsets", text)
    assert "startingOffsets is not understood" in str(raised.value)
    assert text in str(raised.value)
    assert '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}' in str(raised.value)


@pytest.mark.parametrize("text", ["{}", '{"a":{}}'])
def test_offsets_of_no_partition_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match="names no partition"):
        parse_offsets("endingOffsets", text)


def test_an_offset_below_earliest_is_refused() -> None:
    with pytest.raises(OptionError, match="a-0 has the offset -3"):
        parse_offsets("startingOffsets", '{"a":{"0":-3}}')


def test_timestamps_of_an_option() -> None:
    assert parse_timestamps("startingOffsetsByTimestamp", '{"a":{"0":1000}}') == {A0: 1000}
    with pytest.raises(OptionError, match="milliseconds since 1970"):
        parse_timestamps("startingOffsetsByTimestamp", '{"a":{"0":-1}}')


def test_an_assignment() -> None:
    assert parse_assignment("assign", '{"b":[0],"a":[1,0,1]}') == [A0, A1, B0]


@pytest.mark.parametrize("text", ["orders", '{"a":0}', '{"a":["0"]}', '{"a":[-1]}', '{"a":[true]}'])
def test_a_malformed_assignment_shows_the_form(text: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse_assignment("assign", text)
    assert '{"topicA":[0,1],"topicB":[2,4]}' in str(raised.value)
