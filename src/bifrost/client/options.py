"""Settings for librdkafka: where they come from, and which names there are.

librdkafka alone decides what it accepts. The names here serve only to offer the nearest one when it refuses a name, so
a newer librdkafka may know more of them without harm.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from bifrost.client.clusters import Connection
from bifrost.client.errors import ConfigError, InvalidRequestError

LOGGER: Final = logging.getLogger("bifrost.client.librdkafka")
"""What librdkafka has to tell: silent unless the program configures logging."""
LOGGER.addHandler(logging.NullHandler())
RECONNECT_MS_MAX: Final = 1_000
"""A broker that is back is found within a second, not the ten that librdkafka takes to ask again."""


def client_options(connection: Connection, *layers: Mapping[str, object] | None) -> dict[str, object]:
    """What to open a client with: the address, the cluster's settings, then each layer over those before it."""
    options: dict[str, object] = {
        "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
        "logger": LOGGER,
        **connection.config,
        "bootstrap.servers": connection.bootstrap,
    }
    for layer in layers:
        options |= layer or {}
    return options


def names_of(given: str | Iterable[str]) -> list[str]:
    """One name or several; a str alone is never meant letter by letter."""
    names = [given] if isinstance(given, str) else list(given)
    for name in names:
        if not isinstance(name, str) or not name:
            raise InvalidRequestError(f"{name!r} is not a name", "Give a non-empty str, or several.")
    return names


ADDRESS_NAMES: Final = {"bootstrap.servers": "bootstrap=", "metadata.broker.list": "bootstrap="}


def refuse_names(config: Mapping[str, object] | None, own: Mapping[str, str]) -> None:
    """Settings of librdkafka that have a name of their own here: given twice they could contradict each other."""
    for name in config or {}:
        if name in own:
            raise ConfigError(f"config has {name}", f"Say {own[name]} instead.")


_NAMES = """
    acks allow.auto.create.topics api.version.fallback.ms api.version.request api.version.request.timeout.ms
    auto.commit.enable auto.commit.interval.ms auto.offset.reset batch.num.messages batch.size bootstrap.servers
    broker.address.family broker.address.ttl broker.version.fallback check.crcs client.dns.lookup client.id
    client.rack compression.codec compression.level compression.type connections.max.idle.ms
    consume.callback.max.messages coordinator.query.interval.ms debug delivery.report.only.error delivery.timeout.ms
    enable.auto.commit enable.auto.offset.store enable.gapless.guarantee enable.idempotence enable.metrics.push
    enable.partition.eof enable.random.seed enable.sasl.oauthbearer.unsecure.jwt enable.ssl.certificate.verification
    error_cb fetch.error.backoff.ms fetch.max.bytes fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms
    fetch.wait.max.ms group.id group.instance.id group.protocol group.protocol.type group.remote.assignor
    heartbeat.interval.ms https.ca.location https.ca.pem internal.termination.signal isolation.level linger.ms
    log.connection.close log.queue log.thread.name log_level max.in.flight max.in.flight.requests.per.connection
    max.partition.fetch.bytes max.poll.interval.ms max.poll.records message.copy.max.bytes message.max.bytes
    message.send.max.retries message.timeout.ms metadata.broker.list metadata.max.age.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy oauth_cb offset.store.method
    offset.store.path offset.store.sync.interval.ms partition.assignment.strategy partitioner plugin.library.paths
    produce.offset.report queue.buffering.backpressure.threshold queue.buffering.max.kbytes
    queue.buffering.max.messages queue.buffering.max.ms queued.max.messages.kbytes queued.min.messages
    queuing.strategy receive.message.max.bytes reconnect.backoff.jitter.ms reconnect.backoff.max.ms
    reconnect.backoff.ms request.required.acks request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms
    sasl.kerberos.keytab sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.principal
    sasl.kerberos.service.name sasl.mechanism sasl.mechanisms sasl.oauthbearer.assertion.algorithm
    sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
    sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.jwt.template.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.private.key.pem sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.client.id sasl.oauthbearer.client.secret
    sasl.oauthbearer.config sasl.oauthbearer.extensions sasl.oauthbearer.grant.type
    sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.method sasl.oauthbearer.scope
    sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url sasl.password sasl.username
    security.protocol session.timeout.ms share.acknowledgement.mode socket.blocking.max.ms
    socket.connection.setup.timeout.ms socket.keepalive.enable socket.max.fails socket.nagle.disable
    socket.receive.buffer.bytes socket.send.buffer.bytes socket.timeout.ms ssl.ca.certificate.stores ssl.ca.location
    ssl.ca.pem ssl.certificate.location ssl.certificate.pem ssl.cipher.suites ssl.crl.location ssl.curves.list
    ssl.endpoint.identification.algorithm ssl.engine.id ssl.engine.location ssl.key.location ssl.key.password
    ssl.key.pem ssl.keystore.location ssl.keystore.password ssl.providers ssl.sigalgs.list statistics.interval.ms
    stats_cb sticky.partitioning.linger.ms throttle_cb topic.blacklist topic.metadata.propagation.max.ms
    topic.metadata.refresh.fast.cnt topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.interval.ms
    topic.metadata.refresh.sparse transaction.timeout.ms transactional.id
"""
NAMES: Final = frozenset(_NAMES.split())
