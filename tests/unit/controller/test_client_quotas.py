"""Limits of clients as metadata: recorded, replayed, kept in snapshots, found by filters. Refusals: tests/compat."""

from __future__ import annotations

import math

import pytest

from bifrost.controller.core.client_quotas import (
    ANY_NAME,
    EXACTLY,
    THE_DEFAULT,
    QuotaAlteration,
    QuotaFilter,
    alter_client_quotas,
    describe_client_quotas,
    entity_of,
)
from bifrost.controller.core.delta import Delta
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import ClientQuotaChanged, decode_change, encode_change
from bifrost.controller.core.snapshot import image_records, restore
from bifrost.errors import ApiError, ErrorCode

RATE = "producer_byte_rate"


def image_with(*wanted: QuotaAlteration) -> MetadataImage:
    image = MetadataImage()
    change(image, *wanted)
    return image


def change(image: MetadataImage, *wanted: QuotaAlteration) -> Delta:
    """What the driver does with a decision."""
    delta = Delta()
    decision = alter_client_quotas(image, wanted)
    assert [one.error for one in decision.result] == [ErrorCode.NONE] * len(decision.result)
    for record in decode_change(encode_change(decision.records)):
        image.apply(record, image.offset + 1, delta)
    return delta


def test_the_order_in_which_types_are_given_does_not_matter() -> None:
    one, other = {"user": "u", "client-id": None}, {"client-id": None, "user": "u"}
    image = image_with(QuotaAlteration(one, [(RATE, 1.0)]))
    change(image, QuotaAlteration(other, [(RATE, 2.0)]))
    assert image.quotas == {entity_of(one): {RATE: 2.0}}


def test_what_changes_nothing_is_not_recorded() -> None:
    user = {"user": "u"}
    image = image_with(QuotaAlteration(user, [(RATE, 1.0)]))
    again = [QuotaAlteration(user, [(RATE, 1.0), ("consumer_byte_rate", None)])]
    assert alter_client_quotas(image, again).records == []


def test_an_entity_without_limits_is_gone() -> None:
    user = {"user": "u"}
    image = image_with(QuotaAlteration(user, [(RATE, 1.0)]))
    delta = change(image, QuotaAlteration(user, [(RATE, None)]))
    assert image.quotas == {}
    assert delta
    assert list(delta.quotas) == [entity_of(user)]


def test_only_looking_records_nothing() -> None:
    wanted = [QuotaAlteration({"user": "u"}, [(RATE, 1.0)])]
    assert alter_client_quotas(MetadataImage(), wanted, validate_only=True).records == ()


def test_one_bad_entity_does_not_spoil_the_others_and_one_bad_value_spoils_its_own() -> None:
    wanted = [
        QuotaAlteration({"user": "good"}, [(RATE, 1.0)]),
        QuotaAlteration({"user": "bad"}, [(RATE, 1.0), ("consumer_byte_rate", 0.0)]),
        QuotaAlteration({"user": "none"}, [(RATE, math.nan)]),
    ]
    decision = alter_client_quotas(MetadataImage(), wanted)
    assert decision.records == [ClientQuotaChanged(entity_of({"user": "good"}), RATE, 1.0)]
    assert [one.error for one in decision.result] == [0, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]


def test_an_entity_that_is_named_twice_is_left_as_it_is() -> None:
    wanted = [QuotaAlteration({"user": "u"}, [(RATE, value)]) for value in (1.0, 2.0)]
    decision = alter_client_quotas(MetadataImage(), wanted)
    assert decision.records == []
    assert [one.error for one in decision.result] == [ErrorCode.INVALID_REQUEST]


def test_a_snapshot_keeps_limits_and_a_copy_does_not_share_changes() -> None:
    image = image_with(
        QuotaAlteration({"user": None, "client-id": "c"}, [(RATE, 1.0), ("request_percentage", 0.5)]),
        QuotaAlteration({"ip": None}, [("connection_creation_rate", 3.0)]),
    )
    assert restore(image_records(image), image.offset) == image
    twin = image.copy()
    assert twin == image
    change(twin, QuotaAlteration({"ip": None}, [("connection_creation_rate", 4.0)]))
    assert image.quotas[entity_of({"ip": None})] == {"connection_creation_rate": 3.0}
    assert list(Delta.between(image, twin).quotas) == [entity_of({"ip": None})]


@pytest.mark.parametrize(
    ("filters", "strict", "found"),
    [
        ([], False, ["u", "u+c", "*+c", "c"]),
        ([], True, []),
        ([("user", ANY_NAME, None)], False, ["u", "u+c", "*+c"]),
        ([("user", ANY_NAME, None)], True, ["u"]),
        ([("user", THE_DEFAULT, None)], False, ["*+c"]),
        ([("client-id", EXACTLY, "c")], False, ["u+c", "*+c", "c"]),
        ([("client-id", EXACTLY, "c")], True, ["c"]),
        ([("user", EXACTLY, "u"), ("client-id", ANY_NAME, None)], True, ["u+c"]),
        ([("ip", ANY_NAME, None)], False, []),
    ],
)
def test_filters(filters: list[tuple[str, int, str | None]], strict: bool, found: list[str]) -> None:
    entities: dict[str, dict[str, str | None]] = {
        "u": {"user": "u"},
        "u+c": {"user": "u", "client-id": "c"},
        "*+c": {"user": None, "client-id": "c"},
        "c": {"client-id": "c"},
    }
    image = image_with(*(QuotaAlteration(names, [(RATE, 1.0)]) for names in entities.values()))
    described = describe_client_quotas(image, [QuotaFilter(*one) for one in filters], strict=strict)
    assert [entity for entity, _ in described] == [entity_of(entities[name]) for name in found]


def test_a_filter_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ApiError) as refused:
        describe_client_quotas(MetadataImage(), [QuotaFilter("user", 7, None)], strict=False)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
