#!/usr/bin/env bash
# Builds the binary of a release twice, from copies of the last commit in two folders and without a
# cache, and fails if the bytes differ.
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for copy in one another/below; do
  mkdir -p "$dir/$copy"
  git archive HEAD | tar -x -C "$dir/$copy"
  (cd "$dir/$copy" && CGO_ENABLED=0 GOCACHE="$dir/cache-${copy%%/*}" "$GO" build -trimpath \
    -buildvcs=false -ldflags='-s -w' -o geodither ./cmd/geodither)
  sha256sum < "$dir/$copy/geodither" | cut -d ' ' -f 1
done
cmp "$dir/one/geodither" "$dir/another/below/geodither" && echo "both builds are the same bytes"
