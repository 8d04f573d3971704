"""`bifrost produce`: what is stored, and what is said about it."""

from __future__ import annotations

import json
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.compat.cli.commands import Process, run, stored, stored_count
from tests.compat.conftest import NewTopicFunction, StartBroker
from tests.compat.servers import Server
from tests.compat.test_partitioners import murmur2
from tests.waiting import eventually


def values(server: Server, topic: str) -> list[bytes | None]:
    return [record.value for record in stored(server, topic)]


def test_lines_become_values(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    done = run(broker, "produce", topic, given=b"one\n\ntwo: 2\r\n\xff\x00")
    assert done.code == 0, done
    assert values(broker, topic) == [b"one", b"", b"two: 2\r", b"\xff\x00"], "bytes are kept as they are"
    first, *table = done.out.decode().splitlines()
    assert first.startswith("sent 4, acknowledged 4 in ")
    assert [line.split() for line in table] == [
        ["partition", "records", "first", "offset", "last", "offset"],
        ["0", "4", "0", "3"],
    ]


def test_the_report_for_scripts(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    run(broker, "produce", topic, given=b"before\n")
    report = run(broker, "produce", topic, "--json", given=b"1\n2\n").json
    assert report.pop("seconds") >= 0
    assert report == {
        "topic": topic,
        "sent": 2,
        "acknowledged": 2,
        "not_acknowledged": 0,
        "complete": True,
        "partitions": [{"partition": 0, "records": 2, "first_offset": 1, "last_offset": 2}],
        "stopped": None,
    }


def test_a_file_with_keys_headers_and_nulls(broker: Server, new_topic: NewTopicFunction, tmp_path: Path) -> None:
    topic = new_topic()
    file = tmp_path / "input"
    file.write_bytes(b"k1::v1;;k2::NULL;;NULL::::")
    options = ["--key-separator", "::", "--null", "NULL", "--delimiter", ";;", "-H", "a=1", "--headers", "b"]
    assert run(broker, "produce", topic, "--file", str(file), *options).code == 0
    found = stored(broker, topic)
    assert [(record.key, record.value) for record in found] == [(b"k1", b"v1"), (b"k2", None), (None, b"::")]
    assert {record.headers for record in found} == {(("a", b"1"), ("b", None))}


def test_keys_go_where_the_java_client_would_send_them(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(5)
    keys = [f"truck-{number}".encode() for number in range(20)]
    run(broker, "produce", topic, "-K", ":", given=b"".join(key + b":x\n" for key in keys))
    landed = {record.key: record.partition for record in stored(broker, topic, 5)}
    assert landed == {key: (murmur2(key) & 0x7FFFFFFF) % 5 for key in keys}


def test_json_lines(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(3)
    lines = [
        {"key": "k", "value": {"n": [1, None]}, "headers": {"h": "v"}, "partition": 2, "timestamp": 1_700_000_000_000},
        {"value_base64": "AP8=", "partition": 0, "timestamp": "2026-05-01T12:00:00Z"},
        {"key": "k", "value": None, "partition": 1},
    ]
    done = run(broker, "produce", topic, "--format", "json", given="\n".join(map(json.dumps, lines)).encode())
    assert done.code == 0, done
    second, third, first = stored(broker, topic, 3)
    assert (first.key, first.value, first.headers) == (b"k", b'{"n":[1,null]}', (("h", b"v"),))
    assert (first.timestamp_ms, second.timestamp_ms) == (1_700_000_000_000, 1_777_636_800_000)
    assert (second.key, second.value) == (None, b"\x00\xff")
    assert (third.key, third.value) == (b"k", None)


def test_a_topic_is_copied_record_by_record(broker: Server, new_topic: NewTopicFunction) -> None:
    source, copy = new_topic(2), new_topic(2)
    line = b'{"key": "%d", "value_base64": "/wA=", "headers": [["a", null], ["a", "1"]]}\n'
    run(broker, "produce", source, "--format", "json", given=b"".join(line % number for number in range(50)))
    read = run(broker, "consume", source, "--no-follow", "--json")
    assert run(broker, "produce", copy, "--format", "jsonl", given=read.out).code == 0
    assert stored(broker, copy, 2) == stored(broker, source, 2)


def test_bad_json_on_line_17(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    given = b'{"value": 1}\n' * 16 + b'{"value": \n' + b'{"value": 1}\n' * 5
    done = run(broker, "produce", topic, "--format", "json", "--json", given=given)
    done.failed(1, "line 17: this is not JSON: ")
    assert "hint: The 16 before it were sent; correct the line and go on from there: `tail -n +17 FILE" in done.err
    report = done.json
    assert (report["sent"], report["acknowledged"], report["complete"]) == (16, 16, False)
    assert report["stopped"].startswith("line 17: this is not JSON")
    assert stored_count(broker, topic) == 16


def test_a_value_that_is_too_large(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    done = run(broker, "produce", topic, given=b"small\n" + b"x" * 2_000_000 + b"\nsmall\n")
    done.failed(1, f"line 2: a message for topic {topic} is too large")
    assert done.out.startswith(b"sent 1, acknowledged 1 in ")
    assert values(broker, topic) == [b"small"]


def test_a_value_that_is_too_large_for_the_topic(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(1, {"max.message.bytes": "1000"})
    done = run(broker, "produce", topic, "--json", given=b"x" * 5000)
    done.failed(1, "1 of 1 records were not acknowledged: a message for topic")
    assert (done.json["sent"], done.json["acknowledged"], done.json["not_acknowledged"]) == (1, 0, 1)


def test_unknown_topics_and_partitions(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(2)
    wrong = run(broker, "produce", topic + "s", given=b"x")
    wrong.failed(1, f"topic {topic}s does not exist")
    assert f"hint: Did you mean {topic}? Create it: `bifrost topic create {topic}s`." in wrong.err
    run(broker, "produce", topic, "--partition", "2", given=b"x").failed(1, f"topic {topic} has no partition 2")
    given = b'{"value": 1, "partition": 1}\n{"value": 1, "partition": 9}\n'
    done = run(broker, "produce", topic, "--format", "json", given=given)
    done.failed(1, f"line 2: topic {topic} has no partition 9. It has partitions 0 to 1.")
    assert stored_count(broker, topic, 2) == 1


def test_other_inputs(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    picture = bytes(range(256)) * 10
    assert run(broker, "produce", topic, "--format", "raw", "--key", "logo", given=picture).code == 0
    assert run(broker, "produce", topic, "--format", "hex", "-K", ":", given=b"00ff:0a0b\n").code == 0
    assert [(record.key, record.value) for record in stored(broker, topic)] == [
        (b"logo", picture),
        (b"\0\xff", b"\n\x0b"),
    ]
    run(broker, "produce", topic, "--format", "hex", given=b"zz").failed(1, "line 1: 'zz' is not hexadecimal")


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compression(broker: Server, new_topic: NewTopicFunction, codec: str) -> None:
    topic = new_topic()
    assert run(broker, "produce", topic, "--compression", codec, given=b"same\n" * 500).code == 0
    assert run(broker, "consume", topic, "-e").out == b"same\n" * 500


def test_without_acknowledgements_there_are_no_offsets(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    report = run(broker, "produce", topic, "--acks", "0", "--json", given=b"1\n2\n").json
    assert report["partitions"] == [{"partition": 0, "records": 2, "first_offset": None, "last_offset": None}]
    eventually(lambda: stored_count(broker, topic) == 2)


def test_a_rate_is_kept(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    started_s = time.monotonic()
    assert run(broker, "produce", topic, "--rate", "50", "--json", given=b"x\n" * 41).json["complete"]
    assert time.monotonic() - started_s >= 0.8


def feed_for_ever(process: Process) -> None:
    """Lines until nobody reads them any more."""
    try:
        while True:
            process.write(b"".join(b"%d\n" % number for number in range(100)))
            time.sleep(0.001)
    except BrokenPipeError:
        pass


def test_an_interrupt_reports_exactly_what_is_stored(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(3)
    with Process(broker, "produce", topic, "--json", "-X", "linger.ms=200") as process:
        feeder = threading.Thread(target=feed_for_ever, args=(process,))
        feeder.start()
        eventually(lambda: stored_count(broker, topic, 3) > 100)
        process.signal(signal.SIGINT)
        feeder.join()
        done = process.end()
    assert done.code == 130
    report = done.json
    assert (report["stopped"], report["complete"]) == ("interrupted", False)
    assert report["sent"] == report["acknowledged"] == stored_count(broker, topic, 3)
    assert sum(each["records"] for each in report["partitions"]) == report["acknowledged"]
    assert done.err.splitlines() == [f"error: interrupted after {report['acknowledged']:,} acknowledged records"]


@pytest.mark.parametrize("name", [pytest.param("kafka", marks=pytest.mark.oracle), "bifrost"])
def test_a_broker_that_dies_in_the_middle(start_broker: StartBroker, name: str) -> None:
    server = start_broker(name)
    run(server, "topic", "create", "t", "--partitions", "1")
    with Process(server, "produce", "t", "--json", "--timeout", "3s") as process:
        process.write(b"before\n" * 10)
        eventually(lambda: stored_count(server, "t") == 10)
        server.kill()
        process.write(b"after\n" * 5)
        done = process.end()
    report = done.json
    missing = 15 - report["acknowledged"]
    assert missing >= 5, "or more: the answer for what was stored may not have been read before the broker died"
    assert (report["sent"], report["not_acknowledged"]) == (15, missing)
    problem = (
        f"error: {missing} of 15 records were not acknowledged: a message for topic t was not acknowledged in time"
    )
    done.failed(1, problem)
    assert "may be stored or not: read the topic before you send them again" in done.err
    server.start()
    assert stored_count(server, "t") == 10


@pytest.mark.parametrize("name", [pytest.param("kafka", marks=pytest.mark.oracle), "bifrost"])
def test_a_broker_that_comes_back_in_time(start_broker: StartBroker, name: str) -> None:
    server = start_broker(name)
    run(server, "topic", "create", "t", "--partitions", "1")
    with Process(server, "produce", "t", "--json", "--timeout", "60s") as process:
        process.write(b"before\n")
        eventually(lambda: stored_count(server, "t") == 1)
        server.kill()
        process.write(b"after\n" * 5)
        server.start()
        done = process.end()
    assert (done.code, done.err) == (0, "")
    assert done.json["acknowledged"] == 6 == stored_count(server, "t")


@pytest.mark.parametrize(
    ("address", "reason"), [("127.0.0.1:1", "Connection refused"), ("nowhere.invalid:9092", "not known")]
)
@pytest.mark.parametrize("command", ["produce", "consume", "console-producer --topic", "perf produce", "perf latency"])
def test_a_wrong_address(address: str, reason: str, command: str) -> None:
    started_s = time.monotonic()
    done = run(address, *command.split(), "t", given=b"x\n")
    done.failed(1, f"no broker answers at {address} (")
    assert reason in done.err
    assert "`bifrost up` starts one here" in done.err
    assert time.monotonic() - started_s < 10


def test_debug_shows_where_an_error_comes_from() -> None:
    done = run("127.0.0.1:1", "--debug", "produce", "t", given=b"x\n")
    assert "Traceback" in done.err
    assert "UnreachableError" in done.err
    assert done.code == 1
