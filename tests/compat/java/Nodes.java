import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.FeatureUpdate.UpgradeType;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;

/** What an administrator asks of the nodes: directories, leaders, producers, quotas, features. */
final class Nodes {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

    static JsonNode call(Admin admin, JsonNode call) throws Exception {
        TopicPartition place = new TopicPartition(call.path("topic").asText(), call.path("partition").asInt());
        switch (call.get("op").asText()) {
            case "log_dirs":
                ObjectNode dirs = JSON.objectNode();
                int broker = call.get("broker").asInt();
                admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker).forEach((path, one) -> {
                    ObjectNode sizes = dirs.putObject(path);
                    one.replicaInfos().forEach((where, replica) -> sizes.put(where.toString(), replica.size()));
                });
                return dirs;
            case "move_log":
                var replica = new TopicPartitionReplica(place.topic(), place.partition(), call.get("broker").asInt());
                admin.alterReplicaLogDirs(Map.of(replica, call.get("path").asText())).all().get();
                return JSON.nullNode();
            case "producers":
                ArrayNode producers = JSON.arrayNode();
                admin.describeProducers(List.of(place)).partitionResult(place).get().activeProducers().forEach(
                        one -> producers.add(JSON.arrayNode().add(one.producerEpoch()).add(one.lastSequence())));
                return producers;
            case "elect":
                admin.electLeaders(ElectionType.PREFERRED, Set.of(place)).all().get();
                return JSON.nullNode();
            case "features":
                ObjectNode levels = JSON.objectNode();
                admin.describeFeatures().featureMetadata().get().finalizedFeatures()
                        .forEach((name, range) -> levels.put(name, range.maxVersionLevel()));
                return levels;
            case "try_feature":
                UpgradeType type = UpgradeType.valueOf(call.get("type").asText());
                var update = new FeatureUpdate((short) call.get("level").asInt(), type);
                var trying = new UpdateFeaturesOptions().validateOnly(true);
                admin.updateFeatures(Map.of(call.get("feature").asText(), update), trying).all().get();
                return JSON.nullNode();
            case "set_quota":
                Double rate = call.get("rate").isNull() ? null : call.get("rate").asDouble();
                var change = new ClientQuotaAlteration.Op(call.get("key").asText(), rate);
                var entity = new ClientQuotaEntity(new HashMap<>(Map.of("client-id", call.get("client").asText())));
                admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(change)))).all().get();
                return JSON.nullNode();
            case "quotas":
                var of = ClientQuotaFilterComponent.ofEntity("client-id", call.get("client").asText());
                ObjectNode rates = JSON.objectNode();
                admin.describeClientQuotas(ClientQuotaFilter.containsOnly(List.of(of))).entities().get()
                        .values().forEach(values -> values.forEach(rates::put));
                return rates;
            default:
                throw new IllegalArgumentException("unknown call " + call.get("op"));
        }
    }

    private Nodes() {}
}
