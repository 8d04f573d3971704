"""The source and the sink inside a real Spark, on Bifrost and on Apache Kafka."""
