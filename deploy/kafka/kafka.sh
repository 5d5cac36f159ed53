#!/usr/bin/env bash
# Apache Kafka for development and tests, without Docker: one node or three, each
# broker and controller (KRaft), on free ports of 127.0.0.1, in a temporary folder.
# Nothing in it is meant to last. With --secure there are listeners with TLS and logins
# beside the open one. README.md says more.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${TMPDIR:-/tmp}/geodither-kafka-$UID
nodes=1
secure=
patience_s=120 # a node on a loaded machine takes 10 s

usage() {
  cat << END
usage: kafka.sh COMMAND [--dir DIR] [--nodes 1|3] [--secure]

  up       start a cluster and wait until every node answers
  down     kill every node and delete the data; the logs stay
  status   say how each node is
  kill N   kill -9 node N
  term N   stop node N cleanly (SIGTERM)
  stop N   freeze node N (SIGSTOP)
  cont N   let node N go on (SIGCONT)
  start N  start node N again and wait until it answers

DIR is $dir unless given. It gets
  DIR/brokers                    host:port,... for clients
  DIR/node-N/log/server.log      the log of node N
  DIR/node-N/server.properties   its settings
  DIR/node-N/{pid,port}
and with --secure, which makes new certificates (openssl),
  DIR/brokers-sasl               listeners with TLS and a login: user geodither, password
                                 in DIR/tls/password, by PLAIN, SCRAM-SHA-256 or -512; or
                                 OAUTHBEARER with a token that nobody signed. A session lasts
                                 $session_ms ms, by SCRAM-SHA-256 $long_session_ms ms
  DIR/brokers-ssl                listeners that want a client certificate
  DIR/tls/{ca,client,other}.crt  the authority and two clients, their keys beside them
There nobody may do anything without an ACL. Clients of DIR/brokers are super users.
Node 1 is in rack a, 2 in b, 3 in c.
END
}

session_ms=4000
long_session_ms=20000

fail() {
  echo "kafka.sh: $*" >&2
  exit 1
}

# alive N: node N has a process, frozen or not. A process that has taken over the
# number of a dead one is not it.
alive() {
  local pid args
  pid=$(cat "$dir/node-$1/pid" 2> /dev/null) || return 1
  if [ -d /proc/self ]; then
    args=$(tr '\0' ' ' 2> /dev/null < "/proc/$pid/cmdline") || return 1
  else
    args=$(ps -o args= -p "$pid") || return 1
  fi
  case $args in *" $dir/node-$1/server.properties"*) ;; *) return 1 ;; esac
}

frozen() {
  case $(ps -o stat= -p "$(cat "$dir/node-$1/pid")" 2> /dev/null) in T*) ;; *) return 1 ;; esac
}

# send SIGNAL N
send() { kill -s "$1" "$(cat "$dir/node-$2/pid")"; }

# gone N SECONDS: waits until node N has no process.
gone() {
  local tries
  for ((tries = $2 * 20; tries > 0; tries--)); do
    alive "$1" || return 0
    sleep 0.05
  done
  return 1
}

# members prints the numbers of the nodes that the folder has.
members() {
  local path
  for path in "$dir"/node-*/server.properties; do
    [ -e "$path" ] || continue
    path=${path%/server.properties}
    echo "${path##*/node-}"
  done
}

# Network: a request in the protocol itself, since a Java tool would take seconds.

# int32 reads a number from the open connection; a byte of zero is read as "".
int32() {
  local left byte
  number=0
  for ((left = 4; left > 0; left--)); do
    IFS= read -r -t 5 -d '' -n1 byte <&3 || return 1
    number=$((number << 8 | ($(printf '%d' "'$byte") & 255)))
  done
}

# listed PORT prints the node ids in the Metadata (version 4) answer of a broker.
listed() (
  LC_ALL=C
  rack_bytes=2 # null, or one letter
  [ ! -e "$dir/tls" ] || rack_bytes=3
  exec 3<> "/dev/tcp/127.0.0.1/$1" || exit 1
  # size, api key 3, version 4, correlation id, client id "up", no topics, no creating
  printf '\0\0\0\x11\0\x03\0\x04\0\0\0\x01\0\x02up\0\0\0\0\0' >&3
  int32 && int32 && int32 && int32 || exit 1 # size, correlation id, throttle time, brokers
  brokers=$number
  for ((; brokers > 0; brokers--)); do
    int32 || exit 1
    echo "$number"
    for ((bytes = 2 + 9 + 4 + rack_bytes; bytes > 0; bytes--)); do # "127.0.0.1", port, rack
      IFS= read -r -t 5 -d '' -n1 byte <&3 || exit 1
    done
  done
) 2> /dev/null

# answers N [COUNT]: node N lists itself, and at least COUNT nodes.
answers() {
  local ids
  ids=$(listed "$(cat "$dir/node-$1/port")") || return 1
  [ "$(wc -l <<< "$ids")" -ge "${2:-1}" ] && grep -qx "$1" <<< "$ids"
}

# ready N [COUNT] waits for that; a node that died or does not come is a failure
# that shows the end of its log.
ready() {
  local deadline=$((SECONDS + patience_s)) log=$dir/node-$1/log
  until answers "$@"; do
    if ! alive "$1" || ((SECONDS > deadline)); then
      if alive "$1"; then
        echo "kafka.sh: node $1 does not answer after $patience_s s; the end of $log/server.log:" >&2
      else
        echo "kafka.sh: node $1 died; the end of $log/server.log:" >&2
      fi
      tail -n 15 "$log/server.log" "$log/out.log" >&2 || true
      return 1
    fi
    sleep 0.2
  done
}

# Setting up.

java=${JAVA_HOME:+$JAVA_HOME/bin/}java

need() {
  local version
  command -v "$java" > /dev/null ||
    fail "no java here; install OpenJDK 17 or later (Debian: apt-get install openjdk-17-jre-headless); Kafka 4 needs Java 17"
  version=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)
  [ "${version:-0}" -ge 17 ] ||
    fail "$java is version ${version:-unknown}; install OpenJDK 17 or later and set JAVA_HOME; Kafka 4 needs Java 17"
  command -v mvn > /dev/null ||
    fail "no mvn here; install Maven (Debian: apt-get install maven): it fetches Kafka from Maven Central; Kafka 4 needs Java 17"
}

# classpath fills DIR/classpath. The first time on a machine takes a minute.
classpath() {
  local out
  [ -d ~/.m2/repository/org/apache/kafka ] || echo "downloading Apache Kafka from Maven Central, some 100 MB"
  out=$(mvn -B -q -f "$here/pom.xml" dependency:build-classpath \
    -DincludeScope=runtime -Dmdep.outputFile="$dir/classpath.new" 2>&1) || {
    tail -n 15 <<< "$out" >&2
    fail "Maven could not get Apache Kafka; it needs Maven Central (or a mirror in ~/.m2/settings.xml)"
  }
  mv "$dir/classpath.new" "$dir/classpath"
}

# certificates makes an authority, and certificates that it signs, in DIR/tls.
certificates() {
  local name tls=$dir/tls new=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30)
  command -v openssl > /dev/null || fail "no openssl here, which --secure makes certificates with"
  rm -rf "$tls"
  mkdir "$tls"
  {
    openssl req -x509 "${new[@]}" -subj /CN=authority -keyout "$tls/ca.key" -out "$tls/ca.crt"
    for name in broker client other; do
      openssl req -x509 "${new[@]}" -subj "/CN=$name" -addext subjectAltName=IP:127.0.0.1,DNS:localhost \
        -addext basicConstraints=critical,CA:FALSE -CA "$tls/ca.crt" -CAkey "$tls/ca.key" \
        -keyout "$tls/$name.key" -out "$tls/$name.crt"
    done
  } 2> "$tls/openssl.log" || { cat "$tls/openssl.log" >&2; fail "openssl could not make certificates; it has to be version 3"; }
  cat "$tls/broker.key" "$tls/broker.crt" > "$tls/broker.pem"
  head -c 18 /dev/urandom | base64 | tr '+/' '-_' > "$tls/password"
}

# secured N prints the settings of the listeners with TLS.
secured() {
  local modules=org.apache.kafka.common.security listener=listener.name.sasl_ssl racks=_abc
  cat << END
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL
ssl.keystore.type=PEM
ssl.keystore.location=$dir/tls/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location=$dir/tls/ca.crt
listener.name.ssl.ssl.client.auth=required
$listener.ssl.client.auth=requested
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
$listener.plain.sasl.jaas.config=$modules.plain.PlainLoginModule required user_geodither="$(cat "$dir/tls/password")";
$listener.scram-sha-256.sasl.jaas.config=$modules.scram.ScramLoginModule required;
$listener.scram-sha-512.sasl.jaas.config=$modules.scram.ScramLoginModule required;
$listener.oauthbearer.sasl.jaas.config=$modules.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";
$listener.oauthbearer.sasl.server.callback.handler.class=$modules.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler
connections.max.reauth.ms=$session_ms
$listener.scram-sha-256.connections.max.reauth.ms=$long_session_ms
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
broker.rack=${racks:$1:1}
replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector
END
}

# free_ports COUNT prints ports that nobody listens on, below those that outgoing
# connections get: a killed node must find its own again.
free_ports() {
  local port found=' '
  until [ "$(wc -w <<< "$found")" -eq "$1" ]; do
    port=$((20000 + (RANDOM << 15 | RANDOM) % 10000))
    case $found in *" $port "*) continue ;; esac
    (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null || found+="$port "
  done
  echo "$found"
}

# properties N PORT CONTROLLER_PORT VOTERS [SASL_PORT SSL_PORT] prints the settings of a node.
properties() {
  local more=''
  [ -z "$secure" ] || more=,SASL_SSL://127.0.0.1:$5,SSL://127.0.0.1:$6
  local replicas=$nodes in_sync=$((nodes > 1 ? 2 : 1))
  cat << END
process.roles=broker,controller
node.id=$1
controller.quorum.voters=$4
listeners=PLAINTEXT://127.0.0.1:$2,CONTROLLER://127.0.0.1:$3$more
advertised.listeners=PLAINTEXT://127.0.0.1:$2$more
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=$dir/node-$1/data

# What is acknowledged survives any one node.
default.replication.factor=$replicas
min.insync.replicas=$in_sync
offsets.topic.replication.factor=$replicas
transaction.state.log.replication.factor=$replicas
transaction.state.log.min.isr=$in_sync
share.coordinator.state.topic.replication.factor=$replicas
share.coordinator.state.topic.min.isr=$in_sync
unclean.leader.election.enable=false
auto.create.topics.enable=false

# Small: several nodes on one machine, and a coordinator loads all its partitions.
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
num.network.threads=2
num.io.threads=4
background.threads=4
log.cleaner.dedupe.buffer.size=33554432

# Failover in seconds, not tens of seconds.
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
controller.quorum.fetch.timeout.ms=2000
controller.quorum.election.timeout.ms=1000
controller.quorum.election.backoff.max.ms=500
replica.lag.time.max.ms=5000
request.timeout.ms=5000
leader.imbalance.check.interval.seconds=10

# What a test would have to wait for. Records with old timestamps stay, unless
# their topic has a retention.ms of its own.
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=500
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
producer.id.expiration.check.interval.ms=500
log.retention.check.interval.ms=1000
log.retention.ms=-1
log.cleaner.backoff.ms=1000
log.segment.delete.delay.ms=1000
END
  [ -z "$secure" ] || secured "$1"
}

# fresh lays out a new cluster of $nodes nodes.
fresh() {
  local n port voters='' brokers='' sasl='' ssl='' pids='' cluster=- ports password user=()
  rm -rf "$dir"/node-* "$dir/tls"
  classpath
  if [ -n "$secure" ]; then
    certificates
    password=$(cat "$dir/tls/password")
    for n in 256 512; do user+=(--add-scram "SCRAM-SHA-$n=[name=geodither,password=$password]"); done
  fi
  read -r -a ports <<< "$(free_ports $((4 * nodes)))"
  for ((n = 1; n <= nodes; n++)); do
    brokers+=${brokers:+,}127.0.0.1:${ports[n - 1]}
    sasl+=${sasl:+,}127.0.0.1:${ports[2 * nodes + n - 1]}
    ssl+=${ssl:+,}127.0.0.1:${ports[3 * nodes + n - 1]}
    voters+=${voters:+,}$n@127.0.0.1:${ports[nodes + n - 1]}
  done
  while [[ $cluster == -* ]]; do # a leading minus would be taken for a flag
    cluster=$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=\n')
  done
  for ((n = 1; n <= nodes; n++)); do
    port=${ports[n - 1]}
    mkdir -p "$dir/node-$n/log"
    echo "$port" > "$dir/node-$n/port"
    properties "$n" "$port" "${ports[nodes + n - 1]}" "$voters" "${ports[2 * nodes + n - 1]}" \
      "${ports[3 * nodes + n - 1]}" > "$dir/node-$n/server.properties"
    run_java "$n" kafka.tools.StorageTool format -t "$cluster" -c "$dir/node-$n/server.properties" "${user[@]}" \
      > "$dir/node-$n/log/format.log" 2>&1 &
    pids+=" $!"
  done
  n=1
  for pid in $pids; do
    wait "$pid" || { tail -n 15 "$dir/node-$n/log/format.log" >&2; fail "cannot format node $n"; }
    n=$((n + 1))
  done
  if [ -n "$secure" ]; then
    echo "$sasl" > "$dir/brokers-sasl"
    echo "$ssl" > "$dir/brokers-ssl"
  fi
  echo "$brokers" > "$dir/brokers.new" # takes its name when all is ready
}

# run_java N CLASS ARGS... becomes Java, with a small heap and the compiler that
# starts fastest.
run_java() {
  local n=$1
  shift
  exec "$java" -Xms128m -Xmx384m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData \
    -Djava.awt.headless=true -Dkafka.logs.dir="$dir/node-$n/log" -Dlog4j2.configurationFile="$here/log4j2.xml" \
    -cp "$(cat "$dir/classpath")" "$@"
}

# launch N starts the process of node N, out of reach of the terminal's Ctrl-C.
launch() {
  local tries
  (
    trap '' INT HUP
    run_java "$1" kafka.Kafka "$dir/node-$1/server.properties" > "$dir/node-$1/log/out.log" 2>&1 < /dev/null &
    echo $! > "$dir/node-$1/pid"
  )
  for ((tries = 100; tries > 0; tries--)); do # it has become Java, or failed to
    ! alive "$1" || return 0
    sleep 0.05
  done
}

# Commands.

up() {
  local n have
  need
  [ -d "$dir" ] || { mkdir -p "$dir" && chmod 700 "$dir"; }
  [ -O "$dir" ] || fail "$dir belongs to somebody else; choose another with --dir"
  dir=$(cd "$dir" && pwd)
  have=$(members | wc -l)
  for n in $(members); do alive "$n" && break; done || have=0
  if [ "$have" -ne 0 ] && [ "$have" -ne "$nodes" ]; then
    fail "a cluster of $have nodes runs in $dir; bring it down first (kafka.sh down), or use another --dir"
  fi
  if [ "$have" -ne 0 ] && [ -n "$secure" ] && [ ! -e "$dir/tls" ]; then
    fail "the cluster in $dir has no secure listeners; bring it down first (kafka.sh down)"
  fi
  # A half-started cluster is of no use to anybody.
  trap 'trap - EXIT; down quietly' EXIT
  trap 'exit 130' INT TERM
  [ "$have" -ne 0 ] || fresh
  for ((n = 1; n <= nodes; n++)); do
    if ! alive "$n"; then launch "$n"; elif frozen "$n"; then send CONT "$n"; fi
  done
  for ((n = 1; n <= nodes; n++)); do
    ready "$n" "$nodes" || fail "the cluster did not start; its logs stay in $dir/node-*/log"
  done
  [ ! -e "$dir/brokers.new" ] || mv "$dir/brokers.new" "$dir/brokers"
  trap - EXIT
  echo "Apache Kafka, $nodes node(s), is up: $(cat "$dir/brokers") (logs in $dir/node-*/log)"
}

down() {
  local n
  for n in $(members); do
    if alive "$n"; then send KILL "$n"; fi
  done
  for n in $(members); do
    gone "$n" 30 || fail "node $n (process $(cat "$dir/node-$n/pid")) does not die"
    rm -rf "$dir/node-$n/data" "$dir/node-$n/pid"
  done
  rm -f "$dir"/brokers*
  [ "${1-}" = quietly ] || echo "Apache Kafka is down (logs in $dir/node-*/log)"
}

status() {
  local n state code=0
  [ -e "$dir/brokers" ] || fail "no cluster in $dir; start one with kafka.sh up"
  for n in $(members); do
    if ! alive "$n"; then
      state=dead
    elif frozen "$n"; then
      state=frozen
    elif answers "$n"; then
      state=ready
    else
      state='running, does not answer yet'
    fi
    [ "$state" = ready ] || code=1
    echo "node $n, 127.0.0.1:$(cat "$dir/node-$n/port"): $state"
  done
  return "$code"
}

# one COMMAND N
one() {
  if [ ! -e "$dir/brokers" ] || [ ! -e "$dir/node-$2/server.properties" ]; then
    fail "no cluster with a node $2 in $dir (kafka.sh status)"
  fi
  if [ "$1" = start ]; then
    ! alive "$2" || fail "node $2 runs already"
    need
    launch "$2"
    ready "$2" || exit 1
    return
  fi
  alive "$2" || fail "node $2 is dead; start it again with kafka.sh start $2"
  case $1 in
    kill)
      send KILL "$2"
      gone "$2" 30 || fail "node $2 does not die"
      ;;
    term)
      send TERM "$2"
      gone "$2" 60 || fail "node $2 did not stop within 60 s; kafka.sh kill $2"
      ;;
    stop) send STOP "$2" ;;
    cont) send CONT "$2" ;;
  esac
}

wrong() {
  echo "kafka.sh: $* (kafka.sh help shows the commands)" >&2
  exit 2
}

command=${1-}
[ $# -eq 0 ] || shift
node=
while [ $# -gt 0 ]; do
  case $1 in
    --dir | --nodes)
      [ $# -gt 1 ] || wrong "$1 needs a value"
      if [ "$1" = --dir ]; then dir=$2; else nodes=$2; fi
      shift
      ;;
    --dir=*) dir=${1#*=} ;;
    --nodes=*) nodes=${1#*=} ;;
    --secure) secure=yes ;;
    [1-9]) node=$1 ;;
    *) wrong "what is $1?" ;;
  esac
  shift
done
case $nodes in 1 | 3) ;; *) wrong "--nodes is 1 or 3" ;; esac
[ -n "$dir" ] || wrong "--dir needs a value"
[ ! -d "$dir" ] || dir=$(cd "$dir" && pwd)

case $command in
  up | down | status)
    [ -z "$node" ] || wrong "$command takes no node"
    "$command"
    ;;
  kill | term | stop | cont | start)
    [ -n "$node" ] || wrong "$command needs the number of a node"
    one "$command" "$node"
    ;;
  help | -h | --help) usage ;;
  *) wrong "which command?" ;;
esac
