#!/usr/bin/env bash
# Planted bugs: each of the catalogue (`ensile_base::planted`) is put in, and a checker must see it. The simulation's
# print a table; then those that the index, the log, the engine or loom has a test for, by that test's failure; at last the
# simulation's again, built without debug assertions: what the engine's own assertions see a checker must see too.
# ENSILE_SECONDS (60) is how long the simulation hunts each; ENSILE_BUG=Name,Name chooses some of its bugs.
# `bash ci/planted.sh quick` looks whether the simulation sees its bugs, and reports nothing without them;
# `bash ci/planted.sh harnesses` prints which of the other harnesses see which of the log's bugs, and where.
set -euo pipefail
cd "$(dirname "$0")/.."

case "$#:${1:-}" in
0: | 1:quick | 1:harnesses) ;;
*)
    echo "usage: bash ci/planted.sh [quick|harnesses]" >&2
    exit 2
    ;;
esac

target="${CARGO_TARGET_DIR:-target}/planted"
unasserted=(cargo test --profile release-plain --quiet)
cargo=("${unasserted[@]}" --config 'profile.release-plain.debug-assertions=true')
export RUST_BACKTRACE=0 LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS-3}"
flags="${RUSTFLAGS:-}"
said="$(mktemp)"
trap 'rm -f "$said"' EXIT

# simulation TEST CARGO..: one test of the simulation, which must be there and pass.
simulation() {
    local test="$1"
    shift
    RUSTFLAGS="--cfg shuttle --cfg planted $flags" "$@" --target-dir "$target" \
        --package ensile-engine --test shuttle_simulation "$test" -- --exact --nocapture | tee "$said"
    grep --quiet --extended-regexp '^test result: ok\. [1-9][0-9]* passed' "$said" || {
        echo "$test: no test ran" >&2
        return 1
    }
}

# seen CFG BUG TEST..: with the bug a test fails; without it tests run, and pass.
seen() {
    local cfg="$1" bug="$2" begin outcome=0
    shift 2
    local run=(env RUSTFLAGS="$cfg --cfg planted $flags" "${cargo[@]}" --target-dir "$target" "$@")
    if ! "${run[@]}" >"$said" 2>&1 || ! grep --quiet --extended-regexp '^test result: ok\. [1-9]' "$said"; then
        tail -n 40 "$said" >&2
        echo "$bug: without it, $* fails, or is no test" >&2
        return 1
    fi
    begin=$SECONDS
    ENSILE_PLANT="$bug" timeout 60 "${run[@]}" >"$said" 2>&1 || outcome=$?
    # It is a test that must fail, or end the process: not nothing found, not nothing in time, not a build.
    if [ "$outcome" = 0 ] || ! grep --quiet --extended-regexp '^test result: FAILED|\(signal: [0-9]+' "$said"; then
        tail -n 40 "$said" >&2
        echo "$bug: not seen by $* (status $outcome)" >&2
        return 1
    fi
    printf '| %s | seen by %s | %d s |\n' "$bug" "$*" $((SECONDS - begin))
}

# built PACKAGE TEST: a test that bugs can be planted in.
built() {
    RUSTFLAGS="--cfg planted $flags" "${cargo[@]}" --target-dir "$target" --no-run --message-format=json \
        --package "$1" --test "$2" | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}

# place: what the first failure says of how to make it come again.
place() {
    local found
    found="$(grep --only-matching --extended-regexp --max-count=1 'ENSILE_SEED=[0-9]+.*call [0-9]+' "$said" ||
        grep --only-matching --extended-regexp --max-count=1 'Case \{ call: [0-9]+[^}]*' "$said" ||
        sed -n 's/^---- \(.*\) stdout ----$/\1/p' "$said" | head -n 1)"
    found="${found#Case \{ }"
    found="${found#matrix::}"
    echo "${found:-the process ended}"
}

# harnesses: a row for each bug of the log's conditions, a column for each harness.
harnesses() {
    local crashes log bug outcome harness row
    crashes="$(built ensile-engine crashes)"
    log="$(built ensile-durability durability)"
    echo '| bug | crash points | failing calls | damage | checkpoints | lives of the log |'
    echo '|---|---|---|---|---|---|'
    for bug in $(sed -n 's/^    \([A-Z][A-Za-z]*\): "\(L[1-5]\|K1\|R1\)[^"]*", \(Log\|Simulation\),$/\1/p' \
        crates/ensile-base/src/planted.rs); do
        row="| $bug |"
        for harness in "$crashes points::" "$crashes failing::" "$log matrix::" "$log checkpoints::" "$log simulation::thousands_of_seeded_lives_keep"; do
            outcome=0
            # shellcheck disable=SC2086
            { ENSILE_PLANT="$bug" timeout 60 $harness >"$said" 2>&1; } 2>/dev/null || outcome=$?
            case $outcome in
            0) row+=' - |' ;;
            124) row+=' does not end |' ;;
            *) row+=" $(place) |" ;;
            esac
        done
        echo "$row"
    done
}

if [ "${1:-}" = harnesses ]; then
    harnesses
    exit
fi
simulation planted::nothing_is_reported_without_a_bug "${cargo[@]}"
simulation planted::every_planted_bug_is_seen "${cargo[@]}"
[ "${1:-}" != quick ] || exit 0

index=(--package ensile-index --lib)
seen "--cfg shuttle" VersionKeptByRemoval "${index[@]}" tree::shuttled
seen "--cfg shuttle" UnlinkedNotMarked "${index[@]}" tree::shuttled
log=(--package ensile-durability --test durability)
seen "" EndedWorkerForgotten "${log[@]}"
seen "" RefusalNotAsked "${log[@]}" poison
seen "" MissingLogAccepted "${log[@]}" damage
seen "" HighNotDemanded "${log[@]}" checkpoints::whole
seen "" NewFileMarkUnsynced "${log[@]}"
seen "" NewFileNameUnsynced "${log[@]}"
seen "" NewFileBeforeSync "${log[@]}"
seen "" BeforeNotTold "${log[@]}"
seen "" HeldBlockDropped "${log[@]}"
seen "" HeldMarkCounts "${log[@]}"
seen "" FullSyncHeld "${log[@]}"
seen "" FirstJustAboveDurable "${log[@]}"
seen "" PublishedIgnored "${log[@]}"
seen "" WalkBegunEarly "${log[@]}" checkpoints
seen "" HighReadBeforeWalk "${log[@]}" checkpoints
seen "" InstalledBeforeDurable "${log[@]}" checkpoints
seen "" EntriesBelowLowReplayed "${log[@]}" checkpoints
seen "" RemovedBeforeManifest "${log[@]}" checkpoints
seen "" LogRemovedBeforeManifest "${log[@]}" checkpoints
seen "" FileOfLowRemoved "${log[@]}" checkpoints
seen "" EntriesOfLowSkipped "${log[@]}" checkpoints
seen "" NewEntriesWalked "${log[@]}" checkpoints
seen "" TypesNotCompared --package ensile --test misuse
seen "--cfg loom" BufferBeforeBinding --package ensile-durability --lib loom
seen "--cfg loom" LookFenceMissing --package ensile-durability --lib loom
engine=(--package ensile-engine --lib loom)
seen "--cfg loom" FenceBeforeEpochMissing "${engine[@]}"
seen "--cfg loom" FenceAfterEpochMissing "${engine[@]}"
epoch=(--package ensile-epoch --test loom)
seen "--cfg loom" LightFenceMissing "${epoch[@]}"
seen "--cfg loom" HeavyFenceMissing "${epoch[@]}"
seen "--cfg loom" AdvanceFenceMissing "${epoch[@]}"
seen "--cfg loom" ChangeFenceMissing "${index[@]}" loomed
seen "--cfg loom" SecondLookFenceMissing "${index[@]}" loomed

echo "Without debug assertions:"
simulation planted::every_planted_bug_is_seen "${unasserted[@]}"
