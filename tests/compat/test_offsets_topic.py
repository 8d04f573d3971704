"""`__consumer_offsets` is read by other people's tools: Kafka's console formatters and segment reader understand it.

That its records are Kafka's to the byte is asked in `questions.group_records`; here Kafka's own code says what it sees.
"""

from __future__ import annotations

import json
import re
import subprocess
import uuid
from dataclasses import dataclass
from typing import Any

import pytest

from tests.compat import oracle
from tests.compat.cache import Unavailable
from tests.compat.clients.base import LATEST
from tests.compat.clients.confluent import Confluent
from tests.compat.conftest import FOREIGN, skip_without
from tests.compat.questions.catalogue import Bound
from tests.compat.questions.group_records import OFFSETS_TOPIC, coordinator_partition
from tests.compat.questions.party import Party
from tests.compat.questions.stage import Stage
from tests.compat.servers import Server
from tests.compat.wire import Wire


@dataclass(frozen=True)
class Scene:
    """A classic group and one of KIP-848, each with a member and a commit."""

    stage: Stage
    classic: Party
    consumer: Party


@pytest.fixture(scope="module")
def scene(broker: Server, coordinators: None) -> Scene:
    stage = Stage(broker.bootstrap, f"scene{uuid.uuid4().hex[:10]}", has_coordinators=True)
    stage.set()
    with Wire(broker.bootstrap) as connection:
        ask = Bound("offset_commit", 9, connection)
        classic, consumer = Party(stage, ask, "classic"), Party(stage, ask, "consumer")
        for party, epoch in ((classic, classic.stable()), (consumer, consumer.consumer_alone())):
            party.commit(7, generation_id_or_member_epoch=epoch, member_id=party.ids["A"])
            party.close()
    return Scene(stage, classic, consumer)


def _formatted(bootstrap: str, partition: int, formatter: str) -> list[dict[str, Any]]:
    """What the console consumer prints of a partition through one of its formatters."""
    arguments = ["--bootstrap-server", bootstrap, "--topic", OFFSETS_TOPIC, "--partition", str(partition)]
    (end,) = Confluent(bootstrap).offsets(OFFSETS_TOPIC, [partition], LATEST).values()
    arguments += ["--offset", "earliest", "--max-messages", str(end)]
    arguments += ["--formatter", f"org.apache.kafka.tools.consumer.{formatter}"]
    try:
        command = oracle.java_command("org.apache.kafka.tools.consumer.ConsoleConsumer", *arguments)
    except Unavailable as error:
        skip_without(error)
        raise
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    printed, position, decoder = [], 0, json.JSONDecoder()
    while done.stdout.startswith("{", position):
        found, position = decoder.raw_decode(done.stdout, position)
        printed.append(found)
    assert printed, done.stdout + done.stderr
    return printed


def test_the_console_prints_commits(broker: Server, scene: Scene) -> None:
    group = scene.classic.group
    printed = _formatted(broker.bootstrap, coordinator_partition(group), "OffsetsMessageFormatter")
    (found,) = (each for each in printed if each["key"]["data"]["group"] == group)
    topic = scene.stage.name("filled")
    assert found["key"] == {"type": 1, "data": {"group": group, "topic": topic, "partition": 0}}
    value = found["value"]["data"]
    assert (found["value"]["version"], value["offset"], value["metadata"]) == (4, 7, "note")


def test_the_console_prints_groups(broker: Server, scene: Scene) -> None:
    group = scene.classic.group
    printed = _formatted(broker.bootstrap, coordinator_partition(group), "GroupMetadataMessageFormatter")
    about = [each["value"]["data"] for each in printed if each["key"]["data"]["group"] == group]
    last = next(each for each in about if each["members"])
    assert (last["protocolType"], last["protocol"], last["generation"]) == ("consumer", "range", 1)
    (member,) = last["members"]
    assert member["memberId"] == last["leader"] == scene.classic.ids["A"]


_RECORD = re.compile(r"key: (\{.*\}) payload: (\{.*\}|<null>|<DELETE>)")


@pytest.mark.skipif(FOREIGN is not None, reason="the files of a foreign broker are out of reach")
def test_the_segment_reader_decodes_every_record(broker: Server, scene: Scene) -> None:
    """Also those of groups whose broker assigns; one that it could not decode would lack its JSON."""
    seen: dict[int, dict[str, Any]] = {}
    for party in (scene.classic, scene.consumer):
        partition = coordinator_partition(party.group)
        (log,) = broker.log_dir(OFFSETS_TOPIC, partition).glob("*.log")
        try:
            said = oracle.dump_log_segments("--offsets-decoder", "--files", str(log))
        except Unavailable as error:
            skip_without(error)
        lines = [line for line in said.splitlines() if "| offset:" in line and party.group in line]
        assert lines, said[-2000:]
        for line in lines:
            found = _RECORD.search(line)
            assert found is not None, line
            key = json.loads(found[1])
            if found[2].startswith("{"):  # by now the member may have been missed, and its records taken back
                seen.setdefault(int(key["type"]), json.loads(found[2])["data"])
    assert sorted(seen) == [1, 2, 3, 5, 6, 7, 8]
    assert seen[1]["offset"] in (7, "7")
    assert seen[5]["subscribedTopicNames"] == [scene.stage.name("filled")]
    assert seen[5].get("classicMemberMetadata") is None
    topic_id = seen[8]["assignedPartitions"][0]["topicId"]
    assert seen[7]["topicPartitions"][0]["topicId"] == topic_id
