"""Moving replicas and leaders of a cluster, Bifrost or Apache Kafka: where they are, where they should be, the way."""
