#!/bin/sh
# Tests the page in a real browser: builds it again and compares it with what is committed, starts
# geodither explore, and drives Chromium through every view. With SHOTS=FOLDER pictures of the views
# are written there, and with PICTURES=1 those of the README into .github. ONLY=PATTERN runs the
# tests with such names. With MEASURE=1 it measures a map of a million cells with 10,000 users
# instead, and prints a report; that takes some minutes and 4 GB of memory. Needs npm; Chromium is
# installed if it is missing and there is apt-get.
set -eu
page=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$page/../../../.." && pwd)
if ! command -v chromium > /dev/null && command -v apt-get > /dev/null; then
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends chromium > /dev/null
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$page/build.sh" "$dir/app.js"
if ! cmp "$page/site/app.js" "$dir/app.js"; then
	echo "page/site/app.js is not what its sources give: run \"make page\" and commit it" >&2
	exit 1
fi
(cd "$root" && ${GO:-go} build -o "$dir/geodither" ./cmd/geodither)
# Imports are looked up beside the file, so the test goes where npm put the driver.
cp "$page/page.test.mjs" "$page/measure.mjs" "$root/bin/page/"
if [ -n "${MEASURE:-}" ]; then
	CHROMIUM=$(command -v chromium) GEODITHER="$dir/geodither" node "$root/bin/page/measure.mjs" "$dir"
	exit
fi
CHROMIUM=$(command -v chromium) GEODITHER="$dir/geodither" node --test --test-reporter=spec ${ONLY:+--test-name-pattern="$ONLY"} \
	"$root/bin/page/page.test.mjs"
