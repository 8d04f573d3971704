"""For any run of commands: deciding changes nothing, and the log alone rebuilds what the live image became."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bifrost.controller.core.configs import current_settings
from bifrost.controller.core.decision import Decision
from bifrost.controller.core.delta import Delta
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import decode_change, encode_change
from bifrost.controller.core.snapshot import image_records, restore
from bifrost.controller.core.state import Partition
from bifrost.errors import ApiError
from bifrost.settings import TopicConfig
from tests.property.controller_commands import ALL_BROKERS, ALL_NAMES, BOOT, SETTINGS, Command, runs


def check(image: MetadataImage) -> None:
    """What holds of every image."""
    assert {topic.topic_id: topic for topic in image.topics.values()} == image.topics_by_id
    collisions = {name.replace(".", "_"): name for name in image.topics}
    assert len(collisions) == len(image.topics)
    assert all(image.colliding_topic(name) == collisions.get(name.replace(".", "_")) for name in ALL_NAMES)
    check_configs(image)
    check_index(image)
    check_leaders(image)
    for topic in image.topics.values():
        assert topic.partitions, f"{topic.name} has no partitions"
        for part in topic.partitions:
            assert set(part.isr) <= set(part.replicas)
            assert part.isr, "an ISR is never empty: its last member may come back"
            assert part.leader == -1 or part.leader in part.isr
            assert len(set(part.replicas)) == len(part.replicas)
            assert len(part.directories) in (0, len(part.replicas)), "every replica is somewhere, or nobody knows"
            assert part.leader_epoch <= part.partition_epoch
            check_move(part)


def check_move(part: Partition) -> None:
    """A move knows where it comes from and where it goes, and is over when everybody is there."""
    assert set(part.adding) <= set(part.replicas) >= set(part.removing)
    assert part.target, "a partition is somewhere when the move is over"
    assert part.origin, "a partition is somewhere when the move is given up"
    assert not part.is_moving or not set(part.target) <= set(part.isr), "a move is over and goes on"


def check_leaders(image: MetadataImage) -> None:
    """Whoever can lead does, and nobody else; only the last member of an ISR may be away."""
    active = {broker.broker_id for broker in image.brokers.values() if not broker.fenced and not broker.shutting_down}
    assert active == image.active_brokers()
    for key, part in _partitions(image).items():
        assert part.leader == -1 or part.leader in active, f"{key} is led by a broker that is away"
        sound = {one for one in active if image.brokers[one].has_online(part.directory_of(one))}
        assert part.leader == -1 or part.leader in sound, f"{key} is led from a directory that has failed"
        assert part.leader != -1 or not set(part.isr) & sound, f"nobody leads {key}, and somebody could"
        assert len(part.isr) == 1 or set(part.isr) <= sound, f"a replica whose directory has failed holds {key} back"
        assert len(part.isr) == 1 or set(part.isr) <= active, f"a broker that is away holds {key} back"


def check_index(image: MetadataImage) -> None:
    """The index says what a look at every partition says."""
    everywhere = [*_partitions(image).items()]
    moving = [(one.topic.topic_id, one.partition) for one in image.locate(image.index.moving)]
    assert moving == sorted(key for key, part in everywhere if part.is_moving)
    for broker in [-1, *ALL_BROKERS]:
        expected: tuple[set[tuple[bytes, int]], ...] = (
            {key for key, part in everywhere if part.leader == broker},
            {key for key, part in everywhere if broker in part.isr},
            {key for key, part in everywhere if broker == part.replicas[0] != part.leader},
        )
        index = image.index
        for bits, keys in zip((index.led(broker), index.in_sync(broker), index.not_led(broker)), expected, strict=True):
            assert [(one.topic.topic_id, one.partition) for one in image.locate(bits)] == sorted(keys)
        assert index.preferred.get(broker, 0) == sum(part.replicas[0] == broker for _, part in everywhere)
    assert 0 not in index.preferred.values()


def check_configs(image: MetadataImage) -> None:
    """Whatever is stored belongs to somebody, says something, and can be read."""
    now = TopicConfig.of(current_settings(image, SETTINGS))
    for (kind, name), configs in image.configs.items():
        assert configs
        if kind == 2:
            assert name in image.topics
            now.override(configs)
        else:
            assert (kind, name) in ((4, ""), (4, str(SETTINGS.node_id)))
            assert configs.keys() <= {"message.max.bytes", "log.cleanup.policy"}


def decided(command: Command, image: MetadataImage, fresh: int) -> Decision[object]:
    """The decision; a refusal is one, too."""
    try:
        return command(image, fresh)
    except ApiError as error:
        return Decision((), (error.code, error.detail))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(runs(10, 25))
def test_replay_rebuilds_the_live_image(commands: list[Command]) -> None:
    live = MetadataImage()
    log: list[bytes] = []
    for fresh, command in enumerate(BOOT + commands, 1):
        before = live.copy()
        decision = decided(command, live, fresh)
        assert live == before, "deciding changed the image"
        if decision.records:
            log.append(encode_change(decision.records))
            delta = Delta()
            for record in decision.records:
                live.apply(record, len(log) - 1, delta)
            check(live)
            check_delta(before, live, delta)

    replayed = MetadataImage()
    everything = Delta()
    for offset, value in enumerate(log):
        for record in decode_change(value):
            replayed.apply(record, offset, everything)
    assert replayed == live
    assert live.copy() == live
    check_delta(MetadataImage(), replayed, everything)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(runs(5, 20), runs(0, 10), st.integers(1, 20))
def test_a_snapshot_is_as_good_as_the_log_it_stands_for(
    commands: list[Command], more: list[Command], records_max: int
) -> None:
    live = MetadataImage()
    offset = -1
    for fresh, command in enumerate(BOOT + commands, 1):
        if records := decided(command, live, fresh).records:
            offset += 1
            for record in records:
                live.apply(record, offset, Delta())
    stored = [encode_change(change) for change in image_records(live, records_max=records_max)]
    restored = restore(map(decode_change, stored), live.offset)
    assert restored == live
    check(restored)
    for fresh, command in enumerate(more, len(BOOT) + len(commands) + 1):
        decision = decided(command, live, fresh)
        assert decided(command, restored, fresh) == decision
        offset += bool(decision.records)
        for record in decision.records:
            live.apply(record, offset, Delta())
            restored.apply(record, offset, Delta())
    assert restored == live


def check_delta(before: MetadataImage, after: MetadataImage, delta: Delta) -> None:
    """A delta names exactly what differs between two images."""
    assert set(delta.topics_created) == after.topics_by_id.keys() - before.topics_by_id.keys()
    assert set(delta.topics_deleted) == before.topics_by_id.keys() - after.topics_by_id.keys()
    old, new = _partitions(before), _partitions(after)
    differing = {key for key, part in new.items() if old.get(key) != part}
    assert set(delta.partitions) == differing
    for key, change in delta.partitions.items():
        assert (change.before, change.after) == (old.get(key), new[key])
        if change.before is not None:
            assert change.after.partition_epoch > change.before.partition_epoch
            assert change.after.leader_epoch >= change.before.leader_epoch
            if change.after.leader != change.before.leader:
                assert change.after.leader_epoch > change.before.leader_epoch
    everybody = before.brokers.keys() | after.brokers.keys()
    differing_brokers = {one for one in everybody if before.brokers.get(one) != after.brokers.get(one)}
    assert differing_brokers <= set(delta.brokers)


def _partitions(image: MetadataImage) -> dict[tuple[bytes, int], Partition]:
    return {
        (topic.topic_id, index): part for topic in image.topics.values() for index, part in enumerate(topic.partitions)
    }
