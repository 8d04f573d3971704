// kafkajs behind one JSON object a line: a call on stdin, its answer on stdout.
// Bytes travel as base64. The calls are those of tests/compat/clients/base.py.
'use strict'

const readline = require('readline')
const lz4 = require('lz4-napi')
const { ZstdCodec } = require('zstd-codec')
const kafkajs = require('kafkajs')
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, Partitioners } = kafkajs

const EARLIEST = -2
const LATEST = -1
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: encoder => lz4.compressFrame(encoder.buffer),
  decompress: buffer => lz4.decompressFrame(buffer),
})
const zstd = new Promise(resolve => ZstdCodec.run(found => resolve(new found.Streaming())))
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => Buffer.from((await zstd).compress(encoder.buffer)),
  decompress: async buffer => Buffer.from((await zstd).decompress(buffer)),
})

class ReadTimeout extends Error {}

const bytes = text => (text === null ? null : Buffer.from(text, 'base64'))
const text = buffer => (buffer === null || buffer === undefined ? null : Buffer.from(buffer).toString('base64'))

const connect = call =>
  new Kafka({
    brokers: [call.bootstrap],
    logLevel: kafkajs.logLevel.NOTHING,
    retry: { initialRetryTime: 20, maxRetryTime: 200, retries: 20 },
  })

// Headers are an object in this client: a name that comes twice carries an array.
const headerObject = pairs => {
  const found = {}
  for (const [name, value] of pairs) {
    const earlier = found[name]
    found[name] = earlier === undefined ? bytes(value) : [].concat([earlier], [bytes(value)]).flat()
  }
  return found
}

const headerPairs = headers =>
  Object.entries(headers || {}).flatMap(([name, value]) =>
    Array.isArray(value) ? value.map(each => [name, text(each)]) : [[name, text(value)]]
  )

// One send is one batch per partition, so that many batches means many sends.
const chunks = (records, batchBytes) => {
  if (batchBytes === null) return [records]
  const found = []
  let size = Infinity
  for (const record of records) {
    const bytesOf = (record.value || Buffer.alloc(0)).length + 20
    if (size + bytesOf > batchBytes) {
      found.push([])
      size = 0
    }
    found[found.length - 1].push(record)
    size += bytesOf
  }
  return found
}

const produce = async call => {
  const chosen = new Map()
  const createPartitioner = () => {
    const choose = Partitioners.DefaultPartitioner()
    return args => {
      const partition = choose(args)
      chosen.set(args.message, partition)
      return partition
    }
  }
  const producer = connect(call).producer({
    idempotent: call.idempotent,
    createPartitioner,
    maxInFlightRequests: call.idempotent ? 1 : null,
  })
  const messages = call.records.map(record => {
    const message = { key: bytes(record.key), value: bytes(record.value), headers: headerObject(record.headers) }
    if (record.partition !== null) message.partition = record.partition
    if (record.timestamp_ms !== null) message.timestamp = String(record.timestamp_ms)
    return message
  })
  await producer.connect()
  const acked = []
  try {
    for (const part of chunks(messages, call.batch_bytes)) {
      const answers = await producer.send({
        topic: call.topic,
        acks: call.acks,
        compression: CODECS[call.codec],
        messages: part,
      })
      const next = new Map(answers.map(answer => [answer.partition, Number(answer.baseOffset)]))
      for (const message of part) {
        const partition = chosen.get(message)
        const offset = next.has(partition) ? next.get(partition) : -1
        next.set(partition, offset + 1)
        acked.push([partition, offset])
      }
    }
  } finally {
    await producer.disconnect()
  }
  return acked
}

// The consumer of this client insists on a group. Below it is the call that every one of its consumers reads through.
const withCluster = async (call, work) => {
  const kafka = connect(call)
  const create = Object.getOwnPropertySymbols(kafka).find(symbol => symbol.description.endsWith('createCluster'))
  const cluster = kafka[create]({ metadataMaxAge: 300000, allowAutoTopicCreation: false, isolationLevel: 1 })
  await cluster.connect()
  try {
    await cluster.addTargetTopic(call.topic)
    return await work(cluster)
  } finally {
    await cluster.disconnect()
  }
}

const listOffsets = async (cluster, topic, partitions, at) => {
  const asked = { topic, partitions: partitions.map(partition => ({ partition })), fromTimestamp: at }
  const [answer] = await cluster.fetchTopicsOffset([asked])
  return answer.partitions.map(({ partition, offset }) => [partition, Number(offset)])
}

const fetchOnce = async (cluster, call, positions) => {
  const [leader] = Object.keys(cluster.findLeaderForPartitions(call.topic, [...positions.keys()]))
  const broker = await cluster.findBroker({ nodeId: leader })
  const partitions = [...positions].map(([partition, at]) => ({
    partition,
    fetchOffset: String(at),
    maxBytes: call.max_bytes,
  }))
  const answer = await broker.fetch({
    maxWaitTime: 50,
    minBytes: 1,
    maxBytes: 52428800,
    isolationLevel: 1,
    topics: [{ topic: call.topic, partitions }],
  })
  return answer.responses.flatMap(response => response.partitions)
}

const consume = call =>
  withCluster(call, async cluster => {
    const positions = new Map(call.start)
    for (const [partition, at] of call.start) {
      if (at === EARLIEST || at === LATEST) {
        const [[, offset]] = await listOffsets(cluster, call.topic, [partition], at)
        positions.set(partition, offset)
      }
    }
    const deadline = Date.now() + call.timeout_ms
    const found = []
    while (found.length < call.count) {
      if (Date.now() > deadline) throw new ReadTimeout(`${found.length} of ${call.count} records read`)
      for (const { partition, messages } of await fetchOnce(cluster, call, positions)) {
        for (const message of messages) {
          const offset = Number(message.offset)
          if (offset < positions.get(partition) || found.length >= call.count) continue
          positions.set(partition, offset + 1)
          found.push({
            partition,
            offset,
            timestamp_ms: Number(message.timestamp),
            append_time: message.batchContext.timestampType === 1,
            key: text(message.key),
            value: text(message.value),
            headers: headerPairs(message.headers),
          })
        }
      }
    }
    return found
  })

const offsets = call =>
  withCluster(call, async cluster => {
    const found = await listOffsets(cluster, call.topic, call.partitions, call.at)
    return found.map(([partition, offset]) => [partition, offset < 0 ? null : offset])
  })

const ADMIN = {
  create_topic: async (admin, call) => {
    const topic = {
      topic: call.topic,
      numPartitions: call.assignment === null ? call.partitions : -1,
      replicationFactor: call.assignment === null ? call.replication_factor : -1,
      configEntries: Object.entries(call.configs).map(([name, value]) => ({ name, value })),
    }
    if (call.assignment !== null) {
      topic.replicaAssignment = call.assignment.map(([partition, replicas]) => ({ partition, replicas }))
    }
    const created = await admin.createTopics({
      topics: [topic],
      validateOnly: call.validate_only,
      waitForLeaders: !call.validate_only,
    })
    // The only error that this client swallows.
    if (!created) throw Object.assign(new Error('TOPIC_ALREADY_EXISTS'), { code: 36 })
    return null
  },
  delete_topic: async (admin, call) => {
    await admin.deleteTopics({ topics: [call.topic] })
    return null
  },
  create_partitions: async (admin, call) => {
    const wanted = { topic: call.topic, count: call.total }
    if (call.assignment !== null) wanted.assignments = call.assignment
    await admin.createPartitions({ topicPartitions: [wanted] })
    return null
  },
  describe_topic: async (admin, call) => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [call.topic] })
    return topics[0].partitions.map(p => [p.partitionId, p.leader, p.replicas, p.isr])
  },
  list_topics: admin => admin.listTopics(),
  describe_cluster: async admin => {
    const { clusterId, controller, brokers } = await admin.describeCluster()
    return { cluster_id: clusterId, controller, brokers: brokers.map(b => [b.nodeId, b.host, b.port]) }
  },
  describe_configs: async (admin, call) => {
    const type = ConfigResourceTypes[call.kind.toUpperCase()]
    const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [{ type, name: call.name }] })
    return Object.fromEntries(resources[0].configEntries.map(e => [e.configName, e.configValue]))
  },
}

const administer = async call => {
  const admin = connect(call).admin()
  await admin.connect()
  try {
    return await ADMIN[call.op](admin, call)
  } finally {
    await admin.disconnect()
  }
}

const rootCause = error => {
  const inner = (error.errors && error.errors[0]) || error.cause
  return inner && inner !== error ? rootCause(inner) : error
}

const answer = async call => {
  try {
    const work = { produce, consume, offsets }[call.op] || administer
    return { ok: await work(call) }
  } catch (error) {
    if (error instanceof ReadTimeout) return { timeout: error.message }
    const cause = rootCause(error)
    const code = Number.isInteger(cause.code) ? cause.code : null
    return { error: { code, text: `${cause.name}: ${cause.message}` } }
  }
}

const main = async () => {
  for await (const line of readline.createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    process.stdout.write(JSON.stringify(await answer(JSON.parse(line))) + '\n')
  }
}

main()
