"""What markers ask of a cluster."""

from __future__ import annotations

import pytest

from bifrost.testing.pool import Wish


def test_closer_marks_win_name_by_name() -> None:
    wish = Wish.of(
        [
            {"brokers": 3, "settings": {"num.partitions": 4, "auto_create_topics_enable": False}},
            {"settings": {"num.partitions": "2"}},
        ]
    )
    assert wish == Wish(3, (("auto.create.topics.enable", "false"), ("num.partitions", "2")))
    assert str(wish) == "brokers=3,auto.create.topics.enable=false,num.partitions=2"
    assert Wish.of([{}]) == Wish.of([]) == Wish()
    assert str(Wish()) == "default"


@pytest.mark.parametrize(
    ("mark", "problem"),
    [
        ({"partitions": 4, "x": 1}, "knows brokers and settings, but not partitions, x"),
        ({"brokers": 0}, "brokers is how many there are to be, not 0"),
        ({"brokers": "two"}, "brokers is how many there are to be, not 'two'"),
        ({"settings": 4}, "settings is a dictionary such as .*, not 4"),
    ],
)
def test_a_mark_that_makes_no_sense_is_refused(mark: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Wish.of([mark])
