import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * What bench.py measures geodither against, and with. The arguments are name=value.
 *
 * <p>"streams" is the input and output of geodither in Kafka Streams, exactly once: raw topic, a
 * read and a write of one state a user, in RocksDB with a changelog, sanitized topic. It has no
 * mathematics: a state is bytes that do not compress, of which eight count the user's records.
 *
 * <p>"read" reads a topic of either, committed records alone, for some seconds, and prints how
 * late each record came after the raw record whose timestamp it has, and the longest silence.
 */
public final class Peer {
  private Peer() {}

  public static void main(String[] args) throws Exception {
    Map<String, String> o = new HashMap<>();
    for (String arg : Arrays.asList(args).subList(1, args.length)) {
      int at = arg.indexOf('=');
      o.put(arg.substring(0, at), arg.substring(at + 1));
    }
    if (args[0].equals("read")) {
      read(o);
    } else {
      streams(o);
    }
  }

  private static void say(String format, Object... args) {
    System.out.println(String.format(format, args));
    System.out.flush();
  }

  // Kafka Streams.

  private static final String STORE = "states";
  private static final LongAdder RECORDS = new LongAdder();

  private static final class Step implements Processor<byte[], byte[], byte[], byte[]> {
    private final int stateBytes;
    private final byte[] output;
    private ProcessorContext<byte[], byte[]> context;
    private KeyValueStore<byte[], byte[]> states;

    Step(int stateBytes, int outputBytes) {
      this.stateBytes = stateBytes;
      output = new byte[outputBytes];
      new Random(1).nextBytes(output);
    }

    @Override
    public void init(ProcessorContext<byte[], byte[]> given) {
      context = given;
      states = context.getStateStore(STORE);
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
      byte[] state = states.get(record.key());
      if (state == null) {
        state = new byte[stateBytes];
        new Random(Arrays.hashCode(record.key())).nextBytes(state);
      }
      ByteBuffer counter = ByteBuffer.wrap(state);
      counter.putLong(0, counter.getLong(0) + 1);
      states.put(record.key(), state);
      byte[] value = output.clone();
      int copied = Math.min(record.value().length, value.length);
      System.arraycopy(record.value(), 0, value, 0, copied);
      context.forward(record.withValue(value)); // with the raw record's timestamp
      RECORDS.increment();
    }
  }

  private static void streams(Map<String, String> o) throws Exception {
    int stateBytes = Integer.parseInt(o.remove("state"));
    int outputBytes = Integer.parseInt(o.remove("output"));
    String in = o.remove("in");
    String out = o.remove("out");
    Properties p = new Properties();
    p.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
    p.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
    p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
    p.put("auto.offset.reset", "earliest");
    p.putAll(o);
    try (Admin admin = Admin.create(p)) {
      if (!admin.listTopics().names().get().contains(out)) {
        int n = admin.describeTopics(List.of(in)).allTopicNames().get().get(in).partitions().size();
        try {
          admin.createTopics(List.of(new NewTopic(out, n, (short) 1))).all().get();
        } catch (ExecutionException e) { // a second instance that starts at the same time
          if (!(e.getCause() instanceof TopicExistsException)) {
            throw e;
          }
        }
      }
    }
    Topology t = new Topology();
    t.addSource("raw", in);
    t.addProcessor("step", () -> new Step(stateBytes, outputBytes), "raw");
    t.addStateStore(
        Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore(STORE), Serdes.ByteArray(), Serdes.ByteArray())
            .withCachingEnabled(), // as the DSL does
        "step");
    t.addSink("sanitized", out, "step");
    KafkaStreams streams = new KafkaStreams(t, p);
    CountDownLatch stopped = new CountDownLatch(1);
    Runtime.getRuntime()
        .addShutdownHook(
            new Thread(
                () -> {
                  streams.close(Duration.ofSeconds(20));
                  stopped.countDown();
                }));
    streams.start();
    while (!stopped.await(200, java.util.concurrent.TimeUnit.MILLISECONDS)) {
      long requests = 0;
      for (Metric m : streams.metrics().values()) {
        if (m.metricName().name().equals("request-total")
            && m.metricName().group().matches("(producer|consumer|admin-client)-metrics")) {
          requests += ((Double) m.metricValue()).longValue();
        }
      }
      boolean running = streams.state() == KafkaStreams.State.RUNNING;
      say("records=%d requests=%d running=%d", RECORDS.sum(), requests, running ? 1 : 0);
    }
  }

  // The reader.

  private static void read(Map<String, String> o) {
    String topic = o.remove("topic");
    long end = System.currentTimeMillis() + 1000 * Long.parseLong(o.remove("seconds"));
    Properties p = new Properties();
    p.put("isolation.level", "read_committed");
    p.put("fetch.min.bytes", 1);
    p.put("fetch.max.wait.ms", 20);
    p.putAll(o);
    ByteArrayDeserializer bytes = new ByteArrayDeserializer();
    try (KafkaConsumer<byte[], byte[]> c = new KafkaConsumer<>(p, bytes, bytes)) {
      List<TopicPartition> all =
          c.partitionsFor(topic).stream()
              .map(i -> new TopicPartition(topic, i.partition()))
              .toList();
      c.assign(all);
      c.seekToEnd(all);
      all.forEach(c::position);
      say("ready=1");
      long[] late = new long[1 << 16];
      int n = 0;
      long silence = 0;
      Map<Integer, Long> last = new HashMap<>();
      for (long now = 0; now < end; ) {
        var batch = c.poll(Duration.ofMillis(50));
        now = System.currentTimeMillis();
        for (ConsumerRecord<byte[], byte[]> r : batch) {
          late = n == late.length ? Arrays.copyOf(late, 2 * n) : late;
          late[n++] = now - r.timestamp();
          Long before = last.put(r.partition(), now);
          silence = Math.max(silence, before == null ? 0 : now - before);
        }
      }
      for (long before : last.values()) { // a partition that is silent to the end
        silence = Math.max(silence, System.currentTimeMillis() - before);
      }
      Arrays.sort(late, 0, n);
      say(
          "read=%d p50=%d p99=%d silence=%d",
          n, n == 0 ? 0 : late[n / 2], n == 0 ? 0 : late[n - 1 - n / 100], silence);
    }
  }
}
