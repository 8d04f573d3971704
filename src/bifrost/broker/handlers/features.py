"""UpdateFeatures, and what ApiVersions tells of features."""

from __future__ import annotations

from bifrost.broker.context import ControllerContext
from bifrost.broker.registry import admin_api
from bifrost.controller.core.features import (
    SAFE_DOWNGRADE,
    SUPPORTED,
    UPGRADE,
    FeatureUpdate,
    feature_level,
    update_features,
)
from bifrost.controller.core.image import MetadataImage
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.cluster import ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey
from bifrost.protocol.messages.features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_MIN_ZERO_SINCE = 4


def tell_features(answer: ApiVersionsResponse, image: MetadataImage, version: int) -> ApiVersionsResponse:
    """With which features there are, and which levels count. Older clients stumble over one whose lowest is 0
    (KAFKA-17011), and are not told of it."""
    answer.supported_features = [
        SupportedFeatureKey(name=name, min_version=levels[0], max_version=levels[-1])
        for name, levels in SUPPORTED.items()
        if levels[0] > 0 or version >= _MIN_ZERO_SINCE
    ]
    answer.finalized_features_epoch = image.offset
    levels_now = {name: feature_level(image, name) for name in SUPPORTED}
    answer.finalized_features = [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in levels_now.items()
        if level > 0  # 0 is as if there were no such feature
    ]
    return answer


@admin_api(
    ApiKey.UPDATE_FEATURES,
    versions=range(3),
    on_error=lambda _request, code, detail: UpdateFeaturesResponse(error_code=code, error_message=detail),
)
async def change_features(ctx: ControllerContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """v1 tells safe downgrades from others and can only try (KIP-778); v2 has one error for all (KIP-1022)."""
    wanted = [FeatureUpdate(one.feature, one.max_version_level, _kind(ctx, one)) for one in request.feature_updates]
    await ctx.odin.controller.submit(lambda image: update_features(image, wanted, validate_only=request.validate_only))
    return UpdateFeaturesResponse(
        results=[UpdatableFeatureResult(feature=one.name, error_message="NONE") for one in wanted]
    )


def _kind(ctx: ControllerContext, one: FeatureUpdateKey) -> int:
    if ctx.version == 0:
        return SAFE_DOWNGRADE if one.allow_downgrade else UPGRADE
    return one.upgrade_type
