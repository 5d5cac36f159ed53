#!/usr/bin/env bash
# Makes all files of a release below bin/release: programs for Linux, macOS and Windows, Debian and
# RPM packages, lists of the modules in each program (SBOM), an image for amd64 and arm64 as an OCI
# archive, the Helm chart, and checksums. It publishes and signs nothing. It needs Go, git and tar;
# it builds the other tools from their sources, in some ten minutes the first time.
#
#   git tag v1.2.3 && make release
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
: "${VERSION:?run make release}"
case $VERSION in
*-dirty) echo "commit your changes first: a release is made of a commit" >&2 && exit 1 ;;
esac
export VERSION=${VERSION#v} REVISION COMMITTED
REVISION=$(git rev-parse HEAD)
COMMITTED=$(git show -s --format=%ct)
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null || true; rm -rf "$dir"' EXIT

tool() { GOBIN=$dir $GO install "$1"; }
tool github.com/goreleaser/goreleaser/v2@v2.13.0
tool github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
tool github.com/google/go-containerregistry/cmd/crane@v0.22.1
tool helm.sh/helm/v3/cmd/helm@v3.19.2

# The version comes from the Makefile, with a tag or without one. So goreleaser calls it a snapshot.
PATH=$dir:$PATH goreleaser release --snapshot --clean
out=bin/release

# An image is files in layers, and a config. A registry of the process's own holds it while it is
# put together; nothing leaves the machine.
"$dir/crane" registry serve --address 127.0.0.1:0 > "$dir/registry" 2>&1 &
for _ in {1..100}; do
  port=$(grep -oE '[0-9]+$' "$dir/registry") && break
  sleep 0.1
done
image=127.0.0.1:${port:?the registry did not start}/geodither
each=()
for arch in amd64 arm64; do
  root=$dir/$arch
  mkdir -p "$root"/{usr/local/bin,usr/share/geodither,var/lib/geodither,tmp}
  cp "$out/geodither_linux_$arch"*/geodither "$root/usr/local/bin"
  cp -r cmd/internal/fleet/sample "$root/usr/share/geodither/sample"
  # This machine's certificate authorities, for brokers and registries with public certificates.
  if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
    mkdir -p "$root/etc/ssl/certs"
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs"
  fi
  tar -C "$root" --sort=name --mtime="@$COMMITTED" --owner=65532 --group=65532 --mode=go-w -cf "$dir/$arch.tar" .
  "$dir/crane" append --oci-empty-base --platform "linux/$arch" -f "$dir/$arch.tar" -t "$image:$arch" 2> /dev/null
  "$dir/crane" mutate "$image:$arch" --set-platform "linux/$arch" --user 65532:65532 \
    --workdir /var/lib/geodither --entrypoint /usr/local/bin/geodither --cmd --help \
    --label "org.opencontainers.image.version=$VERSION" \
    --label "org.opencontainers.image.revision=$REVISION" \
    --label org.opencontainers.image.licenses=Apache-2.0 -t "$image:$arch" > /dev/null
  each+=(-m "$image:$arch")
done
"$dir/crane" index append "${each[@]}" -t "$image:$VERSION" > /dev/null
"$dir/crane" pull --format oci "$image:$VERSION" "$dir/oci"
tar -C "$dir/oci" --sort=name --mtime="@$COMMITTED" --owner=0 --group=0 -cf "$out/geodither_${VERSION}_image.tar" .

"$dir/helm" package deploy/helm/geodither --version "$VERSION" \
  --app-version "$VERSION" --destination "$out" > /dev/null
# Files alone: goreleaser leaves folders of programs there, some with a dot in their names.
(cd "$out" && find geodither[_-]*.* -maxdepth 0 -type f -exec sha256sum {} + > checksums.txt &&
  cat checksums.txt)
