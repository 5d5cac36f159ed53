#!/bin/sh
# Checks the types of the page's sources and builds them into one file, site/app.js beside this one,
# with npm and the versions of package-lock.json. What npm installs stays in bin/page of the
# repository.
set -eu
page=$(cd "$(dirname "$0")" && pwd)
out=${1:-$page/site/app.js}
root=$(cd "$page/../../../.." && pwd)
tools=$root/bin/page
mkdir -p "$tools"
cp "$page/package.json" "$page/package-lock.json" "$tools/"
if ! cmp -s "$page/package-lock.json" "$tools/node_modules/.installed"; then
	(cd "$tools" && npm ci --silent --ignore-scripts --no-audit --no-fund)
	cp "$page/package-lock.json" "$tools/node_modules/.installed"
fi
"$tools/node_modules/.bin/tsc" -p "$page/tsconfig.json"
"$tools/node_modules/.bin/esbuild" "$page/src/main.ts" --bundle --minify --target=es2022 --format=esm \
	--charset=utf8 --legal-comments=none --log-level=warning --outfile="$out"
