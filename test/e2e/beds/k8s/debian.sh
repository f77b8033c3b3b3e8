#!/usr/bin/env bash
# debian.sh NAME:TAG PROGRAM...: makes an image of programs of this machine, with a shell and the libraries that they
# need, and gives it to every node that runs (load.sh).
SAVED=1
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ $# -ge 2 ] || die "debian.sh NAME:TAG PROGRAM... (debian.sh --help)"
ref=$1; shift
r=$(mktemp -d); trap 'rm -rf "$r"' EXIT
root=$r/root
mkdir -p "$root"/{bin,lib64,tmp,etc,root,usr/bin,usr/lib}
chmod 1777 "$root/tmp"
ln -s usr/lib "$root/lib"
echo 'root:x:0:0::/root:/bin/bash' >"$root/etc/passwd"
for p in bash sh cat od tr rm ls cp mkdir chmod sleep hostname head tail awk nproc getent env "$@"; do
  f=$(command -v "$p") || die "no $p on this machine: apt-get install it"
  f=$(readlink -f "$f")
  cp "$f" "$root/usr/bin/$p"
  { ldd "$f" 2>/dev/null || true; } | grep -o '/[^ )]*' | while read -r lib; do
    d=$(dirname "$lib"); case $d in /lib/*) d=/usr$d ;; esac
    mkdir -p "$root$d"; cp -L "$lib" "$root$d/"
  done
done
cp "$root/usr/bin/bash" "$root/usr/bin/sh" "$root/bin/"
tar=$r/$(tr -c 'A-Za-z0-9.\n' - <<<"$ref").tar
"$HERE/mkimage.sh" "$root" "$ref" "$tar" /bin/bash
"$HERE/load.sh" "$tar"
