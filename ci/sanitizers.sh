# Sourced by asan.sh and tsan.sh: tests under a sanitizer. Needs a nightly toolchain, so it is no part of .ci/run.
# shellcheck shell=bash

# Which tests run.
chosen=(--lib --tests)

# run_sanitized NAME [CRATE..]: the chosen tests of the crates (or of those that use `unsafe`) under -Zsanitizer=NAME.
run_sanitized() {
    local sanitizer="$1" host crate std=() packages=()
    local -x RUSTFLAGS="-Zsanitizer=$1 ${RUSTFLAGS:-}"
    shift
    cargo +nightly --version || {
        echo "needs a nightly toolchain: rustup toolchain install nightly --component rust-src" >&2
        exit 1
    }
    host="$(rustc +nightly -vV | sed -n 's/^host: //p')"
    if [ -d "$(rustc +nightly --print sysroot)/lib/rustlib/src/rust/library" ]; then
        std=(-Zbuild-std)
    elif [ "$sanitizer" = thread ]; then
        echo "needs std's source, or std's own locks look like races:" \
            "rustup component add rust-src --toolchain nightly" >&2
        exit 1
    else
        echo "rust-src is not installed: std runs unwatched (rustup component add rust-src --toolchain nightly)" >&2
        RUSTFLAGS+=" -Cunsafe-allow-abi-mismatch=sanitizer"
    fi
    [ $# -gt 0 ] || set -- ensile-memory ensile-net ensile-epoch ensile-index ensile-engine ensile-c
    for crate in "$@"; do
        packages+=(--package "$crate")
    done
    cargo +nightly test "${std[@]}" --target "$host" --target-dir "${CARGO_TARGET_DIR:-target}/$sanitizer" \
        "${packages[@]}" "${chosen[@]}"
}
