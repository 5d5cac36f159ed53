"""Writes fixes with Confluent's Avro serializer: BROKERS REGISTRY TOPIC, one fix a line.

The schema is not raw.avsc: it has other fields around, in another order, nullable, with times in
microseconds. The key is the user, and the partitioner is the client's default.
"""
import json
import sys

from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

SCHEMA = json.dumps({
    "type": "record", "name": "Position", "namespace": "com.example", "fields": [
        {"name": "speed", "type": ["null", "float"], "default": None},
        {"name": "timestamp", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "longitude", "type": ["null", "double"]},
        {"name": "latitude", "type": ["null", "double"]},
        {"name": "user_id", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
    ],
})

brokers, registry, topic = sys.argv[1:]
serialize = AvroSerializer(SchemaRegistryClient({"url": registry}), SCHEMA)
producer = Producer({"bootstrap.servers": brokers})
where = SerializationContext(topic, MessageField.VALUE)
for line in sys.stdin:
    fix = json.loads(line)
    record = {
        "speed": 12.5, "timestamp": fix["timestamp"] * 1000, "longitude": fix["longitude"],
        "latitude": fix["latitude"], "user_id": fix["user_id"], "tags": {"source": "test"},
    }
    producer.produce(topic, key=fix["user_id"], value=serialize(record, where),
                     timestamp=fix["timestamp"])
if producer.flush(60) > 0:
    sys.exit("not all fixes were written")
