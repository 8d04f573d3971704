"""Settings that change while the node runs: where they come from, and who hears of them."""

from __future__ import annotations

from bifrost.broker.live_settings import LiveSettings
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import ConfigChanged
from bifrost.settings import Settings, Source
from bifrost.settings.broker import keys
from bifrost.settings.keys import Update
from bifrost.settings.topic import topic_keys
from tests.unit.broker.hosting import Hosting
from tests.unit.broker.stand_ins import on_loop
from tests.unit.controller.stand_ins import apply, cluster_of

STARTED = Settings(node_id=1, message_max_bytes=100, max_connections=10)


def changed(image: MetadataImage, live: LiveSettings, broker: str, name: str, text: str | None) -> Settings:
    live.on_change(image, apply(image, [ConfigChanged(4, broker, name, text)]))
    return live.now


def test_stored_changes_stand_over_what_the_node_was_started_with() -> None:
    image = cluster_of(1)
    live = LiveSettings(STARTED, image)
    assert live.now is STARTED
    assert changed(image, live, "", "message.max.bytes", "200").message_max_bytes == 200
    assert changed(image, live, "1", "message.max.bytes", "300").message_max_bytes == 300
    assert changed(image, live, "2", "message.max.bytes", "400").message_max_bytes == 300
    assert changed(image, live, "1", "message.max.bytes", None).message_max_bytes == 200
    assert changed(image, live, "", "message.max.bytes", None) == live.started_with == STARTED


def test_what_was_stored_before_the_start_counts_from_the_start() -> None:
    image = cluster_of(1)
    apply(image, [ConfigChanged(4, "1", "max.connections", "3")])
    assert LiveSettings(STARTED, image).now.max_connections == 3


def test_followers_hear_of_the_settings_at_once_and_of_every_change() -> None:
    image = cluster_of(1)
    live = LiveSettings(STARTED, image)
    heard: list[int] = []
    live.follow(lambda settings: heard.append(settings.max_connections))
    changed(image, live, "", "max.connections", "20")
    changed(image, live, "", "max.connections", None)
    assert heard == [10, 20, 10]


def test_topics_inherit_what_stands_now() -> None:
    image = cluster_of(1)
    live = LiveSettings(STARTED, image)
    apply(image, [ConfigChanged(2, "own", "max.message.bytes", "7")])
    changed(image, live, "", "message.max.bytes", "200")
    changed(image, live, "", "producer.id.expiration.ms", "300")
    assert (live.topic_config("any").max_message_bytes, live.topic_config("own").max_message_bytes) == (200, 7)
    config = live.log_config(live.topic_config("any"))
    assert (config.max_message_bytes, config.producer_id_expiration_ms) == (200, 300)


def test_topics_are_described_as_things_stand_now() -> None:
    image = cluster_of(1)
    live = LiveSettings(STARTED, image)
    sources = []
    for broker in (None, "", "1"):
        if broker is not None:
            changed(image, live, broker, "message.max.bytes", "200")
        (entry,) = (one for one in live.topic_describer().describe({}) if one.name == "max.message.bytes")
        sources.append(entry.source)
    assert sources == [Source.STATIC, Source.DYNAMIC_DEFAULT, Source.DYNAMIC_BROKER]


def test_every_setting_that_may_change_has_an_effect() -> None:
    """Topics inherit it, or somebody follows it or reads it as it stands."""
    inherited = {spec.synonyms[0].name for spec in topic_keys().values() if spec.synonyms}
    dynamic = {name for name, key in keys().items() if key.update is not Update.READ_ONLY}
    followed = {"follower.replication.throttled.rate", "leader.replication.throttled.rate", "leader.forwarding.enable"}
    followed |= {"replica.alter.log.dirs.io.max.bytes.per.second"}
    followed |= {"max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides"}
    followed |= {"max.connection.creation.rate", "producer.id.expiration.ms", "replica.catch.up.time.percent"}
    followed |= {f"log.cleaner.{name}" for name in ("threads", "backoff.ms", "dedupe.buffer.size", "io.buffer.size")}
    followed |= {"log.cleaner.io.buffer.load.factor", "log.cleaner.io.max.bytes.per.second"}
    followed |= {"produce.inflated.max.bytes", "produce.validation", "group.consumer.assignment.interval.ms"}
    assert dynamic == inherited | followed


@on_loop
async def test_a_change_for_all_brokers_is_followed_before_logs_are_made() -> None:
    hosting = await Hosting.start()
    heard: list[int] = []
    hosting.live.follow(lambda settings: heard.append(settings.message_max_bytes))
    hosting.commit(ConfigChanged(4, "", "message.max.bytes", "200"))
    hosting.commit(ConfigChanged(4, "7", "message.max.bytes", "300"))
    hosting.create("orders")
    assert heard == [1_048_588, 200]
    assert hosting.partition("orders").log.config.max_message_bytes == 200
