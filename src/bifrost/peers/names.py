"""The client ids under which nodes ask each other.

Until connections are authenticated a name is all that tells nodes from clients, so theirs begin as no client's does.
"""

from __future__ import annotations

from typing import Final

_OURS: Final = "__bifrost_"
PASSED_ON: Final = f"{_OURS}passed_on"
"""The request is a client's, whom another broker answers."""


def node_name(node_id: int, purpose: str = "") -> str:
    """What a node calls itself when it asks another."""
    return f"{_OURS}node-{node_id}{purpose and '-'}{purpose}"


def is_node(client_id: str) -> bool:
    """Whether a node of the cluster asks, on its own account or for a client whom it counts itself."""
    return client_id.startswith(_OURS)
