#!/usr/bin/env bash
# certificates.sh [NAME...]: makes an authority and a certificate of the server in certificates/, for its names in
# the cluster and those given. The key of the authority is thrown away. What is there stays; delete the folder for new ones.
set -euo pipefail
cd "$(dirname "$0")"
[ ! -s certificates/tls.crt ] || exit 0
umask 077
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
names="DNS:reckon.reckon.svc,DNS:reckon.reckon,DNS:reckon,DNS:localhost,IP:127.0.0.1"
for n in "$@"; do
	if [[ $n =~ ^[0-9.]+$ || $n == *:* ]]; then names+=",IP:$n"; else names+=",DNS:$n"; fi
done
new=(openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
"${new[@]}" -x509 -days 3650 -subj "/CN=reckon authority" -keyout "$work/ca.key" -out "$work/ca.crt" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
"${new[@]}" -subj "/CN=reckon" -keyout "$work/tls.key" -out "$work/tls.csr" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
openssl x509 -req -in "$work/tls.csr" -CA "$work/ca.crt" -CAkey "$work/ca.key" -CAcreateserial -days 3650 -out "$work/tls.crt" \
	-extfile <(printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\n' "$names") 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
mkdir -p certificates
mv "$work/ca.crt" "$work/tls.key" "$work/tls.crt" certificates/
