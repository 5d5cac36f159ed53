#!/usr/bin/env bash
# What others read and write a cluster of kafka.sh with, for the tests: a schema registry
# (Apicurio, from Maven Central), Confluent's Python client in an environment of its own (from
# PyPI), and the class path of a Kafka Connect worker. Everything is in the folder of kafka.sh.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
registry=io.apicurio:apicurio-registry-app:2.6.13.Final # 3 needs Java 21
python_client='confluent-kafka[avro,schemaregistry]==2.16.0'
patience_s=120 # the registry takes 10 s to start, and more on a loaded machine

usage() {
  cat << END
usage: clients.sh up | down --dir DIR

  up    install the clients, start the registry and wait until it answers
  down  stop the registry

DIR is that of kafka.sh. It gets
  DIR/registry/url        address of the registry's API
  DIR/venv/bin/python     Python with confluent_kafka
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
  "$dir/venv.new/bin/pip" install -q "$python_client" > "$dir/venv.log" 2>&1 || {
    tail -n 5 "$dir/venv.log" >&2
    fail "pip could not install $python_client; it needs PyPI (or PIP_INDEX_URL)"
  }
  mv "$dir/venv.new" "$dir/venv"
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
  alive && return
  rm -rf "$dir/registry"
  mkdir "$dir/registry"
  maven org.apache.maven.plugins:maven-dependency-plugin:3.6.1:get -Dartifact="$registry:tar.gz:all" -Dtransitive=false
  maven org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy -Dartifact="$registry:tar.gz:all" \
    -DoutputDirectory="$dir/registry" -Dmdep.stripVersion=true
  tar -xzf "$dir/registry"/*.tar.gz -C "$dir/registry"
  rm "$dir/registry"/*.tar.gz
  until port=$((20000 + (RANDOM << 15 | RANDOM) % 10000)) && ! (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null; do :; done
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
