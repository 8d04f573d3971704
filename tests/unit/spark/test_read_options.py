"""Options of the source: what is accepted, what is refused, and in which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from bifrost.spark.failures import OptionError
from bifrost.spark.limits import AtEdge, AtOffsets, AtTimestamp, AtTimestamps
from bifrost.spark.offsets import EARLIEST, LATEST
from bifrost.spark.option_table import OPTIONS, Use
from bifrost.spark.read_options import CORE_COLUMNS, ReadOptions, read_options
from bifrost.types import TopicPartition

ENOUGH = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a"}
A0 = TopicPartition("a", 0)


def batch(**given: str) -> ReadOptions:
    return read_options(ENOUGH | _dotted(given), Use.BATCH_READ)


def stream(**given: str) -> ReadOptions:
    return read_options(ENOUGH | _dotted(given), Use.STREAM_READ)


def _dotted(given: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in given.items()}


def test_defaults_are_those_of_the_kafka_connector() -> None:
    assert batch().start == AtEdge(EARLIEST)
    assert stream().start == AtEdge(LATEST)
    options = stream()
    assert (options.columns, options.fail_on_data_loss, options.isolation) == (CORE_COLUMNS, True, "read_uncommitted")
    assert (options.max_trigger_delay_ms, options.offset_attempts, options.offset_retry_ms) == (900_000, 3, 10)


def test_the_case_of_a_name_does_not_matter() -> None:
    assert stream(maxoffsetspertrigger="7").max_offsets_per_trigger == 7
    assert stream(MAXOFFSETSPERTRIGGER="7").max_offsets_per_trigger == 7
    assert stream(maxOffsetsPerTrigger="7").max_offsets_per_trigger == 7


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [("maxOffsetPerTrigger", "maxOffsetsPerTrigger"), ("subscibe", "subscribe"), ("startingOffset", "startingOffsets")],
)
def test_an_unknown_name_is_an_error_that_offers_the_nearest(misspelt: str, meant: str) -> None:
    with pytest.raises(OptionError, match=f"(?i:no option {misspelt}).*Is {meant} meant"):
        stream(**{misspelt: "1"})


def test_a_setting_without_its_prefix_is_recognised() -> None:
    with pytest.raises(OptionError, match=r"is kafka\.security\.protocol meant"):
        stream(security_protocol="SSL")


def test_a_name_like_no_other_lists_what_there_is() -> None:
    with pytest.raises(OptionError, match="Known are assign, "):
        stream(zzz="1")


def test_a_path_is_told_what_to_do_instead() -> None:
    with pytest.raises(OptionError, match="subscribe"):
        stream(path="orders")


def test_what_spark_adds_by_itself_is_ignored() -> None:
    read_options(ENOUGH | {"checkpointlocation": "x", "queryname": "y", "__internal": "z"}, Use.STREAM_READ)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(OptionError, match=f"{name} has no place in a streaming read"):
        stream(**{name: "1"})


def test_options_of_streams_are_harmless_in_batches_as_in_the_kafka_connector() -> None:
    assert batch(maxOffsetsPerTrigger="5").max_offsets_per_trigger == 5


def test_options_of_the_sink_have_no_place_in_a_read() -> None:
    with pytest.raises(OptionError, match="topic has no place in a batch read"):
        batch(topic="a")


def test_the_address_is_required() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers is not set"):
        read_options({"subscribe": "a"}, Use.READ)


def test_exactly_one_way_to_name_partitions() -> None:
    with pytest.raises(OptionError, match="Set one of subscribe"):
        read_options({"kafka.bootstrap.servers": "x:1"}, Use.READ)
    with pytest.raises(OptionError, match="subscribe and assign are set together"):
        batch(assign='{"a":[0]}')


def test_topics_are_separated_by_commas() -> None:
    assert batch(subscribe=" a, b ,,a").subscription.topics == ("a", "b")
    with pytest.raises(OptionError, match="names no topic"):
        batch(subscribe=" , ")


def test_a_pattern_must_be_a_regular_expression() -> None:
    common = {"kafka.bootstrap.servers": "x:1"}
    assert read_options(common | {"subscribePattern": "a.*"}, Use.READ).subscription.pattern == "a.*"
    with pytest.raises(OptionError, match="no regular expression"):
        read_options(common | {"subscribePattern": "a("}, Use.READ)


def test_precedence_of_starting_points() -> None:
    everything = {
        "startingTimestamp": "5",
        "startingOffsetsByTimestamp": '{"a":{"0":6}}',
        "startingOffsets": '{"a":{"0":7}}',
    }
    assert batch(**everything).start == AtTimestamp(5, or_latest=False)
    del everything["startingTimestamp"]
    assert batch(**everything).start == AtTimestamps({A0: 6}, or_latest=False)
    del everything["startingOffsetsByTimestamp"]
    assert batch(**everything).start == AtOffsets({A0: 7})


def test_the_strategy_for_times_without_records() -> None:
    assert batch(startingTimestamp="5", startingOffsetsByTimestampStrategy="LATEST").start == AtTimestamp(5, True)
    with pytest.raises(OptionError, match="error or latest"):
        batch(startingOffsetsByTimestampStrategy="earliest")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"startingOffsets": "latest"}, "reads nothing"),
        ({"endingOffsets": "earliest"}, "reads nothing"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, "a-0 cannot be latest"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "a-0 cannot be earliest"),
        ({"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"0":4}}'}, "after its end at 4"),
        ({"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"1":9}}'}, "different partitions: a-0, a-1"),
        ({"startingOffsets": "oldest"}, "Say earliest, latest, or give JSON"),
        ({"startingOffsets": "{"}, "startingOffsets is not understood"),
        ({"startingTimestamp": "now"}, "startingTimestamp is not a whole number"),
        ({"minPartitions": "0"}, "from 1 on"),
        ({"maxRecordsPerPartition": "-1"}, "from 1 on"),
        ({"failOnDataLoss": "yes"}, "neither true nor false"),
        ({"kafka.auto.offset.reset": "earliest"}, "startingOffsets"),
        ({"kafka.enable.auto.commit": "true"}, "commitOffsets"),
        ({"kafka.value.deserializer": "x"}, "not supported"),
        ({"kafka.isolation.level": "serializable"}, "read_uncommitted or read_committed"),
        ({"columns": "value,valeu"}, "columns names valeu"),
        ({"columns": ""}, "no column"),
        ({"mode": "failfast"}, "without valueFormat=json"),
        ({"valueFormat": "avro"}, "binary or json"),
        ({"valueFormat": "json", "columns": "value"}, "schema alone"),
        ({"valueFormat": "json", "mode": "failfast", "deadLetterTopic": "d"}, "no dead letters"),
        ({"kafka.request.timeout.ms": "soon"}, r"begin with kafka\.: request\.timeout\.ms is 'soon'"),
        ({"kafka.bootstrap.server": "x"}, r"begin with kafka\.: .*bootstrap\.server\. Did you mean bootstrap\.servers"),
        ({"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "a.jks"}, "Convert it to PEM"),
    ],
)
def test_what_makes_no_sense_in_a_batch(given: dict[str, str], problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        read_options(ENOUGH | given, Use.BATCH_READ)


def test_latest_is_fine_in_a_stream() -> None:
    assert stream(startingOffsets='{"a":{"0":-1}}').start == AtOffsets({A0: LATEST})
    assert stream(startingOffsets="LATEST").start == AtEdge(LATEST)


def test_no_more_is_waited_for_than_is_taken() -> None:
    with pytest.raises(OptionError, match=r"minOffsetsPerTrigger \(9\)"):
        stream(minOffsetsPerTrigger="9", maxOffsetsPerTrigger="8")


@pytest.mark.parametrize(
    ("text", "ms"), [("15m", 900_000), ("10 s", 10_000), ("500", 500), ("2h", 7_200_000), ("1D", 86_400_000)]
)
def test_spans_of_time_as_spark_writes_them(text: str, ms: int) -> None:
    assert stream(maxTriggerDelay=text).max_trigger_delay_ms == ms


@pytest.mark.parametrize("text", ["soon", "-5s", "1.5h", "3weeks"])
def test_other_spans_of_time_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match="no span of time"):
        stream(maxTriggerDelay=text)


def test_columns_come_in_the_order_of_the_schema() -> None:
    assert batch(columns="Offset, VALUE").columns == ("value", "offset")
    assert batch(includeHeaders="true").columns == (*CORE_COLUMNS, "headers")
    assert batch(columns="value", includeHeaders="true").columns == ("value", "headers")


def test_settings_of_kafka_are_passed_on_without_their_prefix() -> None:
    options = batch(kafka_security_protocol="SSL", kafka_group_id="g", kafka_isolation_level="READ_COMMITTED")
    assert options.settings == {"security.protocol": "SSL"}
    assert (options.bootstrap, options.isolation, options.commit_group) == ("localhost:9092", "read_committed", None)


def test_committing_offsets_needs_a_group() -> None:
    assert stream(commitOffsets="true", kafka_group_id="g").commit_group == "g"
    with pytest.raises(OptionError, match=r"Set kafka\.group\.id"):
        stream(commitOffsets="true", groupIdPrefix="g")


def test_json_values() -> None:
    options = batch(valueFormat="JSON", deadLetterTopic="dead").json
    assert options is not None
    assert (options.mode, options.corrupt_column, options.dead_letter_topic) == (
        "permissive",
        "_corrupt_record",
        "dead",
    )


def test_every_option_is_described() -> None:
    page = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")
    assert [option.name for option in OPTIONS.values() if f"`{option.name}`" not in page] == []


def test_every_option_has_one_spelling() -> None:
    assert all(key == option.name.lower() for key, option in OPTIONS.items())
