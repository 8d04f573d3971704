"""Levels of features: recorded, replayed, kept in snapshots. Refusals are compared with Kafka's in tests/compat."""

from __future__ import annotations

import pytest

from bifrost.controller.core.delta import Delta
from bifrost.controller.core.features import (
    GROUP_VERSION,
    METADATA_VERSION,
    SAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdate,
    feature_level,
    update_features,
)
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import decode_change, encode_change
from bifrost.controller.core.snapshot import image_records, restore
from bifrost.errors import ApiError, ErrorCode

OFF = FeatureUpdate(GROUP_VERSION, 0, SAFE_DOWNGRADE)


def change(image: MetadataImage, *wanted: FeatureUpdate) -> Delta:
    delta = Delta()
    for record in decode_change(encode_change(update_features(image, wanted).records)):
        image.apply(record, image.offset + 1, delta)
    return delta


def test_what_nobody_has_set_is_at_its_newest_level() -> None:
    image = MetadataImage()
    assert (feature_level(image, GROUP_VERSION), feature_level(image, METADATA_VERSION)) == (1, 30)


def test_a_level_goes_down_and_up_again() -> None:
    image = MetadataImage()
    delta = change(image, OFF)
    assert feature_level(image, GROUP_VERSION) == 0
    assert delta
    assert list(delta.features) == [GROUP_VERSION]
    change(image, FeatureUpdate(GROUP_VERSION, 1, UPGRADE))
    assert feature_level(image, GROUP_VERSION) == 1


def test_what_changes_nothing_and_what_is_only_tried_is_not_recorded() -> None:
    image = MetadataImage()
    assert update_features(image, [FeatureUpdate(GROUP_VERSION, 1)]).records == []
    assert update_features(image, [OFF], validate_only=True).records == ()


def test_all_of_them_are_made_or_none() -> None:
    with pytest.raises(ApiError) as refused:
        update_features(MetadataImage(), [OFF, FeatureUpdate("no.such.version", 1)])
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION


def test_a_downgrade_is_no_upgrade_and_the_other_way_round() -> None:
    image = MetadataImage()
    with pytest.raises(ApiError, match="not asked for"):
        update_features(image, [FeatureUpdate(GROUP_VERSION, 0, UPGRADE)])
    change(image, OFF)
    with pytest.raises(ApiError, match="no downgrade"):
        update_features(image, [FeatureUpdate(GROUP_VERSION, 1, SAFE_DOWNGRADE)])


def test_a_snapshot_keeps_levels_and_a_copy_does_not_share_changes() -> None:
    image = MetadataImage()
    change(image, OFF)
    assert restore(image_records(image), image.offset) == image
    twin = image.copy()
    change(twin, FeatureUpdate(GROUP_VERSION, 1, UPGRADE))
    assert feature_level(image, GROUP_VERSION) == 0
    assert list(Delta.between(image, twin).features) == [GROUP_VERSION]
