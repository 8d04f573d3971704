"""What clients may use of a cluster: limits, read and changed (KIP-546), which librdkafka cannot ask for.

Any broker may be asked and passes on what only the controller decides. To set the same limit twice is the same as once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bifrost.client.wire.cluster import Cluster
from bifrost.client.wire.failures import TryAgain, from_code
from bifrost.errors import ErrorCode
from bifrost.protocol.messages.quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasComponent,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    QuotaEntityPart,
    QuotaOperation,
)

_EXACTLY, _THE_DEFAULT = 0, 1

Names = Mapping[str, str | None]
"""Who is limited: names by type (`user`, `client-id`, `ip`); None is whoever has no limit under its own name."""


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of one entity."""

    entity: dict[str, str | None]
    limits: dict[str, float]


class QuotaAdmin:
    """Thread-safe, as the cluster is that it asks."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def list(self, names: Names | None = None, *, strict: bool = False) -> list[Quota]:
        """All limits, or those of entities that have these names, and with `strict` no others."""
        components = [
            DescribeClientQuotasComponent(
                entity_type=kind, match_type=_THE_DEFAULT if name is None else _EXACTLY, match=name
            )
            for kind, name in (names or {}).items()
        ]
        request = DescribeClientQuotasRequest(components=components, strict=strict)
        deadline = self._cluster.call_deadline()

        def attempt() -> list[Quota]:
            answer = self._cluster.ask_any(request, DescribeClientQuotasResponse, deadline)
            _check(answer.error_code, answer.error_message)
            found = [
                Quota(
                    {part.entity_type: part.entity_name for part in entry.entity},
                    {value.key: value.value for value in sorted(entry.values, key=lambda value: value.key)},
                )
                for entry in answer.entries or ()
            ]
            return sorted(found, key=lambda quota: sorted((kind, name or "") for kind, name in quota.entity.items()))

        return self._cluster.persist(attempt, deadline, even_if_unreachable=False)

    def alter(self, names: Names, limits: Mapping[str, float | None], *, validate_only: bool = False) -> None:
        """Set limits of one entity; None takes one away. InvalidRequestError if one makes no sense: then none is
        set."""
        entry = AlterClientQuotasEntry(
            entity=[QuotaEntityPart(entity_type=kind, entity_name=name) for kind, name in names.items()],
            ops=[QuotaOperation(key=key, value=value or 0.0, remove=value is None) for key, value in limits.items()],
        )
        request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
        deadline = self._cluster.call_deadline()

        def attempt() -> None:
            for result in self._cluster.ask_any(request, AlterClientQuotasResponse, deadline).entries:
                _check(result.error_code, result.error_message)

        self._cluster.persist(attempt, deadline, even_if_unreachable=False)


def _check(code: int, message: str | None) -> None:
    if code:
        failure = from_code(code, detail=message)
        raise TryAgain(failure) if ErrorCode(code).retriable else failure
