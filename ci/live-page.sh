#!/usr/bin/env bash
# The live page of `ensile serve` in Debian's Chromium, without a screen: the page shows the figures of /metrics, and the
# console has no error. Screenshots at 360 and 1,280 pixels, light and dark, go to the folder of the first argument, if
# it is given. Chromium is installed if it is not there. Some seconds, without the build.
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
    printf 'live-page: %s\n' "$*" >&2
    exit 1
}

if ! command -v chromium >/dev/null; then
    command -v apt-get >/dev/null || die "no chromium, and no apt-get: install chromium"
    [ "$(id -u)" = 0 ] || die "no chromium: run as root, or 'apt-get install chromium' first"
    apt-get update && apt-get install --yes --no-install-recommends chromium || die "chromium cannot be installed"
fi
cargo build --quiet -p ensile-cli
target="$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')"
folder="$(mktemp -d)"
server=''
end() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$folder"
}
trap end EXIT
echo secret >"$folder/secret"
"$target/debug/ensile" serve --data "$folder/data" --port 0 --loops 1 --admin-port 0 \
    --admin-password-file "$folder/secret" >"$folder/address" 2>"$folder/told" &
server=$!
for _ in $(seq 100); do
    [ ! -s "$folder/address" ] || break
    kill -0 "$server" 2>/dev/null || die "the server has ended: $(cat "$folder/told")"
    sleep 0.1
done
admin="$(sed -n 's|.*admin port: http://\(.*\)/$|\1|p' "$folder/told")"
[ -n "$admin" ] || die "no address of the admin port: $(cat "$folder/told")"

browse() {
    chromium --headless=new --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$folder/profile" \
        --enable-logging=stderr --virtual-time-budget=4000 "$@" "http://any:secret@$admin/" 2>"$folder/console"
    if grep -E 'CONSOLE.*(rror|refused|violates)' "$folder/console"; then
        die "the console has an error"
    fi
}

page="$(browse --dump-dom)"
grep -q 'id="state" class="good">serving' <<<"$page" || die "the page does not show that the server serves: $page"
metrics="$(curl --silent --fail --user any:secret "http://$admin/metrics")"
epochs_shown="$(sed -n 's|.*id="lag">\([0-9,]*\)<.*|\1|p' <<<"$page")"
memory="$(awk '$1 == "ensile_memory_live_bytes" { printf "%.1f\n", $2 / 1024 }' <<<"$metrics")"
grep -q "id=\"memory\">$memory KiB" <<<"$page" || die "the page shows another memory than /metrics, $memory KiB"
[ -n "$epochs_shown" ] || die "the page shows no epochs"
if [ $# -gt 0 ]; then
    mkdir -p "$1"
    for width in 360 1280; do
        browse --window-size="$width,900" --blink-settings=preferredColorScheme=1 --screenshot="$1/$width-light.png"
        browse --window-size="$width,900" --blink-settings=preferredColorScheme=0 --screenshot="$1/$width-dark.png"
    done
fi
echo "live-page: the page shows the figures of /metrics, and the console has no error"
