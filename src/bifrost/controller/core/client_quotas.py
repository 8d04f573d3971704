"""Limits for clients (KIP-546): what is refused, what is recorded, and which of them a filter finds.

Refusals carry the codes of Kafka's ClientQuotaControlManager: one bad entity does not spoil the others of its request,
one bad value spoils its entity. Deciding reads the image and changes nothing. What a broker does about limits is the
business of `broker/quotas`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Final, NamedTuple

from bifrost.controller.core.decision import Decision
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import ClientQuotaChanged, MetadataRecord, QuotaEntity
from bifrost.errors import ApiError, ErrorCode

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
_TYPES: Final = (USER, CLIENT_ID, IP)
_ORDER: Final = {name: place for place, name in enumerate(sorted(_TYPES))}

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

_LONG_MAX: Final = float((1 << 63) - 1)
_INT_MAX: Final = float((1 << 31) - 1)
_FRACTION: Final = 1e-6
"""What is closer than this to a whole number is one (Kafka: getErrorForIntegralQuotaValue)."""

CLIENT_KEYS: Final[Mapping[str, float | None]] = {
    PRODUCER_BYTE_RATE: _LONG_MAX,
    CONSUMER_BYTE_RATE: _LONG_MAX,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
"""What users and client ids are limited by, and the largest whole number that it may be; None: any number will do."""
IP_KEYS: Final[Mapping[str, float | None]] = {CONNECTION_CREATION_RATE: _INT_MAX}

EXACTLY, THE_DEFAULT, ANY_NAME = 0, 1, 2


class QuotaAlteration(NamedTuple):
    """What to set for one entity, as it came; None takes a limit away."""

    entity: Mapping[str, str | None]
    values: Sequence[tuple[str, float | None]]


class AlteredQuota(NamedTuple):
    """The answer for one entity."""

    entity: QuotaEntity
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class QuotaFilter(NamedTuple):
    """Which entities are meant, by one of their types."""

    entity_type: str
    match_type: int
    name: str | None


def entity_of(names: Mapping[str, str | None]) -> QuotaEntity:
    """The one spelling of an entity; types that nobody knows come last."""
    return tuple(sorted(names.items(), key=lambda part: (_ORDER.get(part[0], len(_ORDER)), part[0])))


def alter_client_quotas(
    image: MetadataImage, wanted: Sequence[QuotaAlteration], *, validate_only: bool = False
) -> Decision[list[AlteredQuota]]:
    """Change the limits of each entity; one that is named twice is left as it is."""
    times_named = Counter(entity_of(one.entity) for one in wanted)
    records: list[MetadataRecord] = []
    results: dict[QuotaEntity, AlteredQuota] = {}
    for one in wanted:
        entity = entity_of(one.entity)
        try:
            if times_named[entity] > 1:
                raise _invalid("it is named more than once")
            keys = _keys_for(one.entity)
            for key, times in Counter(key for key, _ in one.values).items():
                if times > 1:
                    raise _invalid(f"{key} is given more than once")
            for key, value in one.values:
                if value is not None:
                    _check_value(keys, key, value)
        except ApiError as error:
            results[entity] = AlteredQuota(entity, error.code, error.detail)
            continue
        current = image.quotas.get(entity, {})
        records += [ClientQuotaChanged(entity, key, value) for key, value in one.values if current.get(key) != value]
        results[entity] = AlteredQuota(entity)
    return Decision(() if validate_only else records, list(results.values()))


def describe_client_quotas(
    image: MetadataImage, wanted: Sequence[QuotaFilter], *, strict: bool
) -> list[tuple[QuotaEntity, Mapping[str, float]]]:
    """Every entity that matches all filters; `strict` leaves out those that have further types."""
    _check_filters(wanted)
    return [
        (entity, quotas)
        for entity, quotas in image.quotas.items()
        if _matches(dict(entity), wanted) and not (strict and len(entity) != len(wanted))
    ]


def _keys_for(entity: Mapping[str, str | None]) -> Mapping[str, float | None]:
    """What an entity may be limited by."""
    if not entity:
        raise _invalid("it has no names")
    for kind, name in entity.items():
        if kind not in _TYPES:
            raise _invalid(f"there are no limits by {kind!r}, only by {', '.join(_TYPES)}")
        if name == "":
            raise _invalid(f"an empty {kind} cannot be limited")
    if IP not in entity:
        return CLIENT_KEYS
    if len(entity) > 1:
        raise _invalid("an ip stands alone, without a user or a client id")
    _check_ip(entity[IP])
    return IP_KEYS


def _check_ip(name: str | None) -> None:
    """An address. Kafka takes names of hosts too and asks whoever resolves them, which a decision cannot wait for."""
    if name is not None:
        try:
            ip_address(name)
        except ValueError:
            raise _invalid(f"{name} is not an IP address") from None


def _check_value(keys: Mapping[str, float | None], key: str, value: float) -> None:
    if key not in keys:
        raise _invalid(f"{key} is not one of {', '.join(keys)}")
    if not value > 0:  # what is no number at all is not above 0 either
        raise _invalid(f"{key} must be greater than 0")
    largest = keys[key]
    if largest is not None:
        if value > largest:
            raise _invalid(f"{key} may be {largest:.0f} at most")
        if value % 1.0 > _FRACTION:
            raise _invalid(f"{key} must be a whole number")


def _check_filters(wanted: Sequence[QuotaFilter]) -> None:
    seen: list[str] = []
    for kind, match_type, name in wanted:
        if not kind:
            raise _invalid("a filter has no type")
        if kind in seen:
            raise _invalid(f"more than one filter is for {kind}")
        if kind not in _TYPES:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"there are no limits by {kind!r}")
        if match_type not in (EXACTLY, THE_DEFAULT, ANY_NAME):
            raise _invalid(f"there is no match type {match_type}")
        if (match_type == EXACTLY) != (name is not None):
            raise _invalid(f"the filter for {kind} has a name if and only if it matches exactly")
        seen.append(kind)
    if IP in seen and len(seen) > 1:
        raise _invalid("an ip stands alone, without a user or a client id")


def _matches(names: Mapping[str, str | None], wanted: Sequence[QuotaFilter]) -> bool:
    return all(kind in names and (match_type == ANY_NAME or names[kind] == name) for kind, match_type, name in wanted)


def _invalid(detail: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, detail)
