#!/usr/bin/env bash
# Builds the binary of a release twice, from copies of the last commit in two folders, and fails if
# the bytes differ. The second build begins without the go command's cache. "make build" has the
# flags of a release; the copies are outside the repository, so version and commit are passed.
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
version=$(git describe --tags --match 'v[0-9]*' --always)
revision=$(git rev-parse HEAD)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
build() {
  mkdir -p "$dir/$1"
  git archive HEAD | tar -x -C "$dir/$1"
  CGO_ENABLED=0 make -s -C "$dir/$1" build GO="$GO" VERSION="$version" REVISION="$revision" >&2
  sha256sum < "$dir/$1/bin/geodither" | cut -d ' ' -f 1
}
build one
GOCACHE=$dir/cache build another/below
cmp "$dir/one/bin/geodither" "$dir/another/below/bin/geodither"
echo "both builds are the same bytes: $("$dir/one/bin/geodither" version)"
