"""`console-producer` and `console-consumer` beside Kafka's own: the same is stored, the same bytes are printed.

With one exception: Kafka's consumer prints NOT_PRESENT where `print.epoch` asks for the epoch, ours prints the epoch.
"""

from __future__ import annotations

import subprocess

import pytest

from tests.compat import oracle
from tests.compat.cache import Unavailable
from tests.compat.cli.commands import Process, Result, run, stored
from tests.compat.conftest import NewTopicFunction, skip_without, unique_name
from tests.compat.servers import Server

EVERYTHING = [f"print.{name}=true" for name in ("timestamp", "partition", "offset", "headers", "key")]
LINES = b"a:1,b:NULL\tk1\tv1\nNULL\tNULL\tNULL\nc:\tk2\tv\t2\r\nd:4\t\t\n"
PARSE = ["parse.key=true", "parse.headers=true", "null.marker=NULL"]


def kafka_tool(name: str, server: Server, *arguments: str, given: bytes = b"") -> Result:
    """One of Kafka's own tools."""
    try:
        command = oracle.java_command(
            f"org.apache.kafka.tools.{name}", "--bootstrap-server", server.bootstrap, *arguments
        )
    except Unavailable as error:
        skip_without(error)
        raise
    done = subprocess.run(command, input=given, capture_output=True, timeout=90, check=False)
    return Result(done.returncode, done.stdout, done.stderr.decode())


def reader_properties() -> list[str]:
    return [each for text in PARSE for each in ("--reader-property", text)]


@pytest.mark.oracle
def test_both_producers_store_the_same(broker: Server, new_topic: NewTopicFunction) -> None:
    ours, theirs = new_topic(), new_topic()
    assert run(broker, "console-producer", "--topic", ours, *reader_properties(), given=LINES) == (0, b"", "")
    assert kafka_tool("ConsoleProducer", broker, "--topic", theirs, *reader_properties(), given=LINES).code == 0

    def content(topic: str) -> list[object]:
        return [(record.key, record.value, record.headers) for record in stored(broker, topic)]

    assert content(ours) == content(theirs)
    assert content(ours)[0] == (b"k1", b"v1", (("a", b"1"), ("b", None)))
    assert len(content(ours)) == 4


@pytest.mark.oracle
@pytest.mark.parametrize("properties", [[], EVERYTHING, ["print.key=true", "print.value=false", "null.literal=-"]])
def test_both_consumers_print_the_same(broker: Server, new_topic: NewTopicFunction, properties: list[str]) -> None:
    topic = new_topic()
    run(broker, "console-producer", "--topic", topic, *reader_properties(), given=LINES)
    options = [each for text in properties for each in ("--formatter-property", text)]
    common = ["--topic", topic, "--from-beginning", "--max-messages", "4", *options]
    ours = run(broker, "console-consumer", *common)
    theirs = kafka_tool("consumer.ConsoleConsumer", broker, *common)
    assert ours.out == theirs.out
    assert (ours.code, theirs.code) == (0, 0)
    assert "Processed a total of 4 messages" in theirs.err.splitlines()
    assert ours.err == "Processed a total of 4 messages\n"


def test_options_as_they_have_been_typed_for_years(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    typed = f"--broker-list {broker.bootstrap} --topic {topic} --property parse.key=true --property key.separator=:"
    tuned = "--request-required-acks 1 --compression-codec gzip --producer-property linger.ms=1 --sync --timeout 5"
    assert run("127.0.0.1:1", "console-producer", *typed.split(), *tuned.split(), given=b"a:1\nb:2\n") == (0, b"", "")
    typed = f"--bootstrap-server {broker.bootstrap} --topic {topic} --from-beginning --timeout-ms 1500"
    done = run("127.0.0.1:1", "console-consumer", *typed.split(), "--property", "print.key=true")
    assert done == (0, b"a\t1\nb\t2\n", "Processed a total of 2 messages\n")


def test_one_partition_from_an_offset(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(2)
    run(broker, "produce", topic, "--partition", "1", given=b"0\n1\n2\n3\n")
    place = ["--topic", topic, "--partition", "1"]
    assert run(broker, "console-consumer", *place, "--offset", "2", "--max-messages", "1").out == b"2\n"
    assert run(broker, "console-consumer", *place, "--offset", "earliest", "--max-messages", "2").out == b"0\n1\n"
    assert run(broker, "console-consumer", *place, "--timeout-ms", "500").out == b"", "from the end, as Kafka's does"


@pytest.mark.usefixtures("coordinators")
def test_groups_and_patterns(broker: Server, new_topic: NewTopicFunction) -> None:
    topic, group = new_topic(), unique_name("group")
    run(broker, "produce", topic, given=b"1\n2\n3\n")
    member = ["--group", group, "--from-beginning", "--include", f"{topic[:-1]}."]
    assert run(broker, "console-consumer", *member, "--max-messages", "2").out == b"1\n2\n"
    assert run(broker, "console-consumer", *member, "--max-messages", "1").out == b"3\n"


def test_a_topic_is_made_if_the_broker_makes_topics(broker: Server) -> None:
    topic = unique_name("made")
    assert run(broker, "console-producer", "--topic", topic, given=b"first\n").code == 0
    assert [record.value for record in stored(broker, topic)] == [b"first"]


def test_what_cannot_be_shown_ends_it_or_is_skipped(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    run(broker, "produce", topic, "--format", "hex", given=b"00000000000000ff\n00\n0000000000000001")
    common = ["--topic", topic, "--from-beginning", "--timeout-ms", "1000", "--value-deserializer", "LongDeserializer"]
    done = run(broker, "console-consumer", *common, "--property", "value.deserializer=x.LongDeserializer")
    assert done.out == b"255\n0\n1\n", "one byte is an integer, too"
    common[-1] = "org.apache.kafka.common.serialization.DoubleDeserializer"
    done = run(broker, "console-consumer", *common)
    done.failed(1, f"partition 0 offset 1 of {topic} is not a floating-point number")
    assert "Processed a total of 1 messages" in done.err
    skipped = run(broker, "console-consumer", *common, "--skip-message-on-error")
    assert len(skipped.out.splitlines()) == 2
    assert "Processed a total of 3 messages" in skipped.err


def test_a_line_without_a_separator(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    done = run(broker, "console-producer", "--topic", topic, "--property", "parse.key=true", given=b"a\t1\nb\n")
    done.failed(1, "line 2: there is no key separator '\\t' in 'b'")
    assert "`tail -n +2 FILE | bifrost console-producer …`" in done.err
    assert len(stored(broker, topic)) == 1


def test_the_codec_may_be_left_out(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    for options in (["--compression-codec", "--sync"], ["--sync", "--compression-codec"]):
        assert run(broker, "console-producer", "--topic", topic, *options, given=b"a\n").code == 0
    assert [record.value for record in stored(broker, topic)] == [b"a", b"a"]


def test_formatters_and_events_of_kafkas_consumer(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    run(broker, "produce", topic, given=b"a\n")
    typed = ["console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "1", "--formatter"]
    package = "org.apache.kafka.tools.consumer"
    done = run(broker, *typed, f"{package}.LoggingMessageFormatter", "--enable-systest-events")
    assert (done.code, done.out) == (0, b"a\nshutdown_complete\n")
    offsets = run(broker, *typed, f"{package}.OffsetsMessageFormatter")
    offsets.failed(1, f"the formatter {package}.OffsetsMessageFormatter is a Java class that cannot be run here")
    assert "hint: `bifrost group describe` shows what a group has committed.\n" in offsets.err


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("console-consumer", "exactly one of --topic and --include is needed"),
        ("console-consumer --topic t --include t", "exactly one of --topic and --include is needed"),
        ("console-consumer --topic t --offset 5", "--offset is for one partition: add --partition"),
        ("console-consumer --topic t --partition 0 --offset 5 --from-beginning", "contradict each other"),
        ("console-consumer --topic t --partition 0 --group g", "--group and --partition contradict each other"),
        ("console-consumer --topic t --partition 0 --offset -5", "'-5' is no offset"),
        ("console-consumer --topic t --consumer-property group.id=a --group b", "name different groups: a, b"),
        ("console-producer --topic t --property parse.key", "--reader-property takes NAME=VALUE, not 'parse.key'"),
    ],
)
def test_what_makes_no_sense(command: str, problem: str) -> None:
    run("127.0.0.1:1", *command.split()).failed(2, problem)


def test_an_interactive_line_is_sent_at_once(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    with (
        Process(broker, "console-producer", "--topic", topic) as producer,
        Process(broker, "console-consumer", "--topic", topic, "--from-beginning") as consumer,
    ):
        for number in range(3):
            producer.write(b"%d\n" % number)
            assert consumer.read_line() == b"%d\n" % number
        assert producer.end() == (0, b"", "")
