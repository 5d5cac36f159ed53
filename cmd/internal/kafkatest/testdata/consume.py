"""Prints sanitized records with Confluent's Avro deserializer, and default settings otherwise:
BROKERS REGISTRY TOPIC COUNT."""
import json
import sys

from confluent_kafka import Consumer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

brokers, registry, topic, count = sys.argv[1:]
deserialize = AvroDeserializer(SchemaRegistryClient({"url": registry}))
where = SerializationContext(topic, MessageField.VALUE)
consumer = Consumer({
    "bootstrap.servers": brokers, "group.id": topic + "-reader", "auto.offset.reset": "earliest",
})
consumer.subscribe([topic])
for _ in range(int(count)):
    message = consumer.poll(60)
    if message is None:
        sys.exit("no further record within a minute")
    if message.error():
        sys.exit(str(message.error()))
    record = deserialize(message.value(), where)
    record["timestamp"] = round(record["timestamp"].timestamp() * 1000)
    assert message.key().decode() == record["user_id"]
    print(json.dumps(record))
consumer.close()
