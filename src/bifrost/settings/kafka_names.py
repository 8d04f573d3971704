"""The names that an Apache Kafka 4.3 broker knows and this one has no use for, with their types and defaults.

They are accepted, so that a server.properties file can be used as it is, and described when they were set. A name
leaves this table for `broker.py` when something starts to act on it. Facts only: nothing here decides anything.
"""

from __future__ import annotations

from functools import cache

from bifrost.settings.keys import Key, Kind

# One name a line with its default; no `=` means that it has none (or names one of Kafka's own classes).
_BOOLEAN = """
controlled.shutdown.enable=true
controller.quorum.auto.join.enable=false
follower.fetch.last.tiered.offset.enable=false
remote.log.storage.system.enable=false
sasl.oauthbearer.assertion.claim.jti.include=false
ssl.allow.dn.changes=false
ssl.allow.san.changes=false
transaction.partition.verification.enable=true
transaction.two.phase.commit.enable=false
unstable.api.versions.enable=false
unstable.feature.versions.enable=false
"""

_INT = """
add.partitions.to.txn.retry.backoff.max.ms=100
add.partitions.to.txn.retry.backoff.ms=20
alter.log.dirs.replication.quota.window.num=11
alter.log.dirs.replication.quota.window.size.seconds=1
background.threads=10
connection.failed.authentication.delay.ms=100
controller.quorum.append.linger.ms=25
controller.socket.timeout.ms=30000
delete.records.purgatory.purge.interval.requests=1
fetch.purgatory.purge.interval.requests=1000
group.coordinator.append.linger.ms=-1
group.coordinator.background.threads=2
group.coordinator.cached.buffer.max.bytes=1048588
group.coordinator.threads=4
group.share.assignment.interval.ms=1000
group.share.delivery.count.limit=5
group.share.heartbeat.interval.ms=5000
group.share.initialize.retry.interval.ms=30000
group.share.max.assignment.interval.ms=15000
group.share.max.delivery.count.limit=10
group.share.max.heartbeat.interval.ms=15000
group.share.max.partition.max.record.locks=4000
group.share.max.record.lock.duration.ms=60000
group.share.max.session.timeout.ms=60000
group.share.max.share.sessions=2000
group.share.max.size=200
group.share.min.assignment.interval.ms=0
group.share.min.delivery.count.limit=2
group.share.min.heartbeat.interval.ms=5000
group.share.min.partition.max.record.locks=100
group.share.min.record.lock.duration.ms=15000
group.share.min.session.timeout.ms=45000
group.share.partition.max.record.locks=2000
group.share.record.lock.duration.ms=30000
group.share.session.timeout.ms=45000
group.streams.assignment.interval.ms=1000
group.streams.heartbeat.interval.ms=5000
group.streams.initial.rebalance.delay.ms=3000
group.streams.max.assignment.interval.ms=15000
group.streams.max.heartbeat.interval.ms=15000
group.streams.max.session.timeout.ms=60000
group.streams.max.size=2147483647
group.streams.max.standby.replicas=2
group.streams.min.assignment.interval.ms=0
group.streams.min.heartbeat.interval.ms=5000
group.streams.min.session.timeout.ms=45000
group.streams.num.standby.replicas=0
group.streams.session.timeout.ms=45000
initial.broker.registration.timeout.ms=60000
internal.metadata.log.segment.bytes
internal.metadata.max.batch.size.in.bytes=8388608
kafka.metrics.polling.interval.secs=10
metadata.max.idle.interval.ms=500
metrics.num.samples=2
num.io.threads=8
num.network.threads=3
num.recovery.threads.per.data.dir=2
num.replica.alter.log.dirs.threads
num.replica.fetchers=1
producer.id.expiration.check.interval.ms=600000
producer.purgatory.purge.interval.requests=1000
queued.max.requests=500
remote.fetch.max.wait.ms=500
remote.log.manager.copier.thread.pool.size=10
remote.log.manager.copy.quota.window.num=11
remote.log.manager.copy.quota.window.size.seconds=1
remote.log.manager.expiration.thread.pool.size=10
remote.log.manager.fetch.quota.window.num=11
remote.log.manager.fetch.quota.window.size.seconds=1
remote.log.manager.follower.thread.pool.size=2
remote.log.manager.thread.pool.size=2
remote.log.metadata.custom.metadata.max.bytes=128
remote.log.reader.max.pending.tasks=100
remote.log.reader.threads=10
replica.fetch.min.bytes=1
replica.socket.receive.buffer.bytes=65536
replication.quota.window.num=11
replication.quota.window.size.seconds=1
request.timeout.ms=30000
sasl.login.connect.timeout.ms
sasl.login.read.timeout.ms
sasl.oauthbearer.assertion.claim.exp.seconds=300
sasl.oauthbearer.assertion.claim.nbf.seconds=60
sasl.oauthbearer.clock.skew.seconds=30
sasl.server.max.receive.size=524288
share.coordinator.append.linger.ms=-1
share.coordinator.cached.buffer.max.bytes=1048588
share.coordinator.cold.partition.snapshot.interval.ms=300000
share.coordinator.load.buffer.size=5242880
share.coordinator.snapshot.update.records.per.snapshot=500
share.coordinator.state.topic.compression.codec=0
share.coordinator.state.topic.num.partitions=50
share.coordinator.state.topic.prune.interval.ms=300000
share.coordinator.state.topic.segment.bytes=104857600
share.coordinator.threads=1
share.coordinator.write.timeout.ms=5000
share.fetch.purgatory.purge.interval.requests=1000
telemetry.max.bytes=1048576
transaction.abort.timed.out.transaction.cleanup.interval.ms=10000
transaction.max.timeout.ms=900000
transaction.remove.expired.transaction.cleanup.interval.ms=3600000
transaction.state.log.load.buffer.size=5242880
transaction.state.log.min.isr=2
transaction.state.log.num.partitions=50
transaction.state.log.segment.bytes=104857600
transactional.id.expiration.ms=604800000
"""

_SHORT = """
sasl.login.refresh.buffer.seconds=300
sasl.login.refresh.min.period.seconds=60
share.coordinator.state.topic.min.isr=2
share.coordinator.state.topic.replication.factor=3
transaction.state.log.replication.factor=3
"""

_LONG = """
connections.max.reauth.ms=0
controller.performance.always.log.threshold.ms=2000
controller.performance.sample.period.ms=60000
delegation.token.expiry.check.interval.ms=3600000
delegation.token.expiry.time.ms=86400000
delegation.token.max.lifetime.ms=604800000
internal.metadata.delete.delay.millis=60000
metadata.max.retention.bytes=104857600
metadata.max.retention.ms=604800000
metrics.sample.window.ms=30000
remote.list.offsets.request.timeout.ms=30000
remote.log.index.file.cache.total.size.bytes=1073741824
remote.log.index.file.cache.ttl.ms=900000
remote.log.manager.copy.max.bytes.per.second=9223372036854775807
remote.log.manager.fetch.max.bytes.per.second=9223372036854775807
remote.log.manager.task.interval.ms=30000
remote.log.manager.task.retry.backoff.max.ms=30000
remote.log.manager.task.retry.backoff.ms=500
sasl.kerberos.min.time.before.relogin=60000
sasl.login.retry.backoff.max.ms=10000
sasl.login.retry.backoff.ms=100
sasl.oauthbearer.jwks.endpoint.refresh.ms=3600000
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms=10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms=100
server.max.startup.time.ms=9223372036854775807
socket.connection.setup.timeout.max.ms=30000
socket.connection.setup.timeout.ms=10000
unclean.leader.election.interval.ms=300000
"""

_DOUBLE = """
remote.log.manager.task.retry.jitter=0.2
sasl.kerberos.ticket.renew.jitter=0.05
sasl.kerberos.ticket.renew.window.factor=0.8
sasl.login.refresh.window.factor=0.8
sasl.login.refresh.window.jitter=0.05
"""

_STRING = """
authorizer.class.name=
group.share.persister.class.name
metrics.recording.level=INFO
remote.log.metadata.manager.class.name
remote.log.metadata.manager.class.path
remote.log.metadata.manager.impl.prefix=rlmm.config.
remote.log.metadata.manager.listener.name
remote.log.storage.manager.class.name
remote.log.storage.manager.class.path
remote.log.storage.manager.impl.prefix=rsm.config.
sasl.kerberos.kinit.cmd=/usr/bin/kinit
sasl.kerberos.service.name
sasl.mechanism.controller.protocol=GSSAPI
sasl.mechanism.inter.broker.protocol=GSSAPI
sasl.oauthbearer.assertion.algorithm=RS256
sasl.oauthbearer.assertion.claim.aud
sasl.oauthbearer.assertion.claim.iss
sasl.oauthbearer.assertion.claim.sub
sasl.oauthbearer.assertion.file
sasl.oauthbearer.assertion.private.key.file
sasl.oauthbearer.assertion.template.file
sasl.oauthbearer.client.credentials.client.id
sasl.oauthbearer.expected.issuer
sasl.oauthbearer.jwks.endpoint.url
sasl.oauthbearer.scope
sasl.oauthbearer.scope.claim.name=scope
sasl.oauthbearer.sub.claim.name=sub
sasl.oauthbearer.token.endpoint.url
security.inter.broker.protocol=PLAINTEXT
security.providers
ssl.client.auth=none
ssl.endpoint.identification.algorithm=https
ssl.keymanager.algorithm=SunX509
ssl.keystore.location
ssl.keystore.type=JKS
ssl.principal.mapping.rules=DEFAULT
ssl.protocol=TLSv1.3
ssl.provider
ssl.secure.random.implementation
ssl.trustmanager.algorithm=PKIX
ssl.truststore.location
ssl.truststore.type=JKS
"""

_LIST = """
config.providers=
cordoned.log.dirs=
early.start.listeners
group.share.assignors=simple
kafka.metrics.reporters=
metric.reporters
sasl.enabled.mechanisms=GSSAPI
sasl.kerberos.principal.to.local.rules=DEFAULT
sasl.oauthbearer.expected.audience=
ssl.cipher.suites=
ssl.enabled.protocols=TLSv1.2,TLSv1.3
"""

_CLASS = """
alter.config.policy.class.name
client.quota.callback.class
create.topic.policy.class.name
principal.builder.class
sasl.client.callback.handler.class
sasl.login.callback.handler.class
sasl.login.class
sasl.oauthbearer.jwt.retriever.class
sasl.oauthbearer.jwt.validator.class
sasl.server.callback.handler.class
ssl.engine.factory.class
"""

_PASSWORD = """
delegation.token.secret.key
sasl.jaas.config
sasl.oauthbearer.assertion.private.key.passphrase
sasl.oauthbearer.client.credentials.client.secret
ssl.key.password
ssl.keystore.certificate.chain
ssl.keystore.key
ssl.keystore.password
ssl.truststore.certificates
ssl.truststore.password
"""

# Known to Kafka 3 and gone in 4: old files still have them.
_RETIRED = """
auto.include.jmx.reporter
broker.id.generation.enable
control.plane.listener.name
controlled.shutdown.max.retries
controlled.shutdown.retry.backoff.ms
delegation.token.master.key
inter.broker.protocol.version
leader.imbalance.per.broker.percentage
log.message.downconversion.enable
log.message.format.version
log.message.timestamp.difference.max.ms
offsets.commit.required.acks
password.encoder.cipher.algorithm
password.encoder.iterations
password.encoder.key.length
password.encoder.keyfactory.algorithm
password.encoder.old.secret
password.encoder.secret
reserved.broker.max.id
zookeeper.connect
zookeeper.connection.timeout.ms
zookeeper.max.in.flight.requests
zookeeper.metadata.migration.enable
zookeeper.session.timeout.ms
zookeeper.set.acl
zookeeper.ssl.client.enable
"""


@cache
def kafka_keys() -> dict[str, Key]:
    """Every accepted name with its type and default."""
    tables = {
        Kind.BOOLEAN: _BOOLEAN,
        Kind.INT: _INT,
        Kind.SHORT: _SHORT,
        Kind.LONG: _LONG,
        Kind.DOUBLE: _DOUBLE,
        Kind.STRING: _STRING,
        Kind.LIST: _LIST,
        Kind.CLASS: _CLASS,
        Kind.PASSWORD: _PASSWORD,
    }
    found = {}
    for kind, table in tables.items():
        for line in table.split():
            name, equals, default = line.partition("=")
            plain = Key(name, kind, None)
            found[name] = Key(name, kind, plain.parse(default)) if equals else plain
    return found


@cache
def retired_names() -> frozenset[str]:
    """Names that an older Kafka knew."""
    return frozenset(_RETIRED.split())
