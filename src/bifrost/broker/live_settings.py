"""The settings of this node as they stand: what it was started with, under what the metadata has stored since.

Whoever needs a setting at the moment of use reads `now`. Whoever has built something from one asks to be called when
the settings change (`follow`). A setting that neither takes effect through here, nor through the configs of topics, is
declared read-only in `bifrost.settings`, and a change of it is refused: nothing is accepted that would need a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bifrost.controller.core.configs import current_settings
from bifrost.controller.core.delta import Delta
from bifrost.controller.core.image import BROKER_RESOURCE, EVERY_BROKER, MetadataImage
from bifrost.log.config import LogConfig
from bifrost.protocol.compression import Codec
from bifrost.protocol.inspection import Recompression
from bifrost.settings import Settings, TopicConfig, TopicDescriber
from bifrost.settings.group import ASSIGNMENT_INTERVAL


class LiveSettings:
    """Reads the image, so it belongs to the loop's thread; `on_change` has to be called when the image changed."""

    def __init__(self, started_with: Settings, image: MetadataImage) -> None:
        self.started_with = started_with
        self._image = image
        self._followers: list[Callable[[Settings], None]] = []
        self._take_in()

    def _take_in(self) -> None:
        self.now = current_settings(self._image, self.started_with)
        self._topic_defaults = TopicConfig.of(self.now)
        self._describer: TopicDescriber | None = None

    @property
    def of_this_broker(self) -> Mapping[str, str]:
        """What is stored for this broker alone."""
        return self._image.broker_configs(str(self.started_with.node_id))

    @property
    def of_every_broker(self) -> Mapping[str, str]:
        """What is stored for all brokers."""
        return self._image.broker_configs(EVERY_BROKER)

    def follow(self, follower: Callable[[Settings], None]) -> None:
        """Call `follower` with the settings now and after every change of them."""
        self._followers.append(follower)
        follower(self.now)

    def on_change(self, _image: MetadataImage, delta: Delta) -> None:
        """The metadata has changed; what is stored for this broker or for all may be among it."""
        names = (EVERY_BROKER, str(self.started_with.node_id))
        if any((BROKER_RESOURCE, name) in delta.configs for name in names):
            self._take_in()
            for follower in self._followers:
                follower(self.now)

    def topic_config(self, name: str) -> TopicConfig:
        """The topic's configs on this node; those of a topic that nobody knows are the broker's defaults."""
        return self._topic_defaults.override(self._image.topic_configs(name))

    def log_config(self, config: TopicConfig) -> LogConfig:
        """What of a topic's configs concerns its files."""
        compacted = "compact" in config.cleanup_policy
        # Only what is in a closed segment is compacted: Kafka's LogConfig.maxSegmentMs.
        segment_ms = min(config.segment_ms, config.max_compaction_lag_ms) if compacted else config.segment_ms
        return LogConfig(
            segment_bytes=config.effective_segment_bytes,
            segment_ms=segment_ms,
            segment_jitter_ms=min(config.segment_jitter_ms, segment_ms),
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            max_message_bytes=config.max_message_bytes,
            message_timestamp_type=config.message_timestamp_type,
            message_timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            message_timestamp_after_max_ms=config.message_timestamp_after_max_ms,
            producer_id_expiration_ms=self.now.producer_id_expiration_ms,
            compacted=compacted,
            min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
            min_compaction_lag_ms=config.min_compaction_lag_ms,
            max_compaction_lag_ms=config.max_compaction_lag_ms,
            delete_retention_ms=config.delete_retention_ms,
            deletes="delete" in config.cleanup_policy,
            retention_ms=config.retention_ms,
            retention_bytes=config.retention_bytes,
            file_delete_delay_ms=config.file_delete_delay_ms,
            validates=self.now.produce_validation == "full",
            recompression=_recompression(config),
            inflated_bytes_max=self.now.produce_inflated_max_bytes,
        )

    def group_configs(self, group_id: str) -> Mapping[str, str]:
        """What counts for this group instead of what the node was started with."""
        stored, interval = self._image.group_configs(group_id), self.now.group_consumer_assignment_interval_ms
        if interval == self.started_with.group_consumer_assignment_interval_ms:
            return stored
        return {ASSIGNMENT_INTERVAL: str(interval), **stored}

    def topic_describer(self) -> TopicDescriber:
        """Tells the configs of topics, with where each of them comes from."""
        if self._describer is None:
            self._describer = TopicDescriber(
                self.started_with, dynamic_broker=self.of_this_broker, dynamic_default=self.of_every_broker
            )
        return self._describer


def _recompression(config: TopicConfig) -> Recompression | None:
    """How batches of this topic are stored, if not as they come."""
    match config.compression_type:
        case "uncompressed":
            return Recompression(Codec.NONE)
        case "gzip":
            return Recompression(Codec.GZIP, config.compression_gzip_level)
        case "snappy":
            return Recompression(Codec.SNAPPY)
        case "lz4":
            return Recompression(Codec.LZ4, config.compression_lz4_level)
        case "zstd":
            return Recompression(Codec.ZSTD, config.compression_zstd_level)
    return None
