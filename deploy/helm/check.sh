#!/usr/bin/env bash
# Checks the chart: it renders with every example, Kubernetes takes what it renders, geodither takes
# the config in it, and what is missing or misspelt has an error that names it.
#
#   deploy/helm/check.sh
#
# It needs Go, and Python for the schemas of Kubernetes, which it installs into a folder of its own.
set -euo pipefail
cd "$(dirname "$0")"
GO=${GO:-go}
kubernetes=1.33
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

if command -v helm > "$dir/which"; then
  helm=$(cat "$dir/which")
else
  helm=$dir/helm
  GOBIN=$dir $GO install helm.sh/helm/v3/cmd/helm@v3.19.2
fi
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check kubernetes-validate==1.33.1 pyyaml
(cd ../.. && $GO build -o "$dir/geodither" ./cmd/geodither)

render() {
  "$helm" template geodither geodither --kube-version "$kubernetes" "$@"
}

for example in examples/*.yaml; do
  "$helm" lint --strict --quiet --kube-version "$kubernetes" geodither -f "$example"
  render -f "$example" > "$dir/out.yaml"
  "$dir/venv/bin/python" - "$dir/out.yaml" "$dir" "$kubernetes" << 'PYTHON'
import sys
import kubernetes_validate
import yaml

rendered, folder, version = sys.argv[1:]
kinds = []
for document in yaml.safe_load_all(open(rendered)):
    if document is None:
        continue
    kinds.append(document["kind"])
    group = document["apiVersion"].split("/")[0]
    if not (group.startswith("monitoring.") or group.startswith("kafka.")):  # of operators
        kubernetes_validate.validate(document, version, strict=True)
    if document["kind"] == "ConfigMap":
        open(f"{folder}/geodither.yml", "w").write(document["data"]["geodither.yml"])
    if document["kind"] == "PrometheusRule":
        yaml.safe_dump(document["spec"], open(f"{folder}/rules.yml", "w"))
    if document["kind"] == "KafkaUser":
        yaml.safe_dump(document, open(f"{folder}/user.yml", "w"))
for kind in "ConfigMap", "StatefulSet", "Service", "Pod":
    assert kind in kinds, f"{rendered} has no {kind}"
print(" ".join(sorted(kinds)))
PYTHON
  # What the cluster gives at run time.
  env POD_NAME=geodither-0 KAFKA_USERNAME=u KAFKA_PASSWORD=p \
    "$dir/geodither" config lint -c "$dir/geodither.yml"
  if [ -e "$dir/user.yml" ]; then # it has the rights that geodither says
    env POD_NAME=geodither-0 "$dir/geodither" topics acls -c "$dir/geodither.yml" \
      --principal User:geodither --strimzi fleet > "$dir/rights.yml"
    "$dir/venv/bin/python" - "$dir/user.yml" "$dir/rights.yml" << 'PYTHON'
import sys
import yaml


def rights(path):
    return {
        (*sorted(acl["resource"].items()), operation)
        for acl in yaml.safe_load(open(path))["spec"]["authorization"]["acls"]
        for operation in acl["operations"]
        if operation != "Describe"  # the others imply it
    }


has, needs = map(rights, sys.argv[1:])
assert has == needs, f"rights: {has ^ needs}"
PYTHON
  fi
  if [ -e "$dir/rules.yml" ] && command -v promtool > /dev/null; then
    promtool check rules "$dir/rules.yml"
  fi
done

# refused WORDS ARGUMENTS...: rendering must fail, and name the cause.
refused() {
  local words=$1
  shift
  if render "$@" > "$dir/out.yaml" 2> "$dir/error"; then
    echo "rendered, but should have been refused: $*" >&2
    exit 1
  fi
  grep -q -- "$words" "$dir/error" || { cat "$dir/error" >&2; exit 1; }
}

refused 'config: set the config of the service' --set model.volume.emptyDir.medium=,noiseKey.existingSecret=k,image.repository=i
refused 'model.volume: name the volume' -f examples/local.yaml --set model.volume=null
refused 'noiseKey.existingSecret: name the secret' -f examples/local.yaml --set noiseKey.existingSecret=
refused 'config.model: leave it out' -f examples/local.yaml --set config.model=m
refused 'strimzi.cluster: name the Kafka' -f examples/strimzi.yaml --set strimzi.cluster=
refused 'strimzi.enabled: leave it out' -f examples/strimzi.yaml --set 'command=counts serve'
refused 'runFlags: leave them out' -f examples/counts.yaml --set 'runFlags={--accept=lost-account}'
refused 'command' -f examples/local.yaml --set command=sanitize
refused "replica" -f examples/local.yaml --set replica=3
refused 'http.port\|/http/port' -f examples/local.yaml --set http.port=80

echo "the chart is right"
