"""DeleteTopics: one test a rule, answers as a 4.3 controller gives them."""

from __future__ import annotations

import pytest
from tests.unit.controller.stand_ins import cluster_of, commit, create, topic_id

from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.topics import NO_TOPIC_ID, DeletedTopic, NewTopic, TopicRef, delete_topics
from bifrost.errors import ApiError, ErrorCode
from bifrost.settings import Settings

A = topic_id(100)


@pytest.fixture
def image() -> MetadataImage:
    image = cluster_of(1)
    create(image, NewTopic("a", 2), NewTopic("b"))
    return image


def delete(image: MetadataImage, *refs: TopicRef) -> list[tuple[str | None, bytes, ErrorCode]]:
    return [one[:3] for one in commit(image, delete_topics(image, Settings(), refs))]


def test_by_name(image: MetadataImage) -> None:
    assert delete(image, TopicRef("a")) == [("a", A, ErrorCode.NONE)]
    assert list(image.topics) == ["b"]


def test_by_id(image: MetadataImage) -> None:
    assert delete(image, TopicRef(None, A)) == [("a", A, ErrorCode.NONE)]
    assert list(image.topics) == ["b"]


def test_an_unknown_topic_does_not_spoil_the_others(image: MetadataImage) -> None:
    unknown = topic_id(9)
    assert delete(image, TopicRef("nope"), TopicRef(None, unknown), TopicRef("b")) == [
        ("nope", NO_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
        ("b", topic_id(101), ErrorCode.NONE),
    ]


def test_a_topic_given_twice_is_answered_once_and_left_alone(image: MetadataImage) -> None:
    assert delete(image, TopicRef("a"), TopicRef("a")) == [("a", NO_TOPIC_ID, ErrorCode.INVALID_REQUEST)]
    assert delete(image, TopicRef(None, A), TopicRef(None, A)) == [(None, A, ErrorCode.INVALID_REQUEST)]
    assert delete(image, TopicRef("a"), TopicRef(None, A)) == [("a", A, ErrorCode.INVALID_REQUEST)]
    assert delete(image, TopicRef(None, A), TopicRef("a")) == [("a", A, ErrorCode.INVALID_REQUEST)]
    assert sorted(image.topics) == ["a", "b"]


def test_name_or_id_is_needed_and_not_both(image: MetadataImage) -> None:
    assert delete(image, TopicRef(None)) == [(None, NO_TOPIC_ID, ErrorCode.INVALID_REQUEST)]
    assert delete(image, TopicRef("a", A)) == [("a", A, ErrorCode.INVALID_REQUEST)]


def test_deletion_can_be_switched_off(image: MetadataImage) -> None:
    with pytest.raises(ApiError) as refused:
        delete_topics(image, Settings(delete_topic_enable=False), [TopicRef("a")])
    assert refused.value.code is ErrorCode.TOPIC_DELETION_DISABLED


def test_a_name_is_free_again_and_gets_another_id(image: MetadataImage) -> None:
    delete(image, TopicRef("a"))
    (again,) = create(image, NewTopic("a"))
    assert again.error is ErrorCode.NONE
    assert image.topics["a"].topic_id != A


def test_every_refusal_has_a_message(image: MetadataImage) -> None:
    refs = [
        TopicRef("nope"),
        TopicRef(None, topic_id(9)),
        TopicRef(None),
        TopicRef("a", A),
        TopicRef("b"),
        TopicRef("b"),
    ]
    results: list[DeletedTopic] = delete_topics(image, Settings(), refs).result
    assert all(one.message for one in results)
