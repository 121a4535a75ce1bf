# Parts of ci/clients.sh and ci/server-clients.sh: versions of the libraries, their installation into $folder, and the
# start of a server. Sourced; each program of a library is one file.

REDIS_PY_VERSION=8.1.0
IOREDIS_VERSION=6.0.0
NODE_REDIS_VERSION=6.3.1
GO_REDIS_VERSION=v9.23.0
# Longest run of the programs of a library, in seconds.
SECONDS_MAX=300

die() {
    printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2
    exit 1
}

# need TOOL REMEDY
need() {
    command -v "$1" >/dev/null || die "no $1: $2"
}

need_python() {
    need python3 "install Python 3 (Debian: python3, python3-venv)"
    python3 -c 'import ensurepip, venv' 2>/dev/null || die "python3 has no venv: install Debian's python3-venv"
}

need_node() {
    need node "install Node.js, version 20 or later"
    need npm "install npm (Debian: npm)"
    [ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || die "node is older than version 20"
}

need_go() {
    need go "install Go, version 1.24 or later"
}

# install_python NAME PACKAGE..: an environment of its own in $folder/NAME.
install_python() {
    python3 -m venv "$folder/$1"
    "$folder/$1/bin/pip" install --quiet --disable-pip-version-check "${@:2}"
}

# install_npm PROGRAM PACKAGE..: the program lies beside its packages, in a folder of its name without the ending.
install_npm() {
    local name
    name="$(basename "$1" .js)"
    npm install --silent --no-audit --no-fund --prefix "$folder/$name" "${@:2}"
    cp "$1" "$folder/$name/"
}

# install_go PROGRAM MODULE@VERSION: builds $folder/NAME/clients.
install_go() {
    local name
    name="$(basename "$1" .go)"
    mkdir "$folder/$name"
    cp "$1" "$folder/$name/main.go"
    (cd "$folder/$name" && go mod init clients && go get "$2" && go build -o clients .) >"$folder/$name.log" 2>&1 ||
        die "$name cannot be built: $(cat "$folder/$name.log")"
}

# begin_server COMMAND..: starts a server that prints its address, and sets $server and $port.
begin_server() {
    "$@" >"$folder/address" &
    server=$!
    for _ in $(seq 100); do
        [ ! -s "$folder/address" ] || break
        kill -0 "$server" 2>/dev/null || die "the server did not start"
        sleep 0.1
    done
    port="$(sed 's/.*://' "$folder/address")"
    [ -n "$port" ] || die "the server has no address after ten seconds"
}

# run COMMAND..: runs a program of a library, which must not take long.
run() {
    timeout "$SECONDS_MAX" "$@"
}

# begin_folder: makes $folder, which is removed at the end, with the server.
begin_folder() {
    folder="$(mktemp -d)"
    server=''
    trap end_all EXIT
}

end_all() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    # Go's cache of modules is read-only, and lies elsewhere.
    rm -rf "$folder"
}
