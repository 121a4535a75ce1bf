#!/usr/bin/env bash
# Runs the tests against mutants of the code of commit, log, recovery and store that has changed since BASE, and lists
# the mutants that no test sees.
#   bash ci/mutants.sh BASE [SEED]
# At most 60 mutants are drawn (ENSILE_MUTANTS), by a seed that is printed. Renamed files and moved lines do not count as
# changed. The script takes two hours at most. Run it by hand before a change is done: a mutant that no test sees gets a
# test, or a reason in the message of the change.
set -euo pipefail
cd "$(dirname "$0")/.."

CARGO_MUTANTS_VERSION=27.1.0
MUTANTS_MAX="${ENSILE_MUTANTS:-60}"
PLACES=(crates/ensile-engine/src/commit crates/ensile-durability/src/{files,log,recovery,store}{,.rs})

[ $# -ge 1 ] && [ $# -le 2 ] || {
    echo "usage: bash ci/mutants.sh BASE [SEED]" >&2
    exit 2
}
base="$1"
seed="${2:-$RANDOM}"
git rev-parse --verify --quiet "$base^{commit}" >/dev/null || {
    echo "mutants: $base is no commit of this repository" >&2
    exit 2
}
if [ "$(cargo mutants --version 2>/dev/null)" != "cargo-mutants $CARGO_MUTANTS_VERSION" ]; then
    cargo install cargo-mutants --quiet --locked --debug --version "$CARGO_MUTANTS_VERSION"
fi

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
git diff --find-renames "$base" -- "${PLACES[@]}" >"$folder/diff"
# A removed line that was added elsewhere has moved.
sed -n '/^---/d; s/^-[[:space:]]*//p' "$folder/diff" | grep -v '^$' | LC_ALL=C sort -u >"$folder/removed" || true
cargo mutants --workspace --list --in-diff "$folder/diff" >"$folder/all"
while IFS= read -r mutant; do
    IFS=: read -r file line _ <<<"$mutant"
    sed -n "${line}s/^[[:space:]]*//p" "$file" | grep --quiet --line-regexp --fixed-strings --file="$folder/removed" ||
        printf '%s\n' "$mutant"
done <"$folder/all" >"$folder/changed"
shuf --head-count="$MUTANTS_MAX" --random-source=<(yes "$seed") "$folder/changed" >"$folder/drawn"
printf 'mutants: %d of %d, drawn by seed %s\n' "$(wc -l <"$folder/drawn")" "$(wc -l <"$folder/changed")" "$seed"
[ -s "$folder/drawn" ] || exit 0

# A drawn mutant is selected by its whole name.
arguments=()
while IFS= read -r mutant; do
    arguments+=(--re "^$(sed 's/[][\.*^$+?(){}|/]/\\&/g' <<<"$mutant")\$")
done <"$folder/drawn"
export CARGO_PROFILE_TEST_DEBUG=0 CARGO_PROFILE_DEV_DEBUG=0
timeout 7200 cargo mutants --workspace --in-diff "$folder/diff" "${arguments[@]}" --output target/mutants --no-shuffle
