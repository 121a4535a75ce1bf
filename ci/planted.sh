#!/usr/bin/env bash
# Planted bugs: each of the catalogue (`ensile_base::planted`) is put in, and a checker must see it. The simulation's
# print a table; then those that the index, the log or loom has a test for, by that test's failure.
# `bash ci/planted.sh quick` only looks whether the plans of the catalogue report nothing without a bug.
set -euo pipefail
cd "$(dirname "$0")/.."

target="${CARGO_TARGET_DIR:-target}/planted"
cargo=(cargo test --profile release-plain --config 'profile.release-plain.debug-assertions=true' --quiet)
export RUST_BACKTRACE=0 LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS-3}"
flags="${RUSTFLAGS:-}"

simulation() {
    RUSTFLAGS="--cfg shuttle --cfg planted $flags" "${cargo[@]}" --target-dir "$target" \
        --package ensile-engine --test shuttle_simulation "$@"
}

# seen CFG BUG TEST..: with the bug, the test fails; without it, it passes.
seen() {
    local cfg="$1" bug="$2" begin
    shift 2
    local run=(env RUSTFLAGS="$cfg --cfg planted $flags" "${cargo[@]}" --target-dir "$target" "$@")
    "${run[@]}" >/dev/null 2>&1 || { echo "$bug: $* fails without it" >&2; return 1; }
    begin=$SECONDS
    local outcome=0
    ENSILE_PLANT="$bug" timeout 60 "${run[@]}" >/dev/null 2>&1 || outcome=$?
    # Nothing found, or nothing in time.
    if [ "$outcome" = 0 ] || [ "$outcome" = 124 ]; then
        echo "$bug: not seen by $*" >&2
        return 1
    fi
    printf '| %s | seen by %s | %d s |\n' "$bug" "$*" $((SECONDS - begin))
}

simulation planted::nothing_is_reported_without_a_bug
[ "${1:-}" != quick ] || exit 0
simulation planted::every_planted_bug_is_seen -- --nocapture

index=(--package ensile-index --lib)
seen "--cfg shuttle" VersionKeptByRemoval "${index[@]}" tree::shuttled
seen "--cfg shuttle" UnlinkedNotMarked "${index[@]}" tree::shuttled
seen "" EndedWorkerForgotten --package ensile-durability --test durability
seen "" FirstJustAboveDurable --package ensile-durability --test durability
seen "--cfg loom" BufferBeforeBinding --package ensile-durability --lib loom
seen "--cfg loom" LookFenceMissing --package ensile-durability --lib loom
epoch=(--package ensile-epoch --test loom)
seen "--cfg loom" LightFenceMissing "${epoch[@]}"
seen "--cfg loom" HeavyFenceMissing "${epoch[@]}"
seen "--cfg loom" AdvanceFenceMissing "${epoch[@]}"
seen "--cfg loom" ChangeFenceMissing "${index[@]}" loomed
seen "--cfg loom" SecondLookFenceMissing "${index[@]}" loomed
