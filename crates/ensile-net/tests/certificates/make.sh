#!/usr/bin/env bash
# Makes the certificates of the tests, valid for a hundred years but for `expired.pem`. The keys are no secrets.
# Run by hand: bash crates/ensile-net/tests/certificates/make.sh
set -euo pipefail
cd "$(dirname "$0")"
days=36500
authority() {
    openssl req -x509 -newkey ed25519 -nodes -keyout "$1.key" -out "$1.pem" -days "$days" -subj "/CN=$1" \
        -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign
}
# Name, authority, options of the key, last options.
certificate() {
    local name=$1 authority=$2 key=$3
    shift 3
    # shellcheck disable=SC2086
    openssl req -newkey $key -nodes -keyout "$name.key" -out "$name.csr" -subj "/CN=$name"
    openssl x509 -req -in "$name.csr" -CA "$authority.pem" -CAkey "$authority.key" -set_serial "$RANDOM" -out "$name.pem" \
        -extfile <(printf 'basicConstraints=CA:FALSE\nsubjectAltName=DNS:localhost,IP:127.0.0.1\n') "$@"
    rm "$name.csr"
}
authority authority
authority other-authority
certificate server authority ed25519 -days "$days"
certificate server-rsa authority rsa:2048 -days "$days"
certificate server-ecdsa authority "ec -pkeyopt ec_paramgen_curve:P-256" -days "$days"
certificate client authority ed25519 -days "$days"
certificate stranger other-authority ed25519 -days "$days"
# Expired at once.
certificate expired authority ed25519 -days 0
openssl pkey -in server.key -aes256 -passout pass:secret -out encrypted.key
rm authority.key other-authority.key expired.key
