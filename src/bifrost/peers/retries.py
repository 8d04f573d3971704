"""How often what another node refuses is tried again, and told of. Whoever tries does the waiting, and the telling."""

from __future__ import annotations

from bifrost.errors import ApiError, ErrorCode


class Retries:
    """Pauses that grow, and one line in the log for each kind of refusal, until there is a success."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = self._next_s = first_s
        self._longest_s = longest_s
        self._told: set[ErrorCode] = set()

    def pause_s(self) -> float:
        """How long to wait now; the next time it is longer."""
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, self._longest_s)
        return pause_s

    def is_news(self, error: ApiError) -> bool:
        """Whether to tell of it: it has not been met since the last success."""
        is_news = error.code not in self._told
        self._told.add(error.code)
        return is_news

    def succeeded(self) -> None:
        self._next_s = self._first_s
        self._told.clear()
