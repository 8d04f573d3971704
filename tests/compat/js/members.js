// kafkajs as members of groups: commands and events as in tests/compat/members/__init__.py.
'use strict'

const readline = require('readline')
const { Kafka, PartitionAssigners, logLevel } = require('kafkajs')

const tell = (member, event) =>
  process.stdout.write(JSON.stringify({ member, at: Date.now() / 1000, ...event }) + '\n')

const pairs = assignment =>
  Object.entries(assignment).flatMap(([topic, partitions]) => partitions.map(partition => [topic, partition]))

class Member {
  constructor(name, spec) {
    this.name = name
    this.spec = spec
    this.next = new Map()
    this.owned = []
    this.stalled = Promise.resolve()
  }

  async open() {
    const { spec } = this
    const kafka = new Kafka({
      brokers: [spec.bootstrap],
      clientId: this.name,
      logLevel: logLevel.NOTHING,
      retry: { initialRetryTime: 20, maxRetryTime: 200, retries: 20 },
    })
    this.consumer = kafka.consumer({
      groupId: spec.group,
      sessionTimeout: spec.session_ms,
      heartbeatInterval: spec.heartbeat_ms,
      rebalanceTimeout: spec.max_poll_ms,
      maxWaitTimeInMs: 50,
      partitionAssigners: [PartitionAssigners.roundRobin],
    })
    const { GROUP_JOIN, REBALANCING, COMMIT_OFFSETS, CRASH } = this.consumer.events
    this.consumer.on(GROUP_JOIN, ({ payload }) => {
      this.owned = pairs(payload.memberAssignment)
      tell(this.name, { assigned: this.owned })
    })
    this.consumer.on(REBALANCING, () => this.giveUp())
    this.consumer.on(CRASH, ({ payload }) => {
      if (!payload.restart) tell(this.name, { failed: String(payload.error) })
    })
    this.consumer.on(COMMIT_OFFSETS, ({ payload }) => {
      if (spec.commit === 'auto') tell(this.name, { committed: offsetsOf(payload.topics) })
    })
    await this.consumer.connect()
    const wanted = spec.pattern === null ? spec.topics : [new RegExp(spec.pattern)]
    await this.consumer.subscribe({ topics: wanted, fromBeginning: spec.reset === 'earliest' })
    await this.consumer.run({
      autoCommit: spec.commit === 'auto',
      autoCommitInterval: 200,
      eachBatch: batch => this.take(batch),
    })
  }

  async take({ batch, resolveOffset, heartbeat, isRunning, isStale }) {
    await this.stalled
    if (!isRunning() || isStale()) return
    const rows = batch.messages.map(m => [batch.topic, batch.partition, Number(m.offset), m.value.toString()])
    tell(this.name, { records: rows })
    for (const message of batch.messages) resolveOffset(message.offset)
    this.next.set(JSON.stringify([batch.topic, batch.partition]), rows[rows.length - 1][2] + 1)
    if (this.spec.commit === 'always') await this.commit()
    await heartbeat()
  }

  giveUp() {
    if (this.owned.length) tell(this.name, { revoked: this.owned })
    this.owned = []
    this.next.clear()
  }

  // Every commit of this client can be awaited, so that synchronous and asynchronous are the same.
  async commit() {
    const told = [...this.next].map(([place, offset]) => [...JSON.parse(place), offset])
    if (!told.length) return
    tell(this.name, { committing: told })
    try {
      const offsets = told.map(([topic, partition, offset]) => ({ topic, partition, offset: String(offset) }))
      await this.consumer.commitOffsets(offsets)
      tell(this.name, { committed: told })
    } catch (error) {
      tell(this.name, { commit_failed: told, text: String(error) })
    }
  }

  async leave() {
    await this.consumer.disconnect()
    this.giveUp()
    tell(this.name, { left: true })
  }
}

const offsetsOf = topics =>
  topics.flatMap(({ topic, partitions }) => partitions.map(p => [topic, p.partition, Number(p.offset)]))

const members = new Map()

const obey = async command => {
  const member = members.get(command.member)
  switch (command.op) {
    case 'join':
      members.set(command.member, new Member(command.member, command.spec))
      return members.get(command.member).open()
    case 'commit':
      return member.commit()
    case 'stall':
      member.stalled = new Promise(resolve => setTimeout(resolve, command.seconds * 1000))
      return null
    default:
      return member.leave()
  }
}

const main = async () => {
  for await (const line of readline.createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    const command = JSON.parse(line)
    obey(command).catch(error => tell(command.member, { failed: String(error) }))
  }
  process.exit(0)
}

main()
