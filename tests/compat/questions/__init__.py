"""Raw requests worth asking a broker, one small function each, by the API they belong to.

A question is asked at every version of its API. It returns the answers of its conversation; what is right is not
decided here but by Apache Kafka, whose answers are kept in `answers/`.
"""
