"""The connection under `Admin`: asks librdkafka, waits for a bounded time, and tells failures in our words.

Decides how long an answer may take, when nobody is there, and which refusals go away by themselves. librdkafka retries
an address for ever; a person with a wrong address should not have to wait for that, so an address that has never
answered is given up after a moment, while a cluster that was there once is given the whole timeout to come back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from time import monotonic, sleep
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from bifrost.client.clusters import resolve
from bifrost.client.errors import BifrostError, InvalidRequestError, TimedOutError, from_kafka
from bifrost.client.options import client_options
from bifrost.client.trouble import UNREACHABLE_AFTER_S, Trouble, unreachable

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

TIMEOUT_S = 30.0
_POLL_S = 0.05

_PASSING = {
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "LEADER_NOT_AVAILABLE",
    "NOT_CONTROLLER",
    "NOT_COORDINATOR",
    "NOT_LEADER_FOR_PARTITION",
    "UNKNOWN_LEADER_EPOCH",
}
"""Refusals of a cluster that is busy finding out who is responsible."""


class AdminSession:
    """What the parts of `Admin` share."""

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        cluster: str | None = None,
        timeout_s: float = TIMEOUT_S,
        config: Mapping[str, object] | None = None,
    ) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        self._connection = resolve(bootstrap, cluster=cluster)
        self.timeout_s = timeout_s
        self._trouble = Trouble()
        options: Any = client_options(self._connection, config, {"error_cb": self._trouble.on_error})
        try:
            self._client: AdminClient | None = AdminClient(options)
        except KafkaException as error:
            raise from_kafka(error, bootstrap=self.bootstrap) from error
        self._answered = False

    @property
    def bootstrap(self) -> str:
        """The address that the cluster is looked for at."""
        return self._connection.bootstrap

    def close(self) -> None:
        """Drop the connections. A closed admin cannot be used again."""
        self._client = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._connection)!r})"

    @property
    def _open(self) -> AdminClient:
        if self._client is None:
            raise BifrostError("this admin is closed", "Make a new one.")
        return self._client

    def _ask(
        self, call: Callable[[AdminClient], Future[Any]], *, topic: str | None = None, group: str | None = None
    ) -> Any:
        """The answer to one call; refusals that pass are asked again until the time is up."""
        (found,) = self._ask_each(lambda client: {"": call(client)}, topic=topic, group=group).values()
        return found

    def _ask_each(
        self,
        call: Callable[[AdminClient], Mapping[Any, Future[Any]]],
        *,
        topic: str | None = None,
        group: str | None = None,
        skipped: str = "",
    ) -> dict[Any, Any]:
        """The answers to one call about several things; those that are refused with the code `skipped` are left out."""
        from confluent_kafka import KafkaException

        deadline = monotonic() + self.timeout_s
        while True:
            try:
                found = self._collect(call(self._open), deadline, skipped)
            except KafkaException as error:
                code = error.args[0].name()
                if code == "_TIMED_OUT":
                    raise self._nobody() from error
                if code not in _PASSING or monotonic() > deadline:
                    raise from_kafka(error, topic=topic, group=group, bootstrap=self.bootstrap) from error
                sleep(_POLL_S)
            except (TypeError, ValueError) as error:  # what librdkafka's Python layer thinks of the arguments
                raise InvalidRequestError(str(error)) from error
            else:
                self._answered = True
                self._trouble.clear()
                return found

    def _collect(self, futures: Mapping[Any, Future[Any]], deadline: float, skipped: str) -> dict[Any, Any]:
        from confluent_kafka import KafkaException

        found = {}
        for key, future in futures.items():
            try:
                found[key] = self._wait(future, deadline)
            except KafkaException as error:
                if error.args[0].name() != skipped:
                    raise
        return found

    def _wait(self, future: Future[Any], deadline: float) -> Any:
        started = monotonic()
        while True:
            try:
                return future.result(_POLL_S)
            except TimeoutError:
                self._open.poll(0)  # or the trouble would not be told
                patience_s = UNREACHABLE_AFTER_S if not self._answered and self._trouble.reason else self.timeout_s
                if monotonic() > min(started + patience_s, deadline):
                    raise self._nobody() from None

    def _nobody(self) -> BifrostError:
        self._open.poll(0)
        if reason := self._trouble.reason:
            return unreachable(self.bootstrap, reason)
        return TimedOutError(
            f"{self.bootstrap} did not answer within {self.timeout_s:g} s",
            "If it is only slow, allow a longer timeout.",
        )

    def _limits(self) -> dict[str, Any]:
        return {"request_timeout": self.timeout_s}

    def _until(self, there: Callable[[], bool]) -> None:
        """Waits for a change to be seen, as far as the time allows: it is made, and only not told everywhere yet."""
        deadline = monotonic() + self.timeout_s
        while not there() and monotonic() < deadline:
            sleep(_POLL_S)


def only(futures: Mapping[Any, Future[Any]]) -> Future[Any]:
    """The one future of a call about one thing."""
    (future,) = futures.values()
    return future
