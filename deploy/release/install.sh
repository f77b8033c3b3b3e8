#!/bin/sh
# Installs reckon and reckon-agent from a release, after checking what was downloaded.
#
#   install.sh ADDRESS [--to DIR] [--key 'ssh-ed25519 AAAA...'] [--version VERSION] [--downgrade]
#
# ADDRESS is where the files of the release are, such as https://example.org/reckon/0.1.0, or a folder with them. Sums are always checked; with --key, or
# RECKON_SIGNING_KEY, the signature of the sums as well (ssh-keygen of OpenSSH 8.1 or newer). An older version than the installed one is
# refused, unless --downgrade is given. Nothing is changed where a check fails.
set -eu
fail() { echo "install.sh: $*" >&2; exit 1; }
address= to=/usr/local/bin key=${RECKON_SIGNING_KEY:-} version= downgrade=
while [ $# -gt 0 ]; do
  case $1 in
    --to) to=${2:?--to needs a folder}; shift ;;
    --key) key=${2:?--key needs a public key}; shift ;;
    --version) version=${2:?--version needs a version}; shift ;;
    --downgrade) downgrade=1 ;;
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) fail "unknown option $1; try --help" ;;
    *) [ -z "$address" ] || fail "one address is enough: $1"; address=${1%/} ;;
  esac
  shift
done
[ -n "$address" ] || fail "give the address of a release; try --help"
[ -d "$address" ] || command -v curl >/dev/null || command -v wget >/dev/null || fail "install curl or wget first: one of them downloads the release"
case $(uname -s)/$(uname -m) in
  Linux/x86_64) arch=amd64 ;;
  Linux/aarch64 | Linux/arm64) arch=arm64 ;;
  *) fail "there are no binaries for $(uname -s) on $(uname -m)" ;;
esac
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
get() { # get FILE: downloads it, or copies it from a folder; false where it is not there
  if [ -d "$address" ]; then cp "$address/$1" "$dir/$1"
  elif command -v curl >/dev/null; then curl -fsSL --retry 3 -o "$dir/$1" "$address/$1"
  else wget -q -O "$dir/$1" "$address/$1"; fi
}
get SHA256SUMS || fail "cannot read $address/SHA256SUMS"
if [ -n "$key" ]; then
  get SHA256SUMS.sig || fail "the release is not signed: $address/SHA256SUMS.sig is missing"
  echo "reckon $key" >"$dir/signers"
  ssh-keygen -Y verify -f "$dir/signers" -I reckon -n reckon -s "$dir/SHA256SUMS.sig" <"$dir/SHA256SUMS" >/dev/null 2>&1 ||
    fail "the signature of SHA256SUMS is not by this key: do not use these files"
else
  echo "install.sh: the signature is not checked; --key names the key to check it by" >&2
fi
found=$(sed -n "s/^[0-9a-f]\{64\}  \(reckon-.*-linux-$arch\.tar\.gz\)$/\1/p" "$dir/SHA256SUMS")
[ -z "$version" ] || found=$(echo "$found" | grep -Fx "reckon-$version-linux-$arch.tar.gz" || true)
[ -n "$found" ] || fail "SHA256SUMS names no archive for linux-$arch${version:+ of version $version}"
[ "$(echo "$found" | wc -l)" = 1 ] || fail "SHA256SUMS names several archives for linux-$arch: choose one by --version"
get "$found" || fail "cannot read $address/$found"
(cd "$dir" && grep -F "  $found" SHA256SUMS | sha256sum -c --quiet -) >/dev/null 2>&1 || fail "$found is not what SHA256SUMS says: do not use it"
name=${found%.tar.gz}
new=${name#reckon-} new=${new%-linux-"$arch"}
old=$("$to/reckon" version 2>/dev/null | sed -n 's/^reckon \([^ ,]*\).*/\1/p' || true)
if [ -n "$old" ] && [ "$old" != "$new" ] && [ -z "$downgrade" ] && [ "$(printf '%s\n%s\n' "$old" "$new" | sort -V | tail -n 1)" = "$old" ]; then
  fail "$new is older than the installed $old: take a backup (reckon backup) and give --downgrade"
fi
tar -xzf "$dir/$found" -C "$dir"
mkdir -p "$to"
for program in reckon reckon-agent; do
  install -m 755 "$dir/$name/$program" "$to/.$program.new"
  mv "$to/.$program.new" "$to/$program" # at once: what runs goes on
done
[ "$to" = /usr/bin ] || [ ! -e /usr/bin/reckon ] || echo "install.sh: a package has /usr/bin/reckon too: remove it or $to/reckon, as only one is found" >&2
echo "reckon $new is in $to. 'reckon up' measures this machine; nothing was started."
