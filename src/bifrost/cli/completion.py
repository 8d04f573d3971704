"""What the shell offers when Tab is pressed where a name belongs.

Asks the cluster that the line names so far, but only for a moment, and never says anything else than names: whoever
pressed Tab has not asked for an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from bifrost.client.admin import Admin

PATIENCE_S = 1.0


def topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Topics of the cluster."""
    return _asked(ctx, incomplete, lambda admin: [topic.name for topic in admin.topics(internal=True)])


def groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Consumer groups of the cluster."""
    return _asked(ctx, incomplete, lambda admin: [group.name for group in admin.groups()])


def clusters(incomplete: str) -> list[str]:
    """Clusters that the configuration file names."""
    from bifrost.client import clusters as configured
    from bifrost.client.errors import BifrostError

    try:
        return _matching(configured.clusters(), incomplete)
    except BifrostError:
        return []


def topic_settings(incomplete: str) -> list[str]:
    """Names of topics' settings."""
    from bifrost.settings.topic import topic_keys

    return _matching(topic_keys(), incomplete)


def assignments(incomplete: str) -> list[str]:
    """Names of topics' settings, with the equals sign that comes next."""
    return [f"{name}=" for name in topic_settings(incomplete)]


def _asked(ctx: typer.Context, incomplete: str, question: Callable[[Admin], Iterable[str]]) -> list[str]:
    from bifrost.client.admin import Admin
    from bifrost.client.errors import BifrostError

    try:
        with Admin(ctx.params.get("bootstrap"), cluster=ctx.params.get("cluster"), timeout_s=PATIENCE_S) as admin:
            given = {each for name in ("names", "name", "topic") for each in _listed(ctx.params.get(name))}
            return [name for name in _matching(question(admin), incomplete) if name not in given]
    except BifrostError:
        return []


def _listed(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list | tuple) else []


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    """Internal names only when their underscores were typed."""
    return sorted(
        name for name in names if name.startswith(incomplete) and (incomplete.startswith("_") or name[:1] != "_")
    )
