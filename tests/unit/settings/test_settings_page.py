"""The settings reference."""

from __future__ import annotations

from bifrost.settings import render_markdown
from bifrost.settings.broker import keys
from bifrost.settings.kafka_names import kafka_keys
from bifrost.settings.topic import topic_keys


def test_every_name_has_its_place() -> None:
    page = render_markdown()
    for name in [*keys(), *kafka_keys(), *(name for name, spec in topic_keys().items() if not spec.internal)]:
        assert f"`{name}`" in page


def test_every_setting_has_a_heading_of_its_own() -> None:
    headings = [line for line in render_markdown().splitlines() if line.startswith("####")]
    of_topics = [name for name, spec in topic_keys().items() if not spec.internal]
    assert sorted(headings) == sorted(f"#### `{name}`" for name in [*keys(), *of_topics])


def test_every_setting_says_what_it_does() -> None:
    assert all(key.doc.endswith((".", ".)")) for key in keys().values())
    assert all(spec.key.doc.endswith(".") for spec in topic_keys().values())
