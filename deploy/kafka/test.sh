#!/usr/bin/env bash
# What must hold on a real Apache Kafka: "make test-kafka" runs this. It starts a
# cluster of three nodes in a folder of its own and always brings it down. The
# tests find it by
#   GEODITHER_BROKERS     host:port,... of the nodes
#   GEODITHER_KAFKA_DIR   kafka.sh --dir, for tests that kill and freeze nodes, for the
#                         listeners with TLS, and for what clients.sh installs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

go=${GO:-go}

# need COMMAND PACKAGE: installs Debian's package unless the command is there.
need() {
  command -v "$1" > /dev/null && return
  if ! command -v apt-get > /dev/null; then
    echo "test-kafka: no $1 here, and no apt-get to install it with: install $2" >&2
    exit 1
  fi
  if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$2" > /dev/null; }; then
    echo "test-kafka: apt-get could not install $2; install it by hand (Debian: sudo apt-get install $2)" >&2
    exit 1
  fi
}

# kcat is librdkafka on the command line: the producer whose default partitioner is not
# Java's. Prometheus scrapes an instance, and promtool checks the alert rules. PostgreSQL takes
# records from Kafka Connect; the tests run a server of their own.
need kcat kcat
need promtool prometheus
need pg_ctlcluster postgresql

# Confluent's Python client gets an environment of its own.
if ! python3 -c 'import ensurepip, venv' 2> /dev/null; then
  if ! command -v apt-get > /dev/null; then
    echo "test-kafka: no Python 3 with venv here, and no apt-get to install it with" >&2
    exit 1
  fi
  if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv > /dev/null; }; then
    echo "test-kafka: apt-get could not install python3-venv; install it by hand (Debian: sudo apt-get install python3-venv)" >&2
    exit 1
  fi
fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/geodither-test-kafka-XXXXXX")

finish() {
  local code=$?
  trap - EXIT
  deploy/kafka/clients.sh down --dir "$dir" || code=1
  deploy/kafka/kafka.sh down --dir "$dir" > /dev/null || code=1
  if [ "$code" -eq 0 ]; then
    rm -rf "$dir"
  else
    echo "test-kafka: failed; the brokers' logs are in $dir/node-*/log, the registry's is $dir/registry/log" >&2
  fi
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

# step NAME COMMAND... prints how long it took.
step() {
  local name=$1 began=$SECONDS
  shift
  echo "--- $name"
  "$@"
  echo "--- $name: $((SECONDS - began)) s"
}

# tests runs go test, and fails if there was nothing to run: a name or a build tag
# may have changed.
tests() {
  "$go" test -count=1 "$@" | tee "$dir/tests.log"
  if grep -E 'no tests to run|no test files' "$dir/tests.log" > /dev/null; then
    echo "test-kafka: no such tests: $*" >&2
    return 1
  fi
}

step "three nodes" deploy/kafka/kafka.sh up --nodes 3 --secure --dir "$dir"
GEODITHER_BROKERS=$(cat "$dir/brokers")
export GEODITHER_BROKERS GEODITHER_KAFKA_DIR=$dir

step "a schema registry, a database, Confluent's client, DuckDB, Kafka Connect" deploy/kafka/clients.sh up --dir "$dir"
step "transactions, fetches, brokers" tests -tags kafka -parallel 4 -timeout 15m -skip '^Test(Chaos|Soak)$' ./cmd/internal/kafkatest
step "killed service" tests -timeout 10m -run TestKilled ./cmd/geodither
step "groups" tests -timeout 10m ./consumer ./consumer/admin ./consumer/group
deploy/kafka/kafka.sh down --dir "$dir" > /dev/null # chaos has a cluster of its own
step "chaos" tests -tags kafka -timeout 30m -v -run '^TestChaos$' ./cmd/internal/kafkatest -args --records 100000 --faults 20 \
  --duration 240s
