#!/usr/bin/env bash
# Builds the binary of a release twice, from copies of the last commit in two folders, and fails if
# the bytes differ. The second build begins without the go command's cache.
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
build() {
  mkdir -p "$dir/$1"
  git archive HEAD | tar -x -C "$dir/$1"
  (cd "$dir/$1" && CGO_ENABLED=0 "$GO" build -trimpath -buildvcs=false -ldflags='-s -w' \
    -o geodither ./cmd/geodither)
  sha256sum < "$dir/$1/geodither" | cut -d ' ' -f 1
}
build one
GOCACHE=$dir/cache build another/below
cmp "$dir/one/geodither" "$dir/another/below/geodither" && echo "both builds are the same bytes"
