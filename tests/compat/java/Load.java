import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * One producer or one consumer that lives as long as stdin is open, for tests/faults/java_clients.py.
 * "write BOOTSTRAP TOPIC": a line in is "NUMBER PARTITION BASE64", out "acked NUMBER OFFSET" or "failed NUMBER WHY".
 * "read BOOTSTRAP TOPIC PARTITIONS": lines out are "record PARTITION OFFSET BASE64", "." after each poll, "error WHY".
 */
public final class Load {
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static final int NEVER_MS = 600_000;
    private static final int REQUEST_MS = 4_000;
    private static volatile boolean open = true;

    public static void main(String[] args) throws Exception {
        System.setOut(System.err);
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", args[1]);
        config.put("request.timeout.ms", REQUEST_MS);
        config.put("socket.connection.setup.timeout.ms", REQUEST_MS);
        config.put("reconnect.backoff.max.ms", 500);
        config.put("metadata.max.age.ms", 2_000);
        if (args[0].equals("write")) {
            write(config, args[2]);
        } else {
            read(config, args[2], Integer.parseInt(args[3]));
        }
        OUT.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void write(Map<String, Object> config, String topic) throws IOException {
        config.put("acks", "all");
        config.put("enable.idempotence", true);
        config.put("linger.ms", 2);
        config.put("delivery.timeout.ms", NEVER_MS);
        config.put("max.block.ms", NEVER_MS);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            byte[] value = Base64.getDecoder().decode(words[2]);
            var record = new ProducerRecord<byte[], byte[]>(topic, Integer.parseInt(words[1]), null, value);
            try {
                producer.send(record, (told, error) -> tell(words[0], told, error));
            } catch (KafkaException error) {
                tell(words[0], null, error);
            }
        }
        producer.close(Duration.ofSeconds(1));
    }

    private static void tell(String number, RecordMetadata told, Exception error) {
        // An offset of -1: a later answer has shown that the record is stored, and the first one was lost.
        say(error == null ? "acked " + number + " " + told.offset() : "failed " + number + " " + error);
    }

    private static void awaitEnd() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (IOException error) {
            say("error " + error);
        }
        open = false;
    }

    private static void read(Map<String, Object> config, String topic, int partitions) throws InterruptedException {
        config.put("enable.auto.commit", false);
        config.put("auto.offset.reset", "none");
        config.put("fetch.max.wait.ms", 100);
        config.put("default.api.timeout.ms", NEVER_MS);
        List<TopicPartition> places = new ArrayList<>();
        for (int partition = 0; partition < partitions; partition++) {
            places.add(new TopicPartition(topic, partition));
        }
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(places);
            places.forEach(place -> consumer.seek(place, 0));
            new Thread(Load::awaitEnd).start();
            while (open) {
                try {
                    tell(consumer.poll(Duration.ofMillis(200)));
                } catch (KafkaException error) {
                    say("error " + error);
                    Thread.sleep(100); // it would meet the same again at once
                }
            }
        }
    }

    private static void tell(ConsumerRecords<byte[], byte[]> records) {
        if (records.isEmpty()) {
            return;
        }
        StringBuilder lines = new StringBuilder();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            String value = Base64.getEncoder().encodeToString(record.value());
            lines.append("record ").append(record.partition()).append(' ').append(record.offset()).append(' ');
            lines.append(value).append('\n');
        }
        say(lines.append('.').toString());
    }

    private static synchronized void say(String words) {
        OUT.println(words.replace('\r', ' '));
        OUT.flush();
    }
}
