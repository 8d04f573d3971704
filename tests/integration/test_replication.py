"""Three brokers that replicate: what was acknowledged outlives any two of them, and clients go on by themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from bifrost.errors import ErrorCode
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.records import encode_batch
from bifrost.testing import Cluster
from tests.integration.wire import Wire
from tests.waiting import eventually

NOW = 1_700_000_000_000


@pytest.fixture
def realm() -> Iterator[Cluster]:
    with Cluster(brokers=3, odins=3, offsets_topic_num_partitions=3, group_initial_rebalance_delay_ms=0) as cluster:
        yield cluster


def admin_of(realm: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": realm.bootstrap})


def create(realm: Cluster, name: str, *, partitions: int = 1, replicas: int = 3, **configs: str) -> None:
    config = {key.replace("_", "."): text for key, text in configs.items()}
    admin = admin_of(realm)
    (done,) = admin.create_topics([NewTopic(name, partitions, replicas, config=config)]).values()
    done.result(20)
    eventually(lambda: all(leader >= 0 for leader in leaders(realm, name)))


def leaders(realm: Cluster, topic: str) -> list[int]:
    partitions = admin_of(realm).list_topics(topic, timeout=10).topics[topic].partitions
    return [partitions[index].leader for index in sorted(partitions)]


def in_sync(realm: Cluster, topic: str, partition: int = 0) -> list[int]:
    return sorted(admin_of(realm).list_topics(topic, timeout=10).topics[topic].partitions[partition].isrs)


def produce(realm: Cluster, topic: str, values: Sequence[bytes], **settings: object) -> list[int]:
    """The offsets, once all are acknowledged by all replicas in sync."""
    producer = Producer({"bootstrap.servers": realm.bootstrap, "enable.idempotence": True, "linger.ms": 1, **settings})
    offsets: list[int] = []

    def on_delivery(error: object, message: Message) -> None:
        assert error is None, error
        offsets.append(message.offset())

    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=on_delivery)
    assert producer.flush(60) == 0
    return offsets


def read(realm: Cluster, topic: str, count: int) -> list[bytes]:
    """The first so many values of partition 0."""
    consumer = Consumer({"bootstrap.servers": realm.bootstrap, "group.id": "reader", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[bytes] = []

        def poll() -> bool:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                found.append(message.value())
            return len(found) >= count

        eventually(poll)
        return found
    finally:
        consumer.close()


def log_of(realm: Cluster, broker: int, topic: str) -> bytes:
    folder = realm.node_dir(broker) / f"{topic}-0"
    return b"".join(path.read_bytes() for path in sorted(Path(folder).glob("*.log")))


def values_of(start: int, count: int) -> list[bytes]:
    return [b"value-%d" % number for number in range(start, start + count)]


def test_every_replica_holds_the_same_bytes(realm: Cluster) -> None:
    create(realm, "orders")
    produce(realm, "orders", values_of(0, 2000))
    eventually(lambda: len({log_of(realm, broker, "orders") for broker in range(3)}) == 1)
    assert len(log_of(realm, 0, "orders")) > 20_000


def test_any_two_brokers_may_die_and_the_last_one_serves(realm: Cluster) -> None:
    create(realm, "orders")
    expected = values_of(0, 500)
    produce(realm, "orders", expected)
    for round_ in range(2):
        realm.kill(leaders(realm, "orders")[0])
        more = values_of(len(expected), 200)
        produce(realm, "orders", more)
        expected += more
        assert len(in_sync(realm, "orders")) == 2 - round_
    assert read(realm, "orders", len(expected)) == expected


def test_who_comes_back_catches_up_and_is_in_sync_again(realm: Cluster) -> None:
    create(realm, "orders")
    first = leaders(realm, "orders")[0]
    produce(realm, "orders", values_of(0, 100))
    realm.kill(first)
    produce(realm, "orders", values_of(100, 300))
    realm.restart(first)
    eventually(lambda: in_sync(realm, "orders") == [0, 1, 2])
    eventually(lambda: len({log_of(realm, broker, "orders") for broker in range(3)}) == 1)
    others = [broker for broker in range(3) if broker != first]
    for broker in others:  # so that only what the returned one holds can be read
        realm.kill(broker)
    eventually(lambda: leaders(realm, "orders") == [first])
    assert read(realm, "orders", 400) == values_of(0, 400)


def test_too_few_in_sync_refuse_what_all_should_acknowledge(realm: Cluster) -> None:
    create(realm, "orders", min_insync_replicas="2")
    produce(realm, "orders", values_of(0, 10))
    leader = leaders(realm, "orders")[0]
    for broker in [broker for broker in range(3) if broker != leader]:
        realm.kill(broker)
    eventually(lambda: in_sync(realm, "orders") == [leader])
    with Wire(realm.node(leader).address) as wire:
        refused = wire.produce("orders", bytes(encode_batch([(NOW, None, b"more", ())])), acks=-1)
        taken = wire.produce("orders", bytes(encode_batch([(NOW, None, b"less safe", ())])), acks=1)
        shown = wire.fetch("orders", 10)
    assert ErrorCode(refused.error_code) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert (taken.error_code, taken.base_offset) == (0, 10)
    assert (shown.high_watermark, bytes(shown.records or b"")) == (10, b""), "what too few hold is shown to nobody"


def test_commits_of_a_group_outlive_its_coordinator(realm: Cluster) -> None:
    create(realm, "orders")
    produce(realm, "orders", values_of(0, 50))
    settings = {"bootstrap.servers": realm.bootstrap, "group.id": "billing", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.commit(offsets=[TopicPartition("orders", 0, 37)], asynchronous=False)
    consumer.close()
    coordinators = admin_of(realm).list_topics("__consumer_offsets", timeout=10).topics["__consumer_offsets"].partitions
    realm.kill(coordinators[abs(_java_hash("billing")) % len(coordinators)].leader)
    again = Consumer(settings)
    (told,) = again.committed([TopicPartition("orders", 0)], timeout=30)
    again.close()
    assert told.offset == 37


def _java_hash(text: str) -> int:
    code = 0
    for letter in text:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    return code - (1 << 32) if code >= 1 << 31 else code


class TestAnyBrokerAnswersForAnyPartition:
    """A client that knows one address and nothing of leaders."""

    @pytest.mark.parametrize("version", [3, 9, 12])
    @pytest.mark.parametrize("replicas", [1, 3])
    def test_a_write_reaches_the_leader_and_its_answer_the_client(
        self, realm: Cluster, replicas: int, version: int
    ) -> None:
        create(realm, "orders", replicas=replicas)
        other = (leaders(realm, "orders")[0] + 1) % 3
        produce(realm, "orders", values_of(0, 3))
        with Wire(realm.node(other).address) as wire:
            answer = wire.produce("orders", bytes(encode_batch([(NOW, None, b"value-3", ())])), version=version)
        assert (answer.error_code, answer.base_offset) == (0, 3)
        assert read(realm, "orders", 4) == values_of(0, 4)

    def test_writes_stay_in_order(self, realm: Cluster) -> None:
        create(realm, "orders")
        other = (leaders(realm, "orders")[0] + 1) % 3
        with Wire(realm.node(other).address) as wire:
            for number in range(50):
                wire.send_produce("orders", bytes(encode_batch([(NOW, None, b"value-%d" % number, ())])))
            offsets = [wire.receive_produce()[1].topics[0].partitions[0].base_offset for _ in range(50)]
        assert offsets == list(range(50))
        assert read(realm, "orders", 50) == values_of(0, 50)

    def test_a_write_that_nobody_waits_for_arrives(self, realm: Cluster) -> None:
        create(realm, "orders")
        other = (leaders(realm, "orders")[0] + 1) % 3
        with Wire(realm.node(other).address) as wire:
            wire.send_produce("orders", bytes(encode_batch([(NOW, None, b"value-0", ())])), acks=0)
            assert wire.produce("orders", bytes(encode_batch([(NOW, None, b"value-1", ())]))).base_offset == 1
        assert read(realm, "orders", 2) == values_of(0, 2)

    @pytest.mark.parametrize("version", [10, 12])
    def test_a_read_is_served_by_whoever_has_the_data(self, realm: Cluster, version: int) -> None:
        create(realm, "alone", replicas=1)
        create(realm, "everywhere", replicas=3)
        for topic in ("alone", "everywhere"):
            produce(realm, topic, values_of(0, 3))
            other = (leaders(realm, topic)[0] + 1) % 3
            with Wire(realm.node(other).address) as wire:
                eventually(lambda topic=topic, wire=wire: wire.fetch(topic, 0, version=version).high_watermark == 3)  # type: ignore[misc]
                answer = wire.fetch(topic, 2, version=version, max_wait_ms=500)
            assert answer.error_code == 0
            assert b"value-2" in bytes(answer.records)

    def test_it_can_be_switched_off_and_then_clients_are_told_who_leads(self) -> None:
        with Cluster(brokers=3, odins=1, leader_forwarding_enable=False) as realm:
            create(realm, "orders")
            leader = leaders(realm, "orders")[0]
            with Wire(realm.node((leader + 1) % 3).address) as wire:
                wire.send_produce("orders", bytes(encode_batch([(NOW, None, b"x", ())])), version=10)
                _, response = wire.receive_produce(10)
        (refused,) = response.topics[0].partitions
        assert ErrorCode(refused.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert refused.current_leader is not None
        assert refused.current_leader[0] == leader
        address = realm.node(leader).address
        assert [f"{one.host}:{one.port}" for one in response.node_endpoints if one.node_id == leader] == [address]


def test_more_replicas_than_brokers_are_refused(realm: Cluster) -> None:
    admin = admin_of(realm)
    (refused,) = admin.create_topics([NewTopic("orders", 1, 4)]).values()
    with pytest.raises(KafkaException, match="INVALID_REPLICATION_FACTOR"):
        refused.result(20)


def test_a_consumer_reads_from_the_replica_in_its_own_rack() -> None:
    """KIP-392: the leader tells it to, and the follower shows what it knows to be committed."""
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    with Cluster(brokers=3, odins=1, replica_selector_class=selector) as realm:
        for broker, node in enumerate(realm.brokers):
            node.settings["broker.rack"] = f"rack-{broker}"
            realm.restart(broker)
        create(realm, "orders")
        leader = leaders(realm, "orders")[0]
        follower = (leader + 1) % 3
        produce(realm, "orders", values_of(0, 100))
        before = requests(realm, follower)
        settings = {"bootstrap.servers": realm.bootstrap, "group.id": "near", "client.rack": f"rack-{follower}"}
        consumer = Consumer(settings)
        consumer.assign([TopicPartition("orders", 0, 0)])
        found: list[bytes] = []

        def poll() -> bool:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                found.append(message.value())
            return len(found) == 110

        eventually(lambda: poll() or len(found) == 100)
        assert requests(realm, follower) > before, "the consumer has asked the replica that is near"
        produce(realm, "orders", values_of(100, 10))
        eventually(poll)
        consumer.close()
        assert found == values_of(0, 110)


def requests(realm: Cluster, broker: int) -> int:
    """How often the broker was asked for records."""
    return int(realm.node(broker).metrics.requests[ApiKey.FETCH])


def test_a_lost_partition_is_led_by_a_survivor_if_its_topic_allows(realm: Cluster) -> None:
    """At the price of what only the dead had; where it is not allowed, nothing is lost and nobody leads."""
    for name, allowed in (("careful", "false"), ("eager", "true")):
        create(realm, name, unclean_leader_election_enable=allowed, min_insync_replicas="1")
    order = {name: replicas_of(realm, name) for name in ("careful", "eager")}
    last, first, second = order["eager"]  # each of them has more than those who die before
    for name in order:
        produce(realm, name, values_of(0, 10))
    realm.kill(first)
    for name in order:
        produce(realm, name, values_of(10, 10))
    realm.kill(second)
    eventually(lambda: in_sync(realm, "eager") == [last])
    for name in order:
        produce(realm, name, values_of(20, 10))
    realm.kill(last)
    realm.restart(first)
    realm.restart(second)
    eventually(lambda: leaders(realm, "eager")[0] in (first, second))
    assert leaders(realm, "careful") == [-1]
    assert in_sync(realm, "careful") == [last]
    found = read(realm, "eager", 10 if leaders(realm, "eager")[0] == first else 20)
    assert found == values_of(0, len(found))
    realm.restart(last)
    eventually(lambda: in_sync(realm, "eager") == [0, 1, 2])
    eventually(lambda: len({log_of(realm, broker, "eager") for broker in range(3)}) == 1)
    assert read(realm, "careful", 30) == values_of(0, 30)


def test_of_two_survivors_the_one_with_the_longer_log_leads(realm: Cluster) -> None:
    """Kafka would take the first of the assignment. Both live before anybody may be elected, so both are asked."""
    create(realm, "orders", unclean_leader_election_enable="false", min_insync_replicas="1")
    last, shorter, longer = replicas_of(realm, "orders")  # in the order of the assignment
    for number, dies in enumerate((shorter, longer, last)):
        produce(realm, "orders", values_of(10 * number, 10))
        realm.kill(dies)
    realm.restart(shorter)
    realm.restart(longer)
    eventually(lambda: sorted(admin_of(realm).list_topics(timeout=10).brokers) == sorted((shorter, longer)))
    assert leaders(realm, "orders") == [-1]
    set_config(realm, "orders", "unclean.leader.election.enable", "true")
    eventually(lambda: leaders(realm, "orders") != [-1])
    assert leaders(realm, "orders") == [longer]
    assert read(realm, "orders", 20) == values_of(0, 20), "and the shorter one would have lost half of it"


def set_config(realm: Cluster, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = admin_of(realm)
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(20)


def replicas_of(realm: Cluster, topic: str) -> list[int]:
    """In the order of the assignment, the leader first."""
    found = admin_of(realm).list_topics(topic, timeout=10).topics[topic].partitions[0].replicas
    leader = leaders(realm, topic)[0]
    return [leader, *(broker for broker in found if broker != leader)]
