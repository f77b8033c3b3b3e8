#!/usr/bin/env bash
# mpi.sh NAME:TAG [DIR...]: makes an image of Debian's Open MPI, NetPIPE and OpenSSH, for launchers and workers that reach each other as root by
# a key of the image, with the files of each DIR over it, and gives it to every node that runs (load.sh). Installs nothing on this
# machine; what it downloads stays in $K8SBED_CACHE/mpi.
SAVED=1
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ $# -ge 1 ] || die "mpi.sh NAME:TAG [DIR...] (mpi.sh --help)"
ref=$1; shift
d=$CACHE/mpi
if [ ! -e "$d/done" ]; then
  rm -rf "$d"; mkdir -p "$d/archives/partial" "$d/root"
  : >"$d/status"   # as if nothing were installed: all that the packages need
  apt-get -qq -y -o Dir::State::status="$d/status" -o Dir::Cache::archives="$d/archives" -o Debug::NoLocking=1 -o APT::Sandbox::User=root -o APT::Install-Recommends=false \
    --download-only install openmpi-bin netpipe-openmpi openssh-server openssh-client bash coreutils mawk hostname libc-bin sed grep >"$d/log" 2>&1 ||
    { tail -5 "$d/log" >&2; die "cannot get Debian's packages (apt-get update?)"; }
  for p in "$d"/archives/*.deb; do dpkg -x "$p" "$d/root"; done
  rm -rf "$d/archives" "$d"/root/usr/share/{doc,man,locale,info,lintian}
  (
    cd "$d/root"
    mkdir -p root/.ssh run/sshd tmp etc/ssh
    chmod 1777 tmp; chmod 700 root root/.ssh
    printf 'root:x:0:0::/root:/bin/bash\nsshd:x:105:65534::/run/sshd:/bin/false\nnobody:x:65534:65534::/:/bin/false\n' >etc/passwd
    printf 'root:x:0:\nnogroup:x:65534:\n' >etc/group
    printf 'hosts: files dns\n' >etc/nsswitch.conf
    [ -e bin/sh ] || ln -s bash bin/sh
    [ -e usr/bin/awk ] || ln -s mawk usr/bin/awk
    for p in mpirun mpiexec; do ln -sf $p.openmpi usr/bin/$p; done
    ssh-keygen -q -t ed25519 -N '' -f etc/ssh/ssh_host_ed25519_key
    ssh-keygen -q -t ed25519 -N '' -f root/.ssh/id_ed25519
    cp root/.ssh/id_ed25519.pub root/.ssh/authorized_keys
    printf 'Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n' >root/.ssh/config
    printf 'PermitRootLogin prohibit-password\nUsePAM no\nStrictModes no\nHostKey /etc/ssh/ssh_host_ed25519_key\n' >etc/ssh/sshd_config
    # libpsm is chosen by an alternative; ranks share processors with what else runs here
    printf '\nmca_base_component_show_load_errors = 0\nmpi_yield_when_idle = 1\n' >>etc/openmpi/openmpi-mca-params.conf
    chmod 600 root/.ssh/*
  )
  touch "$d/done"
fi
r=$(mktemp -d); trap 'rm -rf "$r"' EXIT
mkdir "$r/root"
cp -a "$d/root/." "$r/root"
for more in "$@"; do cp -a "$more/." "$r/root"; done
tar=$r/$(tr -c 'A-Za-z0-9.\n' - <<<"$ref").tar
"$HERE/mkimage.sh" "$r/root" "$ref" "$tar" /bin/bash
"$HERE/load.sh" "$tar"
