"""The client ids under which nodes ask each other."""

from __future__ import annotations

import re
from typing import Final

PASSED_ON: Final = "__bifrost_passed_on"
"""The request is a client's, whom another broker answers."""
_NODE: Final = re.compile(r"(?:node|broker)-\d+(?:-[a-z]+)*")


def is_node(client_id: str) -> bool:
    """Whether a node of the cluster asks, on its own account or for a client whom it counts itself."""
    return client_id == PASSED_ON or _NODE.fullmatch(client_id) is not None
