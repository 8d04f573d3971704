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


def test_every_row_has_as_many_cells_as_its_heading() -> None:
    rows = [line for line in render_markdown().splitlines() if line.startswith("|")]
    assert {row.replace("\\|", "").count("|") for row in rows} == {6}


def test_every_setting_says_what_it_does() -> None:
    assert all(key.doc.endswith((".", ".)")) for key in keys().values())
    assert all(spec.key.doc.endswith(".") for spec in topic_keys().values())
