#!/usr/bin/env bash
# Planted bugs as patches: each file of `planted/` is a bug that somebody could write. Its head names the condition that it
# breaks, the command that must fail with it, and what that shows. The tree is copied, and each patch is applied to the copy,
# seen to fail, and taken back; without it the same command must pass.
# `bash ci/planted.sh` runs all; `bash ci/planted.sh NAME..` those whose file names contain a NAME;
# `bash ci/planted.sh --rotate N` the N that today's turn has.
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
    printf 'patches: %s\n' "$*" >&2
    exit 2
}

mapfile -t all < <(find planted -name '*.patch' | sort)
[ ${#all[@]} -gt 0 ] || die "there is no patch in planted/"

chosen=()
if [ "${1:-}" = --rotate ]; then
    [[ "${2:-}" =~ ^[1-9][0-9]*$ ]] || die "usage: --rotate N"
    day=$(($(date +%s) / 86400))
    for ((turn = 0; turn < $2 && turn < ${#all[@]}; turn++)); do
        chosen+=("${all[$(((day * $2 + turn) % ${#all[@]}))]}")
    done
elif [ $# -gt 0 ]; then
    for name in "$@"; do
        for patch in "${all[@]}"; do
            [[ "$patch" != *"$name"* ]] || chosen+=("$patch")
        done
    done
    [ ${#chosen[@]} -gt 0 ] || die "no patch is called $*"
else
    chosen=("${all[@]}")
fi

target="$(realpath -m "${CARGO_TARGET_DIR:-target}")/patches"
copy="$target/tree"
mkdir -p "$target"
rm -rf "$copy"
mkdir "$copy"
# Times are kept, so that only what a patch touches is built again.
git ls-files -z --cached --others --exclude-standard |
    { grep -zZv '^planted/' || true; } | xargs -0 cp --parents --preserve=timestamps --target-directory "$copy"
export CARGO_TARGET_DIR="$target" CARGO_INCREMENTAL=0 CARGO_PROFILE_TEST_DEBUG=0 RUST_BACKTRACE=0
said="$(mktemp)"
trap 'rm -f "$said"' EXIT

# field NAME PATCH: a line of its head.
field() {
    sed -n "/^diff --git/q; s/^$1: //p" "$2" | head -n 1
}

# command COMMAND: runs it in the copy. A hanging test is a failing one.
command_in_copy() {
    (cd "$copy" && timeout 600 bash -c "$1") >"$said" 2>&1
}

has_run() {
    grep --quiet --extended-regexp '^test result: ok\. [1-9][0-9]* passed' "$said"
}

# All that must pass without a bug first: so a plant costs one build, and not a second one behind it.
declare -A passes
for patch in "${chosen[@]}"; do
    name="$(basename "$patch" .patch)"
    seen_by="$(field 'Seen by' "$patch")"
    [ -n "$(field Condition "$patch")" ] && [ -n "$seen_by" ] && [ -n "$(field Expect "$patch")" ] ||
        die "$patch: its head needs the lines 'Condition: ', 'Seen by: ' and 'Expect: '"
    [ -z "${passes[$seen_by]:-}" ] || continue
    if ! command_in_copy "$seen_by" || ! has_run; then
        tail -n 30 "$said" >&2
        die "$name: without it, '$seen_by' fails, or runs no test"
    fi
    passes[$seen_by]=yes
done

failed=0
echo '| bug | condition | seen by | seconds |'
echo '|---|---|---|---|'
for patch in "${chosen[@]}"; do
    name="$(basename "$patch" .patch)"
    condition="$(field Condition "$patch")"
    seen_by="$(field 'Seen by' "$patch")"
    patch --quiet --directory "$copy" --strip 1 --no-backup-if-mismatch <"$patch" || die "$patch does not apply"
    begin=$SECONDS
    outcome=0
    command_in_copy "$seen_by" || outcome=$?
    # A test must fail, end the process, or hang: not a build, and not nothing.
    if [ "$outcome" = 124 ] || grep --quiet --extended-regexp '^test result: FAILED|\(signal: [0-9]+' "$said"; then
        echo "| $name | $condition | \`$seen_by\` | $((SECONDS - begin)) |"
    else
        tail -n 30 "$said" >&2
        echo "$name: not seen by '$seen_by' (status $outcome)" >&2
        failed=1
    fi
    patch --quiet --directory "$copy" --strip 1 --reverse --no-backup-if-mismatch <"$patch"
done
exit $failed
