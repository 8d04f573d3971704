import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The Java client behind one JSON object a line: a call on stdin, its answer on stdout.
 * Bytes travel as base64. The calls are those of tests/compat/clients/base.py and config_admin.py.
 */
public final class Driver {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    private static final int EARLIEST = -2;
    private static final int LATEST = -1;

    public static void main(String[] args) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.objectNode();
            try {
                answer.set("ok", call(mapper.readTree(line)));
            } catch (ReadTimeout timeout) {
                answer.put("timeout", timeout.getMessage());
            } catch (Exception raised) {
                Throwable error = raised instanceof ExecutionException ? raised.getCause() : raised;
                answer.putObject("error").put("code", Errors.forException(error).code()).put("text", error.toString());
            }
            out.println(mapper.writeValueAsString(answer));
            out.flush();
        }
    }

    private static JsonNode call(JsonNode call) throws Exception {
        switch (call.get("op").asText()) {
            case "produce":
                return produce(call);
            case "consume":
                return consume(call);
            case "offsets":
                return offsets(call);
            default:
                try (Admin admin = Admin.create(base(call))) {
                    return admin(admin, call);
                }
        }
    }

    private static final class ReadTimeout extends Exception {
        ReadTimeout(String text) {
            super(text);
        }
    }

    private static Map<String, Object> base(JsonNode call) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", call.get("bootstrap").asText());
        config.put("reconnect.backoff.ms", "10");
        config.put("reconnect.backoff.max.ms", "50");
        return config;
    }

    private static JsonNode produce(JsonNode call) throws Exception {
        Map<String, Object> config = base(call);
        long timeoutMs = call.get("timeout_ms").asLong();
        config.put("compression.type", call.get("codec").asText());
        config.put("acks", call.get("acks").asText());
        config.put("enable.idempotence", call.get("idempotent").asBoolean());
        config.put("max.request.size", call.get("max_bytes").asInt());
        config.put("buffer.memory", Math.max(33554432L, 4L * call.get("max_bytes").asInt()));
        if (!call.get("batch_bytes").isNull()) {
            config.put("batch.size", call.get("batch_bytes").asInt());
        }
        config.put("linger.ms", 5);
        config.put("max.block.ms", timeoutMs);
        config.put("delivery.timeout.ms", (int) timeoutMs);
        config.put("request.timeout.ms", (int) timeoutMs / 2);
        config.put("retry.backoff.ms", 20);
        List<Future<RecordMetadata>> answers = new ArrayList<>();
        ArrayNode acked = JSON.arrayNode();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (JsonNode record : call.get("records")) {
                List<Header> headers = new ArrayList<>();
                for (JsonNode header : record.get("headers")) {
                    headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
                }
                Integer partition = record.get("partition").isNull() ? null : record.get("partition").asInt();
                Long timestamp = record.get("timestamp_ms").isNull() ? null : record.get("timestamp_ms").asLong();
                answers.add(producer.send(new ProducerRecord<>(call.get("topic").asText(), partition, timestamp,
                        bytes(record.get("key")), bytes(record.get("value")), headers)));
            }
            for (Future<RecordMetadata> answer : answers) {
                acked.add(JSON.arrayNode().add(answer.get().partition()).add(answer.get().offset()));
            }
        }
        return acked;
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode call, int maxBytes) {
        Map<String, Object> config = base(call);
        config.put("enable.auto.commit", false);
        config.put("auto.offset.reset", "none");
        config.put("fetch.max.wait.ms", 50);
        config.put("max.partition.fetch.bytes", maxBytes);
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static JsonNode consume(JsonNode call) throws Exception {
        String topic = call.get("topic").asText();
        int count = call.get("count").asInt();
        long deadline = System.nanoTime() + call.get("timeout_ms").asLong() * 1_000_000L;
        ArrayNode found = JSON.arrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(call, call.get("max_bytes").asInt())) {
            Map<TopicPartition, Long> start = new HashMap<>();
            for (JsonNode pair : call.get("start")) {
                start.put(new TopicPartition(topic, pair.get(0).asInt()), pair.get(1).asLong());
            }
            consumer.assign(start.keySet());
            start.forEach((where, at) -> {
                if (at == EARLIEST) {
                    consumer.seekToBeginning(List.of(where));
                } else if (at == LATEST) {
                    consumer.seekToEnd(List.of(where));
                } else {
                    consumer.seek(where, at);
                }
            });
            while (found.size() < count) {
                if (System.nanoTime() > deadline) {
                    throw new ReadTimeout(found.size() + " of " + count + " records read");
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    if (found.size() < count) {
                        found.add(stored(record));
                    }
                }
            }
        }
        return found;
    }

    private static ObjectNode stored(ConsumerRecord<byte[], byte[]> record) {
        ArrayNode headers = JSON.arrayNode();
        for (Header header : record.headers()) {
            headers.add(JSON.arrayNode().add(header.key()).add(text(header.value())));
        }
        ObjectNode stored = JSON.objectNode();
        stored.put("partition", record.partition()).put("offset", record.offset());
        stored.put("timestamp_ms", record.timestamp());
        stored.put("append_time", record.timestampType() == TimestampType.LOG_APPEND_TIME);
        stored.put("key", text(record.key())).put("value", text(record.value()));
        stored.set("headers", headers);
        return stored;
    }

    private static JsonNode offsets(JsonNode call) {
        List<TopicPartition> asked = new ArrayList<>();
        call.get("partitions").forEach(p -> asked.add(new TopicPartition(call.get("topic").asText(), p.asInt())));
        long at = call.get("at").asLong();
        ArrayNode found = JSON.arrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(call, 1_000_000)) {
            if (at == EARLIEST || at == LATEST) {
                Map<TopicPartition, Long> ends =
                        at == EARLIEST ? consumer.beginningOffsets(asked) : consumer.endOffsets(asked);
                ends.forEach((where, offset) -> found.add(JSON.arrayNode().add(where.partition()).add(offset)));
            } else {
                Map<TopicPartition, Long> times = new HashMap<>();
                asked.forEach(where -> times.put(where, at));
                consumer.offsetsForTimes(times).forEach((where, answer) -> found.add(JSON.arrayNode()
                        .add(where.partition())
                        .add(Optional.ofNullable(answer).map(OffsetAndTimestamp::offset).orElse(null))));
            }
        }
        return found;
    }

    private static JsonNode admin(Admin admin, JsonNode call) throws Exception {
        String topic = call.path("topic").asText();
        switch (call.get("op").asText()) {
            case "create_topic":
                CreateTopicsOptions options = new CreateTopicsOptions().validateOnly(call.get("validate_only").asBoolean());
                admin.createTopics(List.of(newTopic(call)), options).all().get();
                return JSON.nullNode();
            case "delete_topic":
                admin.deleteTopics(List.of(topic)).all().get();
                return JSON.nullNode();
            case "delete_records":
                TopicPartition place = new TopicPartition(topic, call.get("partition").asInt());
                RecordsToDelete before = RecordsToDelete.beforeOffset(call.get("offset").asLong());
                return JSON.numberNode(
                        admin.deleteRecords(Map.of(place, before)).lowWatermarks().get(place).get().lowWatermark());
            case "create_partitions":
                NewPartitions wanted = call.get("assignment").isNull()
                        ? NewPartitions.increaseTo(call.get("total").asInt())
                        : NewPartitions.increaseTo(call.get("total").asInt(), replicaLists(call.get("assignment")));
                admin.createPartitions(Map.of(topic, wanted)).all().get();
                return JSON.nullNode();
            case "describe_topic":
                ArrayNode partitions = JSON.arrayNode();
                admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().forEach(p -> {
                    ArrayNode row = JSON.arrayNode().add(p.partition()).add(p.leader().id());
                    partitions.add(row.add(ids(p.replicas())).add(ids(p.isr())));
                });
                return partitions;
            case "list_topics":
                ArrayNode names = JSON.arrayNode();
                admin.listTopics().names().get().forEach(names::add);
                return names;
            case "describe_cluster":
                var cluster = admin.describeCluster();
                ArrayNode brokers = JSON.arrayNode();
                cluster.nodes().get().forEach(n -> brokers.add(JSON.arrayNode().add(n.id()).add(n.host()).add(n.port())));
                ObjectNode about = JSON.objectNode().put("cluster_id", cluster.clusterId().get());
                about.put("controller", cluster.controller().get().id());
                about.set("brokers", brokers);
                return about;
            case "describe_configs":
                ConfigResource resource = new ConfigResource(kind(call), call.get("name").asText());
                Config config = admin.describeConfigs(List.of(resource)).all().get().get(resource);
                ObjectNode entries = JSON.objectNode();
                config.entries().forEach(entry -> entries.put(entry.name(), entry.value()));
                return entries;
            default:
                return configs(admin, call);
        }
    }

    private static JsonNode configs(Admin admin, JsonNode call) throws Exception {
        switch (call.get("op").asText()) {
            case "alter_configs":
                List<AlterConfigOp> changes = new ArrayList<>();
                for (JsonNode change : call.get("changes")) {
                    String value = change.get(2).isNull() ? null : change.get(2).asText();
                    changes.add(new AlterConfigOp(
                            new ConfigEntry(change.get(0).asText(), value),
                            AlterConfigOp.OpType.valueOf(change.get(1).asText().toUpperCase())));
                }
                ConfigResource altered = new ConfigResource(kind(call), call.get("name").asText());
                AlterConfigsOptions options = new AlterConfigsOptions().validateOnly(call.get("validate_only").asBoolean());
                admin.incrementalAlterConfigs(Map.of(altered, changes), options).all().get();
                return JSON.nullNode();
            case "describe_config_entries":
                ConfigResource described = new ConfigResource(kind(call), call.get("name").asText());
                DescribeConfigsOptions all = new DescribeConfigsOptions().includeSynonyms(true);
                ArrayNode rows = JSON.arrayNode();
                admin.describeConfigs(List.of(described), all).all().get().get(described).entries().forEach(entry -> {
                    ArrayNode synonyms = JSON.arrayNode();
                    entry.synonyms().forEach(synonym -> synonyms.add(JSON.arrayNode()
                            .add(synonym.name())
                            .add(synonym.value())
                            .add(synonym.source().name())));
                    ArrayNode row = JSON.arrayNode().add(entry.name()).add(entry.value()).add(entry.source().name());
                    rows.add(row.add(entry.isReadOnly()).add(synonyms));
                });
                return rows;
            case "list_config_resources":
                ArrayNode names = JSON.arrayNode();
                Set<ConfigResource.Type> types = Set.of(kind(call));
                admin.listConfigResources(types, new ListConfigResourcesOptions()).all().get()
                        .forEach(found -> names.add(found.name()));
                return names;
            default:
                return Nodes.call(admin, call);
        }
    }

    private static ConfigResource.Type kind(JsonNode call) {
        return ConfigResource.Type.valueOf(call.get("kind").asText().toUpperCase());
    }

    private static NewTopic newTopic(JsonNode call) {
        String name = call.get("topic").asText();
        NewTopic topic;
        if (call.get("assignment").isNull()) {
            topic = new NewTopic(name, call.get("partitions").asInt(), (short) call.get("replication_factor").asInt());
        } else {
            Map<Integer, List<Integer>> assignment = new HashMap<>();
            for (JsonNode pair : call.get("assignment")) {
                assignment.put(pair.get(0).asInt(), ints(pair.get(1)));
            }
            topic = new NewTopic(name, assignment);
        }
        Map<String, String> configs = new HashMap<>();
        call.get("configs").properties().forEach(entry -> configs.put(entry.getKey(), entry.getValue().asText()));
        return topic.configs(configs);
    }

    private static List<List<Integer>> replicaLists(JsonNode lists) {
        List<List<Integer>> found = new ArrayList<>();
        lists.forEach(list -> found.add(ints(list)));
        return found;
    }

    private static List<Integer> ints(JsonNode list) {
        List<Integer> found = new ArrayList<>();
        list.forEach(each -> found.add(each.asInt()));
        return found;
    }

    private static ArrayNode ids(List<Node> nodes) {
        ArrayNode found = JSON.arrayNode();
        nodes.forEach(node -> found.add(node.id()));
        return found;
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
