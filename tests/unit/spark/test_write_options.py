"""Options of the sink."""

from __future__ import annotations

import pytest

from bifrost.spark.failures import OptionError
from bifrost.spark.option_table import Use
from bifrost.spark.write_options import WriteOptions, write_options


def write(**given: str) -> WriteOptions:
    dotted = {name.replace("_", "."): value for name, value in given.items()}
    return write_options({"kafka.bootstrap.servers": "x:1", **dotted}, Use.STREAM_WRITE)


def test_defaults_are_safe() -> None:
    options = write(topic=" a ", checkpointlocation="c", queryname="q")
    assert (options.topic, options.acks, options.idempotent, options.codec) == ("a", -1, True, "none")


def test_idempotence_yields_to_fewer_acknowledgements_as_in_kafkas_producer() -> None:
    assert not write(kafka_acks="1").idempotent
    assert not write(kafka_enable_idempotence="false").idempotent
    with pytest.raises(OptionError, match="needs all acknowledgements"):
        write(kafka_acks="1", kafka_enable_idempotence="true")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"topic": " "}, "topic is empty"),
        ({"kafka_acks": "0"}, "It is all or 1"),
        ({"kafka_compression_type": "brotli"}, "none, gzip"),
        ({"kafka_batch_size": "0"}, "from 1 on"),
        ({"kafka_key_serializer": "x"}, "not supported"),
        ({"kafka_partitioner_class": "x"}, "a column partition"),
        ({"kafka_max_in_flight_requests_per_connection": "6"}, "from 1 to 5"),
        ({"kafka_delivery_timeout_ms": "soon"}, r"begin with kafka\.: delivery\.timeout\.ms is 'soon'"),
        ({"kafka_transactional_id": "x"}, "at least once"),
        ({"subscribe": "a"}, "subscribe has no place in a streaming write"),
        ({"topics": "a"}, "Is topic meant"),
    ],
)
def test_what_makes_no_sense(given: dict[str, str], problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        write(**given)
