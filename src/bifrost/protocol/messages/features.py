"""What all nodes of a cluster agree to speak among each other (KIP-584)."""

# ruff: noqa: RUF012 - an empty list as default is not shared: msgspec makes a new one for every message

from typing import Annotated

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.schema import I8, I16, I32, Message, Struct, before, since


class FeatureUpdateKey(Struct):
    feature: str
    # Below 1: the feature is taken back altogether.
    max_version_level: I16
    allow_downgrade: Annotated[bool, before(1)] = False
    # 1 only up, 2 down if nothing is lost, 3 down even so.
    upgrade_type: Annotated[I8, since(1)] = 1


class UpdateFeaturesRequest(Message, api=ApiKey.UPDATE_FEATURES, versions=range(3), flexible=0):
    """Raises or lowers the level of features. v1 tells safe downgrades from others and can only try (KIP-778)."""

    timeout_ms: I32 = 60_000
    feature_updates: list[FeatureUpdateKey]
    validate_only: Annotated[bool, since(1)] = False


class UpdatableFeatureResult(Struct):
    feature: str
    error_code: I16 = 0
    error_message: str | None = None


class UpdateFeaturesResponse(Message, api=ApiKey.UPDATE_FEATURES, versions=range(3), flexible=0):
    """From v2 on either all updates are made or none, so there is one error only (KIP-1022)."""

    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    error_message: str | None = None
    results: Annotated[list[UpdatableFeatureResult], before(2)] = []
