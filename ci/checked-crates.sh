# Sourced by loom.sh and shuttle.sh: which crates have tests under a model checker, and how to run them.
# shellcheck shell=bash

# Crates whose shipped types are explored.
MODEL_CRATES=(ensile-base ensile-epoch ensile-memory ensile-index ensile-durability ensile-engine ensile-objects)

# run_models CHECKER CALL: runs, with `--cfg CHECKER`, the integration tests called `CHECKER*` of each crate and, of
# its unit tests, those with CHECKER in their path. A crate that never calls CALL has none and is passed over.
run_models() {
    local checker="$1" call="$2" crate folder chosen=() has_units='' has_others=''
    # As tests are built, with debug assertions, since they state the invariants that are explored: building takes most of
    # the time, and what runs is small. A schedule that fails is replayed, so no lines are needed.
    local cargo=(cargo test --config 'profile.dev.debug=0' --config 'profile.test.debug=0'
        --target-dir "${CARGO_TARGET_DIR:-target}/$checker")
    export RUSTFLAGS="--cfg $checker ${RUSTFLAGS:-}"
    for crate in "${MODEL_CRATES[@]}"; do
        folder="crates/$crate"
        if compgen -G "$folder/tests/$checker*" >/dev/null; then
            has_others=yes
        elif ! grep --recursive --quiet --include='*.rs' "$call" "$folder/src" 2>/dev/null; then
            continue
        fi
        ! grep --recursive --quiet --include='*.rs' "$call" "$folder/src" 2>/dev/null || has_units=yes
        chosen+=(--package "$crate")
    done
    # All crates in one call, both times the same ones: for another choice of crates the features of those below would
    # be others, and each choice would build them again.
    [ -z "$has_units" ] || "${cargo[@]}" "${chosen[@]}" --lib "$checker"
    [ -z "$has_others" ] || "${cargo[@]}" "${chosen[@]}" --test "$checker*"
    [ ${#chosen[@]} -gt 0 ] || echo "$checker: no crate has such tests"
}
