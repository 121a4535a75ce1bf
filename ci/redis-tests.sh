#!/usr/bin/env bash
# Redis's own tests in Tcl against `ensile serve`: each failure must be in the list of ci/redis-tests.txt, with a reason.
#   bash ci/redis-tests.sh FOLDER [FILE..]   FOLDER has the sources of redis 7.0.15; FILE is such as unit/type/hash
# One loop serves, so that woken clients take elements in their order.
# The sources stay outside of the tree. Needs tclsh. ENSILE_TESTED is the tool to run, without a build.
# The tests run on a copy whose client leaves out settings of sizes of redis' encodings, which this server does not have.
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
    printf 'redis-tests: %s\n' "$*" >&2
    exit 1
}

sources=${1:?usage: redis-tests.sh FOLDER [FILE..]}
shift
[ -x "$sources/runtest" ] || die "$sources has no runtest: give the folder of redis' sources"
grep -q '"7\.0\.15"' "$sources/src/version.h" || die "$sources is not redis 7.0.15"
command -v tclsh >/dev/null || die "no tclsh: install tcl"
files=("$@")
if [ ${#files[@]} = 0 ]; then
    mapfile -t files < <(grep -o '^unit/[^ ]*' ci/redis-tests.txt | sort -u)
fi
if [ -z "${ENSILE_TESTED:-}" ]; then
    cargo build --package ensile-cli
    ENSILE_TESTED=${CARGO_TARGET_DIR:-target}/debug/ensile
fi

folder=$(mktemp -d)
"$ENSILE_TESTED" serve --data "$folder/data" --port 0 --appendonly no --loops 1 >"$folder/address" 2>"$folder/log" &
server=$!
trap 'kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
for _ in $(seq 300); do
    if [ -s "$folder/address" ]; then break; fi
    kill -0 "$server" 2>/dev/null || die "the server has ended: $(tail -n 3 "$folder/log")"
    sleep 0.1
done
port=$(grep -o '[0-9]*$' "$folder/address")

cp -r "$sources/tests" "$sources/runtest" "$folder"
mkdir "$folder/src"
cp "$sources/src/version.h" "$folder/src"
for tool in redis-server redis-cli redis-benchmark; do ln -s "$(command -v true)" "$folder/src/$tool"; done
cat >>"$folder/tests/support/util.tcl" <<'TCL'
# Settings that the tests change and that the server does not have.
set ::left_out {save *-max-listpack-* *-max-ziplist-* set-max-intset-entries list-compress-depth proto-max-bulk-len client-query-buffer-limit sanitize-dump-payload stream-node-max-entries}
# The tests show the memory of values, and check nothing of it.
proc memory_usage {key} { return 1 }
proc is_left_out {words} {
    lassign $words command subcommand name
    if {![string equal -nocase $command config]} { return 0 }
    foreach pattern $::left_out {
        if {[string match $pattern $name]} { return 1 }
    }
    return 0
}
TCL
sed -i 's/^proc r {args} {$/&\n    if {[is_left_out $args]} { return [expr {[lindex $args 1] eq "get" ? [list [lindex $args 2] 64] : "OK"}] }/' \
    "$folder/tests/test_helper.tcl"

status=0
for file in "${files[@]}"; do
    (cd "$folder" && tclsh tests/test_helper.tcl --host 127.0.0.1 --port "$port" --single "$file" --tags -needs:debug \
        --ignore-encoding --durable --timeout 600) 2>&1 | sed 's/\x1b\[[0-9;]*m//g' >"$folder/output" || true
    passed=$(grep -c '\[ok\]' "$folder/output" || true)
    # A name is told once as it fails.
    grep -a '\[err\]\|\[exception\]' "$folder/output" \
        | sed 's/^\*\*\* //; s/^\[err\]: //; s/^\[exception\]: //; s/ in tests\/unit.*//' | sort -u >"$folder/failed" || true
    grep -a "^$file " ci/redis-tests.txt | sed "s|^$file ||; s/ | .*//" | sort -u >"$folder/listed" || true
    printf '%s: %s passed, %s failed, %s of these are listed\n' "$file" "$passed" "$(wc -l <"$folder/failed")" \
        "$(comm -12 "$folder/failed" "$folder/listed" | wc -l)"
    if [ "$passed" = 0 ]; then
        tail -n 20 "$folder/output"
        die "$file: no test has passed"
    fi
    if comm -23 "$folder/failed" "$folder/listed" | grep .; then
        grep -a -A3 '\[err\]\|\[exception\]' "$folder/output" | head -n 60
        printf '%s: these failures are not in ci/redis-tests.txt\n' "$file"
        status=1
    fi
    if comm -13 "$folder/failed" "$folder/listed" | grep .; then
        printf '%s: these tests do not fail any more: take them out of ci/redis-tests.txt\n' "$file"
        status=1
    fi
done
exit "$status"
