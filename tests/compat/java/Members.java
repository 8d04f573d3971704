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
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Java clients as members of groups: commands and events as in tests/compat/members/__init__.py, a thread each. */
public final class Members {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static final Map<String, String> ASSIGNORS = Map.of(
            "range", "org.apache.kafka.clients.consumer.RangeAssignor",
            "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
            "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
            "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    public static void main(String[] args) throws Exception {
        System.setOut(System.err);
        Map<String, Member> members = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode command = MAPPER.readTree(line);
            String name = command.get("member").asText();
            if (command.get("op").asText().equals("join")) {
                members.put(name, new Member(name, command.get("spec")));
                members.get(name).start();
            } else {
                members.get(name).commands.add(command);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static final class Member extends Thread implements ConsumerRebalanceListener {
        final ConcurrentLinkedQueue<JsonNode> commands = new ConcurrentLinkedQueue<>();
        private final JsonNode spec;
        private final boolean always;
        private final Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        private KafkaConsumer<String, String> consumer;
        private boolean leaving;

        Member(String name, JsonNode spec) {
            super(name);
            this.spec = spec;
            this.always = spec.get("commit").asText().equals("always");
            setDaemon(true);
        }

        @Override
        public void run() {
            try {
                open();
                while (!leaving) {
                    for (JsonNode command = commands.poll(); command != null; command = commands.poll()) {
                        obey(command);
                    }
                    if (!leaving) {
                        step();
                    }
                }
                consumer.close();
                tell("left", JSON.booleanNode(true));
            } catch (Exception error) {
                tell("failed", JSON.textNode(error.toString()));
            }
        }

        private void open() {
            Map<String, Object> config = new HashMap<>();
            config.put("bootstrap.servers", spec.get("bootstrap").asText());
            config.put("group.id", spec.get("group").asText());
            config.put("client.id", getName());
            config.put("group.protocol", spec.get("protocol").asText());
            config.put("auto.offset.reset", spec.get("reset").asText());
            config.put("enable.auto.commit", spec.get("commit").asText().equals("auto"));
            config.put("auto.commit.interval.ms", 200);
            config.put("fetch.max.wait.ms", 50);
            config.put("max.poll.interval.ms", spec.get("max_poll_ms").asInt());
            config.put("metadata.max.age.ms", spec.get("pattern").isNull() ? 30_000 : 300);
            config.put("reconnect.backoff.ms", 10);
            config.put("reconnect.backoff.max.ms", 50);
            config.put("retry.backoff.ms", 20);
            boolean classic = spec.get("protocol").asText().equals("classic");
            if (classic) {
                config.put("session.timeout.ms", spec.get("session_ms").asInt());
                config.put("heartbeat.interval.ms", spec.get("heartbeat_ms").asInt());
            }
            if (!spec.get("instance").isNull()) {
                config.put("group.instance.id", spec.get("instance").asText());
            }
            if (!spec.get("assignor").isNull()) {
                String assignor = spec.get("assignor").asText();
                config.put(classic ? "partition.assignment.strategy" : "group.remote.assignor",
                        classic ? ASSIGNORS.get(assignor) : assignor);
            }
            consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
            if (spec.get("pattern").isNull()) {
                List<String> topics = new ArrayList<>();
                spec.get("topics").forEach(topic -> topics.add(topic.asText()));
                consumer.subscribe(topics, this);
            } else if (classic) {
                consumer.subscribe(Pattern.compile(spec.get("pattern").asText()), this);
            } else {
                consumer.subscribe(new SubscriptionPattern(spec.get("pattern").asText()), this);
            }
        }

        private void step() {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(50));
            if (records.isEmpty()) {
                return;
            }
            ArrayNode told = JSON.arrayNode();
            for (ConsumerRecord<String, String> record : records) {
                ArrayNode row = JSON.arrayNode().add(record.topic()).add(record.partition());
                told.add(row.add(record.offset()).add(record.value()));
                TopicPartition where = new TopicPartition(record.topic(), record.partition());
                next.put(where, new OffsetAndMetadata(record.offset() + 1));
            }
            tell("records", told);
            if (always) {
                commit(true);
            }
        }

        private void obey(JsonNode command) throws InterruptedException {
            switch (command.get("op").asText()) {
                case "commit":
                    commit(command.get("sync").asBoolean());
                    break;
                case "stall":
                    Thread.sleep((long) (command.get("seconds").asDouble() * 1000));
                    break;
                default:
                    leaving = true;
            }
        }

        private void commit(boolean synchronously) {
            if (next.isEmpty()) {
                return;
            }
            ArrayNode told = JSON.arrayNode();
            next.forEach((where, offset) -> told.add(pair(where).add(offset.offset())));
            tell("committing", told);
            if (!synchronously) {
                consumer.commitAsync(new HashMap<>(next), (offsets, error) -> tell(told, error));
                return;
            }
            try {
                consumer.commitSync(new HashMap<>(next));
                tell(told, null);
            } catch (KafkaException error) {
                tell(told, error);
            }
        }

        private void tell(ArrayNode offsets, Exception error) {
            tell(error == null ? "committed" : "commit_failed", offsets, error == null ? "" : error.toString());
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> places) {
            tell("assigned", pairs(places));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> places) {
            if (always) {
                commit(true);
            }
            tell("revoked", pairs(places));
            places.forEach(next::remove);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> places) {
            tell("lost", pairs(places));
            places.forEach(next::remove);
        }

        private static ArrayNode pair(TopicPartition where) {
            return JSON.arrayNode().add(where.topic()).add(where.partition());
        }

        private static ArrayNode pairs(Collection<TopicPartition> places) {
            ArrayNode pairs = JSON.arrayNode();
            places.forEach(where -> pairs.add(pair(where)));
            return pairs;
        }

        private void tell(String kind, JsonNode value) {
            tell(kind, value, "");
        }

        private void tell(String kind, JsonNode value, String text) {
            ObjectNode event = JSON.objectNode().put("member", getName());
            event.put("at", System.currentTimeMillis() / 1000.0);
            event.set(kind, value);
            event.put("text", text);
            synchronized (OUT) {
                OUT.println(event);
                OUT.flush();
            }
        }
    }
}
