"""Threads on a leash: each runs only while the loop waits for it, from one call of the disk to the next.

Production code hands blocking work to threads. Here such work runs in a real thread that stops before every call of
the disk and goes on when the loop says so. Work in threads and work on the loop therefore interleave at every step
where it can matter, and always in the order that the seed gives.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context
from typing import Any

from tests.sim.process import PowerLost, Process

_STUCK_S = 60


class Job:
    """One call on its way through a thread."""

    def __init__(self, process: Process | None, context: Context, call: Callable[[], Any]) -> None:
        self.process = process
        self.is_done = False
        self.result: Any = None
        self.error: Exception | None = None
        self.hand: Hand | None = None
        self._context = context
        self._call = call

    def run(self) -> None:
        try:
            self.result = self._context.run(self._call)
        except PowerLost:
            pass  # nobody waits for the result
        except Exception as error:  # noqa: BLE001  # whatever a thread would have handed to its future
            self.error = error
        self.is_done = True


class Hand:
    """A thread that does one job at a time, in steps."""

    def __init__(self) -> None:
        self._go, self._stopped = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._stopped.acquire()
        self.job: Job | None = None
        threading.Thread(target=self._work, name="simulated-thread", daemon=True).start()

    def step(self) -> None:
        """Let the job go on until it stops again; the caller waits."""
        self._go.release()
        if not self._stopped.acquire(timeout=_STUCK_S):
            raise RuntimeError("a simulated thread waits for something that is not the disk")

    def stop(self) -> None:
        """Called inside the thread: wait for the next step."""
        self._stopped.release()
        self._go.acquire()

    def _work(self) -> None:
        while True:
            self._go.acquire()
            if self.job is None:
                return
            self.job.run()
            self._stopped.release()

    def dismiss(self) -> None:
        self.job = None
        self._go.release()


class Hands:
    """The threads of all simulated processes. `busy` is the one that runs right now, None while the loop does."""

    def __init__(self) -> None:
        self.busy: Hand | None = None
        self._idle: list[Hand] = []
        self._jobs: dict[Job, None] = {}

    def advance(self, job: Job) -> None:
        """Run the job up to its next call of the disk, or to its end."""
        if job.hand is None:
            job.hand = self._idle.pop() if self._idle else Hand()
            job.hand.job = job
            self._jobs[job] = None
        outer, self.busy = self.busy, job.hand
        try:
            job.hand.step()
        finally:
            self.busy = outer
        if job.is_done:
            del self._jobs[job]
            self._idle.append(job.hand)

    def before_disk(self) -> None:
        """Called before every operation of a disk: a thread stops here; the loop goes on."""
        hand = self.busy
        if hand is not None:
            assert hand.job is not None
            process = hand.job.process
            hand.stop()
            if process is not None and not process.alive:
                raise PowerLost

    def reap(self) -> None:
        """Unwind the threads of dead processes. Must not be called inside a thread."""
        assert self.busy is None
        for job in [job for job in self._jobs if job.process is not None and not job.process.alive]:
            while not job.is_done:
                self.advance(job)

    def lock(self) -> LeashedLock:
        return LeashedLock(self)

    def close(self) -> None:
        self.reap()
        assert not self._jobs, "a thread still works"
        for hand in self._idle:
            hand.dismiss()


class LeashedLock:
    """Takes the place of a lock that the loop and threads share: whoever waits for it lets the one who has it go on."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._is_held = False
        self._owner: Job | None = None

    def __enter__(self) -> None:
        while self._is_held:
            if self._hands.busy is not None:
                self._hands.before_disk()
            else:
                assert self._owner is not None, "the loop waits for itself"
                self._hands.advance(self._owner)
        self._is_held = True
        self._owner = None if self._hands.busy is None else self._hands.busy.job

    def __exit__(self, *_: object) -> None:
        self._is_held = False
