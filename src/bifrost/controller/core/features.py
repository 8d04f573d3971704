"""What all nodes of a cluster agree to do (KIP-584): which levels there are, and who may change them to what.

Here are two features of Kafka's. The metadata has one level, Kafka's newest: what it means does not change by steps.
`group.version` 0 switches the protocol of KIP-848 off for the whole cluster. A level that nobody has set is the newest.
Either all updates of a request are made, or none (KIP-1022).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from bifrost.controller.core.decision import Decision
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import FeatureLevelChanged
from bifrost.errors import ApiError, ErrorCode

GROUP_VERSION: Final = "group.version"
METADATA_VERSION: Final = "metadata.version"
SUPPORTED: Final[Mapping[str, range]] = {GROUP_VERSION: range(2), METADATA_VERSION: range(30, 31)}

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


class FeatureUpdate(NamedTuple):
    """What somebody wants; the kind is as it came, and may be none of ours."""

    name: str
    level: int
    kind: int = UPGRADE


def feature_level(image: MetadataImage, name: str) -> int:
    """What counts in this cluster."""
    return image.features.get(name, SUPPORTED[name][-1])


def update_features(
    image: MetadataImage, wanted: Sequence[FeatureUpdate], *, validate_only: bool = False
) -> Decision[None]:
    """ApiError(INVALID_UPDATE_VERSION) if one of them cannot be, with Kafka's checks (FeatureControlManager)."""
    for update in wanted:
        _check(image, update)
    levels = {update.name: update.level for update in wanted}  # the last of several counts
    records = [
        FeatureLevelChanged(name, level) for name, level in levels.items() if feature_level(image, name) != level
    ]
    return Decision(() if validate_only else records, None)


def _check(image: MetadataImage, update: FeatureUpdate) -> None:
    name, level, kind = update
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _invalid(update, f"there is no kind {kind} of update")
    supported = SUPPORTED.get(name)
    if supported is None:
        raise _invalid(update, f"there are only {', '.join(SUPPORTED)}")
    if level not in supported:
        raise _invalid(update, f"this cluster supports {supported[0]} to {supported[-1]}")
    current = feature_level(image, name)
    if level < current and kind == UPGRADE:
        raise _invalid(update, f"it is at {current}, and a downgrade was not asked for")
    if level > current and kind != UPGRADE:
        raise _invalid(update, f"it is at {current}, and that is no downgrade")


def _invalid(update: FeatureUpdate, why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_UPDATE_VERSION, f"{update.name or 'a feature'} cannot be {update.level}: {why}")
