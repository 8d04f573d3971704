"""Promises by name, as settings of librdkafka: who acknowledges, what is resent, how messages are compressed."""

from __future__ import annotations

from typing import Final, Literal, get_args

from bifrost.client.errors import ConfigError, UnsupportedError, nearest

Acks = Literal["all", "1", "0", -1, 1, 0]
Promise = Literal["at_least_once", "at_most_once", "exactly_once"]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]

PROMISES: Final[tuple[Promise, ...]] = get_args(Promise)
CODECS: Final[tuple[Compression, ...]] = get_args(Compression)
_ACKS: Final = {"all": "all", "-1": "all", "1": "1", "0": "0"}


def promise_options(
    acks: Acks, delivery: Promise | None, compression: Compression, timeout_s: float | None
) -> dict[str, object]:
    """The settings that keep the promise; ConfigError if it contradicts itself."""
    known_acks = _ACKS.get(str(acks))
    if known_acks is None:
        raise ConfigError(f"acks={acks!r} is unknown", 'There are "all", 1 and 0.')
    if compression not in CODECS:
        hint = nearest(str(compression), CODECS) or f"There are {', '.join(CODECS)}."
        raise ConfigError(f"compression={compression!r} is unknown", hint)
    if timeout_s is not None and timeout_s <= 0:
        raise ConfigError(f"timeout_s={timeout_s} leaves no time", "Give seconds, or None to resend without end.")
    resent = _resent(known_acks, delivery)
    # The broker drops what it has already stored, and keeps the order, only for producers that number their messages
    # (KIP-98); it can do so only if it answers for all replicas.
    return {
        "acks": known_acks,
        "enable.idempotence": resent and known_acks == "all",
        "compression.type": compression,
        "message.timeout.ms": 0 if timeout_s is None else max(round(timeout_s * 1000), 1),
        **({} if resent else {"retries": 0}),
    }


def _resent(acks: str, delivery: Promise | None) -> bool:
    promise = delivery or ("at_most_once" if acks == "0" else "at_least_once")
    if promise == "exactly_once":
        raise UnsupportedError(
            'delivery="exactly_once" needs transactions, which are not there yet',
            'With "at_least_once" a partition already stores each message of a producer once, as long as it lives.',
        )
    if promise not in PROMISES:
        hint = nearest(str(promise), PROMISES) or f"There are {' and '.join(PROMISES[:2])}."
        raise ConfigError(f"delivery={delivery!r} is unknown", hint)
    if promise == "at_least_once" and acks == "0":
        raise ConfigError(
            "acks=0 cannot deliver at least once: nobody acknowledges anything",
            'Use acks=1 or acks="all", or delivery="at_most_once".',
        )
    return promise == "at_least_once"
