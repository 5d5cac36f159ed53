#!/usr/bin/env bash
# What others read and write a cluster of kafka.sh with, for the tests: a schema registry
# (Apicurio, from Maven Central), Confluent's Python client and DuckDB in an environment of their
# own (from PyPI), the class path of a Kafka Connect worker with Debezium's sink for databases and
# Apicurio's converters, and a PostgreSQL of its own (the programs are Debian's). Everything is in
# the folder of kafka.sh, but the database's files: its server does not run as root, who may own
# that folder.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
registry=io.apicurio:apicurio-registry-app:2.6.13.Final # 3 needs Java 21
python_packages=('confluent-kafka[avro,schemaregistry]==2.16.0' 'duckdb==2.0.0' 'pytz==2025.2')
patience_s=120 # the registry takes 10 s to start, and more on a loaded machine

usage() {
  cat << END
usage: clients.sh up | down --dir DIR

  up    install the clients, start the registry and the database and wait until they answer
  down  stop the registry and the database

DIR is that of kafka.sh. It gets
  DIR/registry/url        address of the registry's API
  DIR/postgres/url        address of the database, with its user and password
  DIR/venv/bin/python     Python with confluent_kafka and duckdb
  DIR/connect.classpath   of org.apache.kafka.connect.cli.ConnectStandalone
END
}

fail() {
  echo "clients.sh: $*" >&2
  exit 1
}

# maven runs quietly, and shows the end of what it says if it fails.
maven() {
  local out
  out=$(mvn -B -q "$@" 2>&1) || {
    tail -n 15 <<< "$out" >&2
    fail "Maven could not get $registry and Kafka Connect; it needs Maven Central (or a mirror in ~/.m2/settings.xml)"
  }
}

python() {
  [ ! -x "$dir/venv/bin/python" ] || return 0
  python3 -m venv "$dir/venv.new" > "$dir/venv.log" 2>&1 ||
    fail "python3 -m venv does not work; install Python 3 with venv (Debian: apt-get install python3-venv)"
  "$dir/venv.new/bin/pip" install -q "${python_packages[@]}" > "$dir/venv.log" 2>&1 || {
    tail -n 5 "$dir/venv.log" >&2
    fail "pip could not install ${python_packages[*]}; it needs PyPI (or PIP_INDEX_URL)"
  }
  mv "$dir/venv.new" "$dir/venv"
}

free_port() {
  local port
  until port=$((20000 + (RANDOM << 15 | RANDOM) % 10000)) && ! (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null; do :; done
  echo "$port"
}

# database runs a program of PostgreSQL, which refuses to be root's.
database() {
  local bin
  bin=$(ls -d /usr/lib/postgresql/*/bin 2> /dev/null | sort -V | tail -n 1) || true
  bin=${bin:-$(dirname "$(command -v pg_ctl || echo none)")}
  if [ "$(id -u)" -eq 0 ]; then
    (cd / && runuser -u postgres -- "$bin/$1" "${@:2}")
  else
    "$bin/$1" "${@:2}"
  fi
}

postgres() {
  local data port password
  [ ! -e "$dir/postgres/url" ] || return 0
  data=$(mktemp -d "${TMPDIR:-/tmp}/geodither-postgres-XXXXXX")
  mkdir -p "$dir/postgres"
  echo "$data" > "$dir/postgres/data"
  password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  (umask 077 && echo "$password" > "$data/password")
  if [ "$(id -u)" -eq 0 ]; then chown -R postgres "$data"; fi
  port=$(free_port)
  if ! { database initdb -D "$data/cluster" -U fleet --pwfile="$data/password" -A scram-sha-256 -E UTF8 --locale=C -N &&
    database pg_ctl -D "$data/cluster" -l "$data/log" -w -t "$patience_s" start \
      -o "-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories=$data -c fsync=off"; } \
    > "$dir/postgres/log" 2>&1; then
    tail -n 15 "$dir/postgres/log" >&2
    down
    fail "PostgreSQL did not start (Debian: apt-get install postgresql)"
  fi
  (umask 077 && echo "postgresql://fleet:$password@127.0.0.1:$port/postgres" > "$dir/postgres/url")
  echo "a PostgreSQL is up: 127.0.0.1:$port (log in $data/log)"
}

answers() { (exec 3<> "/dev/tcp/127.0.0.1/$1" && printf 'GET /apis/ccompat/v7/subjects HTTP/1.0\r\n\r\n' >&3 &&
  head -n 1 <&3 | grep -q ' 200 ') 2> /dev/null; }

alive() { kill -0 "$(cat "$dir/registry/pid" 2> /dev/null)" 2> /dev/null; }

up() {
  local port deadline java=${JAVA_HOME:+$JAVA_HOME/bin/}java
  [ -d "$dir" ] || fail "no folder $dir; start a cluster in it first (kafka.sh up --dir $dir)"
  python
  [ -e "$dir/connect.classpath" ] || maven -f "$here/pom.xml" -Pconnect dependency:build-classpath \
    -DincludeScope=runtime -Dmdep.outputFile="$dir/connect.classpath"
  postgres
  alive && return
  rm -rf "$dir/registry"
  mkdir "$dir/registry"
  maven org.apache.maven.plugins:maven-dependency-plugin:3.6.1:get -Dartifact="$registry:tar.gz:all" -Dtransitive=false
  maven org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy -Dartifact="$registry:tar.gz:all" \
    -DoutputDirectory="$dir/registry" -Dmdep.stripVersion=true
  tar -xzf "$dir/registry"/*.tar.gz -C "$dir/registry"
  rm "$dir/registry"/*.tar.gz
  port=$(free_port)
  (
    trap '' INT HUP
    "$java" -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dquarkus.http.host=127.0.0.1 \
      -Dquarkus.http.port="$port" -jar "$dir"/registry/*-runner.jar > "$dir/registry/log" 2>&1 < /dev/null &
    echo $! > "$dir/registry/pid"
  )
  deadline=$((SECONDS + patience_s))
  until answers "$port"; do
    if ! alive || ((SECONDS > deadline)); then
      tail -n 15 "$dir/registry/log" >&2
      down
      fail "the registry did not start"
    fi
    sleep 0.5
  done
  echo "http://127.0.0.1:$port/apis/ccompat/v7" > "$dir/registry/url"
  echo "a schema registry is up: $(cat "$dir/registry/url") (log in $dir/registry/log)"
}

down() {
  if alive; then kill -KILL "$(cat "$dir/registry/pid")"; fi
  rm -f "$dir/registry/pid" "$dir/registry/url"
  local data
  data=$(cat "$dir/postgres/data" 2> /dev/null) || return 0
  if [ -e "$data/cluster/postmaster.pid" ]; then
    database pg_ctl -D "$data/cluster" -m immediate -w stop > /dev/null
  fi
  rm -rf "$data" "$dir/postgres"
}

dir=
command=${1-}
case ${2-} in
  --dir) dir=${3-} ;;
  --dir=*) dir=${2#*=} ;;
esac
case $command in
  up | down)
    if [ -z "$dir" ]; then usage >&2; exit 2; fi
    [ ! -d "$dir" ] || dir=$(cd "$dir" && pwd)
    "$command"
    ;;
  help | -h | --help) usage ;;
  *) usage >&2; exit 2 ;;
esac
