"""An ear on the streaming queries of a session: what each batch did, and when all have ended."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE_S: Final = 10.0


class Ear:
    """Hands on every report of progress, in a thread of Spark's."""

    def __init__(self, spark: SparkSession, tell: Callable[[Mapping[str, Any]], None]) -> None:
        self._spark = spark
        self._ended = 0
        self._change = threading.Condition()
        self._listener = _listener(tell, self._end)
        spark.streams.addListener(self._listener)

    def close(self, begun: int) -> None:
        """Once all of the queries that began have ended: the last report of a query comes after the run is over.

        And Spark's client waits forever for itself if another event comes while a listener is removed.
        """
        with self._change:
            self._change.wait_for(lambda: self._ended >= begun, _PATIENCE_S)
        self._spark.streams.removeListener(self._listener)

    def _end(self) -> None:
        with self._change:
            self._ended += 1
            self._change.notify_all()


def _listener(progress: Callable[[Mapping[str, Any]], None], end: Callable[[], None]) -> Any:
    """Spark's listener of streaming queries, which must be a subclass of its own."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
            """Events of the run tell of that."""

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
            progress(json.loads(event.progress.json))

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
            """A run ends instead of idling."""

        def onQueryTerminated(self, _event: Any) -> None:  # noqa: N802 - Spark's name
            end()

    return Listener()
