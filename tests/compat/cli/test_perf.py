"""`bifrost perf`: figures that agree with what is stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.cli.commands import run, stored, stored_count
from tests.compat.conftest import NewTopicFunction
from tests.compat.servers import Server


def test_producing_with_the_options_of_kafkas_tool(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    typed = f"--topic {topic} --num-records 500 --record-size 20 --throughput -1 --json --producer-props"
    props = [f"bootstrap.servers={broker.bootstrap}", "acks=1", "linger.ms=1"]
    figures = run("", "perf", "produce", *typed.split(), *props).json
    assert (figures["records"], figures["sent"], figures["acknowledged"], figures["bytes"]) == (500, 500, 500, 10_000)
    latency = figures["latency_ms"]
    assert 0 < latency["min"] <= latency["p50"] <= latency["p99"] <= latency["max"]
    found = stored(broker, topic)
    assert {len(record.value or b"") for record in found} == {20}
    assert len(found) == 500


def test_producing_at_a_rate_after_a_warm_up(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    figures = run(
        broker, "perf", "produce", topic, "-n", "300", "--throughput", "300", "--warmup-records", "100", "--json"
    ).json
    assert figures["records"] <= 200 < figures["acknowledged"] == 300 == stored_count(broker, topic)
    assert figures["records_per_second"] < 400


def test_payloads(broker: Server, new_topic: NewTopicFunction, tmp_path: Path) -> None:
    topic = new_topic()
    file = tmp_path / "payloads"
    file.write_bytes(b"one;two")
    run(broker, "perf", "produce", topic, "-n", "50", "--payload-file", str(file), "--payload-delimiter", ";")
    assert {record.value for record in stored(broker, topic)} == {b"one", b"two"}
    run(broker, "perf", "produce", topic, "-n", "3", "--payload-monotonic")
    assert [record.value for record in stored(broker, topic)][50:] == [b"0", b"1", b"2"]
    file.write_bytes(b"")
    run(broker, "perf", "produce", topic, "--payload-file", str(file)).failed(2, "is empty")


def test_a_topic_that_one_answer_holds_has_a_rate(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    run(broker, "produce", topic, given=b"12345\n" * 5)
    assert run(broker, "perf", "consume", topic, "--json").json["records_per_second"] > 0
    nothing = run(broker, "perf", "consume", new_topic(), "--json").json
    assert (nothing["records"], nothing["records_per_second"]) == (0, None)


def test_consuming(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(3)
    run(broker, "produce", topic, given=b"12345\n" * 2000)
    figures = run(broker, "perf", "consume", topic, "--json").json
    assert (figures["records"], figures["bytes"]) == (2000, 10_000)
    assert figures["seconds_to_first"] >= 0
    assert 0 < figures["seconds"] <= figures["total_seconds"]
    rounding_s = 0.0006  # the whole may take two milliseconds
    assert abs(2000 / figures["records_per_second"] - figures["seconds"]) <= rounding_s
    assert run(broker, "perf", "consume", "--topic", topic, "--messages", "700", "--json").json["records"] == 700
    run(broker, "perf", "consume", topic, "-n", "2001").failed(1, "only 2,000 of 2,001 records came")


def test_old_options_of_kafkas_tools(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    produced = run(
        "", "perf", "produce", topic, "-n", "5", "--broker-list", broker.bootstrap, "--print-metrics", "--json"
    )
    assert produced.json["acknowledged"] == 5
    assert produced.err == "--print-metrics is ignored: there are no metrics of a Java client here\n"
    typed = "--threads 4 --show-detailed-stats --hide-header --fetch-size 1000 --socket-buffer-size 65536 --json"
    consumed = run("", "perf", "consume", "--topic", topic, "--broker-list", broker.bootstrap, *typed.split())
    assert consumed.json["records"] == 5
    assert consumed.err == "--threads is ignored, as in Kafka's tool: one consumer reads\n"


@pytest.mark.usefixtures("coordinators")
def test_consuming_as_a_group(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(2)
    run(broker, "produce", topic, given=b"12345\n" * 100)
    assert run(broker, "perf", "consume", topic, "--group", topic, "--json").json["records"] == 100


def test_latency(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(2)
    figures = run(broker, "perf", "latency", topic, "-n", "20", "-s", "64", "--json").json
    assert (figures["records"], figures["bytes"]) == (20, 20 * 64)
    assert 0 < figures["acknowledged_ms"]["p50"] <= figures["end_to_end_ms"]["p50"]
    assert stored_count(broker, topic, 2) == 21, "the first opens the connections and is not counted"


def test_a_histogram_is_drawn_within_80_columns(broker: Server, new_topic: NewTopicFunction) -> None:
    done = run(broker, "perf", "latency", new_topic(), "-n", "10")
    lines = done.out.decode().splitlines()
    assert lines[0].startswith("sent and read 10 records, 0.0 MB in ")
    assert lines[2] == "acknowledged, in ms:"
    assert lines[3].startswith("mean ")
    assert any("█" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_a_topic_has_to_be_named() -> None:
    run("127.0.0.1:1", "perf", "consume").failed(2, "no topic was named")
