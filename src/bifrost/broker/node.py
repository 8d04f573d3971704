"""One node, put together, and the order in which its parts start and stop.

Start: metadata, then logs, then the registration that renews this node's leader epochs, then partitions, then doors.
Stop is the reverse, but for what others take over: that is given away while the doors are open. A node that cannot
start says why in a sentence (`StartError`). A node that meets a bug of its own stops before it writes anything else.

Its clock, disk and network are passed in: `real_node` has those of this machine.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import bifrost.broker.handlers  # noqa: F401  # registers the APIs
from bifrost.broker.cleaner import Cleaner
from bifrost.broker.context import Broker
from bifrost.broker.controller_channel import ControllerChannel
from bifrost.broker.forwarding import Forwarding
from bifrost.broker.housekeeping import Housekeeping
from bifrost.broker.http_side import HttpSide, open_http
from bifrost.broker.inspector import Inspector
from bifrost.broker.known_topics import KnownTopics
from bifrost.broker.lifecycle import BrokerLifecycle
from bifrost.broker.live_settings import LiveSettings
from bifrost.broker.log_directories import directory_ids, leave, log_manager
from bifrost.broker.log_moves import LogMoves
from bifrost.broker.membership import membership, replication_channel, request_channel
from bifrost.broker.metadata_cache import MetadataCache
from bifrost.broker.odin import Odin
from bifrost.broker.producer_ids import ProducerIds
from bifrost.broker.publisher import Publisher
from bifrost.broker.replicating import Replication
from bifrost.broker.server import Server
from bifrost.broker.waiters import Waiters
from bifrost.clock import Clock
from bifrost.controller.core.image import MetadataImage
from bifrost.coordinator.driver import GroupCoordinator
from bifrost.errors import ApiError, StorageError
from bifrost.log.disk import Disk
from bifrost.log.log_directory import LogDirectory, claim_directories
from bifrost.log.manager import LogManager
from bifrost.metrics import Metrics
from bifrost.peers.transport import Transport
from bifrost.replication.manager import ReplicaManager
from bifrost.settings import Settings
from bifrost.types import NodeId

if TYPE_CHECKING:
    from bifrost.controller.http.door import HttpDoor

_log = logging.getLogger(__name__)

_LEAVE_S: Final = 5.0
"""How long a broker that stops waits for others to take over what it leads."""


class StartError(Exception):
    """The node cannot start; the text tells the operator what is wrong."""


class StoppedError(Exception):
    """The node was asked to stop before it was ready."""


class Node:
    """A broker, a controller, or both, in one process."""

    def __init__(
        self,
        settings: Settings,
        *,
        disk: Disk,
        clock: Clock,
        rng: random.Random,
        transport: Transport,
        worker_pool: Callable[[], Executor] | None = None,
        cleaner_pool: Callable[[], Executor] | None = None,
    ) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self._disk = disk
        self._clock = clock
        self._rng = rng
        self._transport = transport
        self._worker_pool = worker_pool
        self._cleaner_pool = cleaner_pool
        self._server = Server(settings, transport, self.metrics)
        self._tasks: list[asyncio.Task[None]] = []
        self._node_id = NodeId(settings.node_id)
        self._loop = asyncio.get_running_loop()
        self._stopping: asyncio.Future[bool] = self._loop.create_future()
        self._replicas = ReplicaManager()
        self._logs: LogManager | None = None
        self._odin: Odin | None = None
        self._groups: GroupCoordinator | None = None
        self._broker: Broker | None = None
        self._directories: list[LogDirectory] = []
        self._lifecycle: BrokerLifecycle | None = None
        self._heartbeats: asyncio.Task[None] | None = None
        self._channels: list[ControllerChannel] = []
        self._replication: Replication | None = None
        self._http_side: HttpSide | None = None
        self._http: HttpDoor | None = None
        self._has_started = False
        self._bug: BaseException | None = None

    @property
    def address(self) -> str:
        """HOST:PORT that clients of the first listener bootstrap from."""
        return self._server.address

    @property
    def http_url(self) -> str | None:
        """Where this node speaks HTTP, if it does."""
        return None if self._http is None else self._http.url

    async def start(self) -> None:
        """Returns once clients are served. Others may keep a node waiting for ever: then `request_stop` ends that."""
        try:
            await self._start()
            self._has_started = True
        except (StorageError, ApiError, OSError) as error:
            was_told_to_stop = self._stopping.done() and self._bug is None
            await self._close(clean=False)
            if was_told_to_stop:
                raise StoppedError from error  # a request that was given up, most likely
            reason = error.strerror if isinstance(error, OSError) else None
            raise StartError(reason or str(error)) from error
        except StoppedError:
            await self._close(clean=False)
            if self._bug is not None:
                raise StartError(str(self._bug)) from self._bug
            raise

    async def _start(self) -> None:
        await self._server.bind()
        # From here on the settings tell what clients are told, which with port 0 was not known before.
        told = tuple(f"{one.listener}://{one.host}:{one.port}" for one in self._server.endpoints())
        self.settings = replace(self.settings, advertised_listeners=told or None)
        paths = dict.fromkeys((*self.settings.log_directories, self.settings.metadata_directory))
        self._directories = claim_directories(self._disk, paths)
        odin = await self._open_odin()
        if "broker" in self.settings.process_roles:
            await self._start_broker(odin)
        _log.info(
            "node started id=%d roles=%s address=%s http=%s",
            self._node_id, ",".join(self.settings.process_roles), self.address, self.http_url or "off",
        )  # fmt: skip

    async def _start_broker(self, odin: Odin) -> None:
        node_id, image, live = self._node_id, odin.replica.image, odin.live
        logs = await self._open_logs(image, live)
        live.follow(self._server.reconfigure)
        live.follow(lambda settings: logs.delay_deletions(settings.log_segment_delete_delay_ms))
        channel, lifecycle = self._channels[0], await self._join(odin)
        waiters, metadata = Waiters(self._loop), MetadataCache(image, node_id, self._loop.time)
        self._groups = GroupCoordinator(
            self.settings, KnownTopics(image), waiters, loop=self._loop, clock=self._clock, rng=self._rng,
            on_storage_error=self._on_storage_error, configs_of=live.group_configs,
        )  # fmt: skip
        self._replication = replication = Replication(
            live,
            image,
            lifecycle,
            self._channels[-1],
            replicas=self._replicas,
            waiters=waiters,
            transport=self._transport,
            clock=self._clock,
            on_storage_error=self._on_storage_error,
            spawn=self._spawn,
        )
        publisher = Publisher(
            node_id, live, logs, self._replicas, waiters, metadata, self._groups,
            replication.around, replication.followers, replication.assignments,
        )  # fmt: skip
        publisher.publish_all(image)
        moves = LogMoves(
            logs, self._replicas, live, self._clock, on_storage_error=self._on_storage_error,
            on_moved=partial(publisher.tell_moved, image), spawn=self._spawn, stops_within=self._stops_within,
        )  # fmt: skip
        odin.replica.subscribe(publisher.publish)
        self._broker = broker = Broker(
            live=live,
            node_id=node_id,
            clock=self._clock,
            rng=self._rng,
            loop=self._loop,
            logs=logs,
            odin=odin,
            channel=channel,
            lifecycle=lifecycle,
            forwarding=Forwarding(node_id, image, live, self._transport),
            replicas=self._replicas,
            waiters=waiters,
            metadata=metadata,
            producer_ids=ProducerIds(channel, node_id, lambda: lifecycle.epoch),
            catch_up_limits=replication.catch_up_limits,
            groups=self._groups,
            inspector=Inspector(self._loop, self._worker_pool),
            log_moves=moves,
            metrics=self.metrics,
            on_bug=self._on_bug,
        )
        odin.replica.subscribe(broker.forwarding.on_change)
        self._keep_house(logs, publisher, image, live)
        moves.resume()
        self._spawn(self._groups.run(), "group coordinator")
        replication.start(self._stops_within)
        await self._server.serve(broker)
        self._heartbeats = self._spawn(lifecycle.run(self.settings.broker_heartbeat_interval_ms), "heartbeats")
        await lifecycle.until_unfenced()

    def _keep_house(self, logs: LogManager, publisher: Publisher, image: MetadataImage, live: LiveSettings) -> None:
        failed, clock = self._on_storage_error, self._clock
        cleaner = Cleaner(self._disk, logs, self._replicas, live, clock, failed, self._cleaner_pool, self.metrics)
        house = Housekeeping(logs, self._replicas, publisher, image, clock, self.settings, failed, cleaner)
        house.start(self._spawn, self._stops_within)

    async def _join(self, odin: Odin) -> BrokerLifecycle:
        """Be one of the cluster's brokers, though fenced until everything else is ready."""
        heartbeats, lifecycle = membership(self.settings, odin, self._transport, self._rng)
        self._channels += [heartbeats, replication_channel(self.settings, odin, self._transport)]
        self._lifecycle = lifecycle
        assert self._logs is not None, "logs are opened first: the controller is told in which directories they are"
        endpoints, directories = self._server.endpoints(), directory_ids(self._logs.directories)
        await lifecycle.register(endpoints, self.settings.broker_rack, previous_epoch=-1, directories=directories)
        return lifecycle

    async def _open_odin(self) -> Odin:
        """The metadata comes first: it knows the cluster's id and the configs of every log."""
        odin = Odin.open(
            self.settings,
            self._disk,
            transport=self._transport,
            clock=self._clock,
            rng=self._rng,
            metrics=self.metrics,
            on_failure=self._on_bug,
        )
        self._odin = odin
        channel = request_channel(odin, self._transport)
        self._channels, odin.forward = [channel], channel.forward
        if self.settings.http is not None:
            self._http_side = HttpSide(odin, self.settings, self._transport)  # before the first change is applied
        await odin.wait_for_candidates()
        if self._stopping.done():
            raise StoppedError
        await self._server.serve_controllers(odin)
        odin.start()
        self._spawn(odin.run(), "controller")
        if self._http_side is not None:
            http = open_http(self._http_side, self.settings)
            http.start()
            self._http = http
        await odin.until_founded()
        return odin

    async def _open_logs(self, image: MetadataImage, live: LiveSettings) -> LogManager:
        logs = log_manager(
            self._disk, self._directories, image, live, clock=self._clock, rng=self._rng,
            on_offline=self._on_directory_offline, recovery_pool=self._worker_pool,
        )  # fmt: skip
        await logs.load()
        if not logs.directories:
            raise next(iter(logs.offline.values()))
        self._logs = logs  # from here on the loss of the last directory stops the node; before, others might still open
        return logs

    def request_stop(self, clean: bool = True) -> None:
        """Ask the node to stop; `run_until_stopped` returns once it has."""
        if self._stopping.done():
            return
        self._stopping.set_result(clean)
        if not self._has_started and self._odin is not None:
            self._odin.stop_waiting(StoppedError())
            if self._lifecycle is not None:
                self._lifecycle.close()
            for channel in self._channels:
                channel.close()

    async def run_until_stopped(self) -> None:
        """Serve until `request_stop`; raises when a bug ended the node."""
        clean = await self._stopping
        await self._close(clean=clean)
        if self._bug is not None:
            raise self._bug

    async def _close(self, *, clean: bool) -> None:
        """Shut the doors, then the books. Unclean: as a crash would leave things."""
        self.request_stop(clean)
        if self._http is not None:
            await self._http.stop(clean=clean)
        if self._http_side is not None:
            self._http_side.close()
        if self._lifecycle is not None:
            if clean:
                await self._lifecycle.leave(_LEAVE_S)
            self._lifecycle.close()
        if self._heartbeats is not None:
            self._heartbeats.cancel()
        if self._replication is not None:
            self._replication.close()
        for channel in self._channels:
            channel.close()
        if self._odin is not None and clean:
            await self._odin.resign()
        await self._server.close(clean=clean)
        if self._groups is not None:
            self._groups.close()
        if self._broker is not None:
            self._broker.inspector.close()
        if self._odin is not None:
            await self._odin.stop(clean=clean)
        # They end by themselves. To cancel them would leave the threads that write for them at work on the same files.
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._logs is not None and clean:
            await self._logs.checkpoint_high_watermarks(self._replicas.high_watermarks())
            await self._logs.close(broker_epoch=-1 if self._lifecycle is None else self._lifecycle.epoch)
        if self._odin is not None and clean:
            self._odin.close()
        for directory in self._directories:
            directory.release()
        _log.info("node stopped id=%d clean=%s", self.settings.node_id, clean)

    async def _stops_within(self, seconds: float) -> bool:
        """Wait so long, or until the node was asked to stop."""
        try:
            await asyncio.wait_for(asyncio.shield(self._stopping), seconds)
        except TimeoutError:
            return False
        return True

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._on_task_done)
        self._tasks.append(task)
        return task

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._on_bug(task.exception() or AssertionError(task.get_name()))

    def on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """For `loop.set_exception_handler`: nobody awaits a callback of the loop, so what it raises ends up there."""
        error = context.get("exception")
        if error is None or isinstance(error, OSError):  # a peer's connection broke in an unusual way
            loop.default_exception_handler(context)
            return
        self.metrics.unexpected_errors += 1
        _log.error("unexpected error in the loop message=%r", context.get("message"), exc_info=error)
        if isinstance(error, AssertionError):
            self._on_bug(error)

    def _on_storage_error(self, error: StorageError) -> None:
        assert self._broker is not None, "nobody writes before the node has started"
        self._broker.on_storage_error(error)

    def _on_directory_offline(self, path: str, error: StorageError) -> None:
        """Its partitions are not served any more, and the controller is to let others lead them; without any directory
        left there is nothing to serve."""
        for partition in leave(path, self._replicas):
            if self._replication is not None:
                self._replication.followers.forget(partition)
        if self._lifecycle is not None and self._logs is not None and self._logs.directories:
            for directory_id in directory_ids(one for one in self._directories if one.path == path):
                self._lifecycle.directory_failed(directory_id, on_unheard=partial(self._on_bug, error))
        if self._groups is not None:
            self._loop.call_soon(self._groups.drop_lost)  # the failure may have been met in the midst of a decision
        if self._logs is not None and not self._logs.directories:
            self._on_bug(error)

    def _on_bug(self, error: BaseException) -> None:
        _log.critical("node stops because of %r", error)
        self._bug = self._bug or error
        self.request_stop(clean=False)
        if not isinstance(error, StorageError):
            self._server.hang_up()  # nobody may write any more, not even in this turn of the loop
