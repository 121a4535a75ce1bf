#!/usr/bin/env bash
# Planted bugs: each file of `planted/` is a patch that somebody could write by mistake. Its head names the condition that it
# breaks, the command that must fail with it, and what that shows. The tree is copied; each patch is applied to the copy,
# built, seen to fail, and taken back. Without it the same command must pass.
# `bash ci/planted.sh` plants all; `bash ci/planted.sh NAME..` those whose file names contain a NAME;
# `bash ci/planted.sh --rotate N` the N that today's turn has, and which share a build as far as they can.
# `--unasserted`, before these, builds without debug assertions and plants only what the simulation sees: a checker must see
# what an assertion of ours sees. ENSILE_SECONDS (60) is how long the simulation hunts each.
# A bug may show as a test that does not end. How long that is waited for follows from how long the test takes without it.
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
    printf 'planted: %s\n' "$*" >&2
    exit 2
}

# field NAME PATCH: a line of its head.
field() {
    sed -n "/^diff --git/q; s/^$1: //p" "$2" | head -n 1
}

# in_order: the patches that it reads, those that share a build behind each other: by flags, package and test, then by file.
in_order() {
    local patch build
    while read -r patch; do
        build="$(field 'Seen by' "$patch" | sed -E 's/ENSILE_[A-Z]+=[^ ]+ //; s/(--lib|--test [a-z_]+) .*/\1/')"
        printf '%s\t%s\t%s\n' "$build" "$(sed -n 's/^--- a//p' "$patch" | head -n 1)" "$patch"
    done | LC_ALL=C sort | cut -f 3
}

unasserted=
if [ "${1:-}" = --unasserted ]; then
    unasserted=yes
    shift
fi
pattern=''
[ -z "$unasserted" ] || pattern='shuttle_simulation'
mapfile -t all < <(find planted -name '*.patch' -print0 | xargs -0 grep -lE "^Seen by: .*$pattern" | in_order)
[ ${#all[@]} -gt 0 ] || die "there is no patch in planted/"

chosen=()
if [ "${1:-}" = --rotate ]; then
    [[ "${2:-}" =~ ^[1-9][0-9]*$ ]] || die "usage: --rotate N"
    day=$(($(date +%s) / 86400))
    for ((turn = 0; turn < $2 && turn < ${#all[@]}; turn++)); do
        chosen+=("${all[$(((day * $2 + turn) % ${#all[@]}))]}")
    done
elif [ $# -gt 0 ]; then
    for patch in "${all[@]}"; do
        for name in "$@"; do
            [[ "$(basename "$patch")" != *"$name"* ]] || { chosen+=("$patch") && break; }
        done
    done
    [ ${#chosen[@]} -gt 0 ] || die "no patch is called $*"
else
    chosen=("${all[@]}")
fi

target="$(realpath -m "${CARGO_TARGET_DIR:-target}")/planted"
copy="$target/tree"
mkdir -p "$target"
rm -rf "$copy.next"
mkdir "$copy.next"
git ls-files -z --cached --others --exclude-standard |
    { grep -zZv '^planted/' || true; } | xargs -0 cp --parents --preserve=timestamps --target-directory "$copy.next"
# What was built is of the copy before. A file that is the same keeps its time there, and is not built again; one that
# differs is new, whatever its time was.
if [ -d "$copy" ]; then
    { LC_ALL=C diff --recursive --brief --report-identical-files "$copy" "$copy.next" || true; } >"$target/compared"
    sed -n 's/^Files \(.*\) and \(.*\) are identical$/\1\n\2/p' "$target/compared" | xargs -r -d '\n' -n 2 touch --reference
    sed -n 's/^Files .* and \(.*\) differ$/\1/p' "$target/compared" | xargs -r -d '\n' touch
    rm -rf "$copy"
fi
mv "$copy.next" "$copy"
# Incremental, as one function of a crate changes.
export CARGO_TARGET_DIR="$target" CARGO_INCREMENTAL=1 CARGO_PROFILE_TEST_DEBUG=0 CARGO_PROFILE_DEV_DEBUG=0 RUST_BACKTRACE=0
if [ -n "$unasserted" ]; then
    export CARGO_TARGET_DIR="$target/unasserted"
    export CARGO_PROFILE_TEST_DEBUG_ASSERTIONS=false CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false
fi
said="$(mktemp)"
trap 'rm -f "$said"' EXIT

# build COMMAND: what it will run, from the copy.
build() {
    (cd "$copy" && bash -c "${1/cargo test/cargo test --quiet --no-run}") >"$said" 2>&1
}

# Without a bug a test ends, on a slow machine too: this only keeps a broken tree from hanging.
sound_max=3600
# With one it has at least this long, and many times as long as without: else a slow test passes for one that hangs.
planted_min=60
planted_times=10

# run COMMAND SECONDS: runs it in the copy, for so long at most.
run() {
    (cd "$copy" && timeout "$2" bash -c "$1") >"$said" 2>&1
}

# planted_max COMMAND SECONDS: how long it may take with a bug, if it takes so long without.
planted_max() {
    local most=$(($2 * planted_times))
    [ "$most" -ge "$planted_min" ] || most=$planted_min
    # It hunts for longer than it did without a bug.
    [[ "$1" != *shuttle_simulation* ]] || most=$((most + ${ENSILE_SECONDS:-60}))
    echo "$most"
}

has_run() {
    grep --quiet --extended-regexp '^test result: ok\. [1-9][0-9]* passed' "$said"
}

# what_was_said: of an anomaly its name, or else what the first panic said, or the error that a test returned. Folders of
# this machine are left out, as the table is kept.
what_was_said() {
    {
        grep --max-count=1 --extended-regexp '^ *[0-9]+ x ' "$said" ||
            grep --max-count=1 --after-context=1 'panicked at' "$said" | tail -n 1 | grep . ||
            grep --max-count=1 '^Error: ' "$said" || true
    } | sed "s#$target/##g" | tr -d '|' | cut -c 1-100 | sed 's/^ *//'
}

# All that must pass without a bug first: so a plant costs one build, and not a second one behind it. How long each took.
declare -A sound_seconds
for patch in "${chosen[@]}"; do
    name="$(basename "$patch" .patch)"
    seen_by="$(field 'Seen by' "$patch")"
    [ -n "$(field Condition "$patch")" ] && [ -n "$seen_by" ] && [ -n "$(field Expect "$patch")" ] ||
        die "$patch: its head needs the lines 'Condition: ', 'Seen by: ' and 'Expect: '"
    [ -z "${sound_seconds[$seen_by]:-}" ] || continue
    if ! { build "$seen_by" && begin=$SECONDS && ENSILE_SECONDS=2 run "$seen_by" "$sound_max" && has_run; }; then
        tail -n 30 "$said" >&2
        die "$name: without it, '$seen_by' fails, or runs no test"
    fi
    # A second more, as they are whole ones.
    sound_seconds[$seen_by]=$((SECONDS - begin + 1))
done

failed=0
echo '| bug | seen by | build | test | what it said |'
echo '|---|---|---|---|---|'
for patch in "${chosen[@]}"; do
    name="$(basename "$patch" .patch)"
    seen_by="$(field 'Seen by' "$patch")"
    patch --quiet --directory "$copy" --strip 1 --no-backup-if-mismatch <"$patch" || die "$patch does not apply"
    begin=$SECONDS
    outcome=0
    if build "$seen_by"; then
        built=$SECONDS
        run "$seen_by" "$(planted_max "$seen_by" "${sound_seconds[$seen_by]}")" || outcome=$?
    else
        built=$SECONDS
    fi
    # A test must fail, end the process, or hang: not a build, and not nothing.
    if [ "$outcome" = 124 ]; then
        echo "| $name | \`$seen_by\` | $((built - begin)) s | $((SECONDS - built)) s | does not end |"
    elif grep --quiet --extended-regexp '^test result: FAILED|\(signal: [0-9]+' "$said"; then
        echo "| $name | \`$seen_by\` | $((built - begin)) s | $((SECONDS - built)) s | $(what_was_said) |"
    else
        tail -n 30 "$said" >&2
        echo "$name: not seen by '$seen_by' (status $outcome)" >&2
        failed=1
    fi
    patch --quiet --directory "$copy" --strip 1 --reverse --no-backup-if-mismatch <"$patch"
done
printf '\n%d planted in %d s, build %s\n' ${#chosen[@]} $SECONDS "$(git rev-parse --short HEAD)"
exit $failed
