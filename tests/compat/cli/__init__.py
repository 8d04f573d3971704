"""The commands that send and read, on Bifrost and on Apache Kafka; the judge is a client that they do not use."""
