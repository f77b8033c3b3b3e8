#!/usr/bin/env bash
# One node: containerd, kubelet and kube-proxy. Two kinds, started by up.sh:
#   outside/inside  in mount, pid, net, uts and cgroup namespaces on this machine's kernel
#                   (its cgroup hierarchies, v1 or v2, as they are)
#   kernel          pid 1 of a user-mode Linux or an emulated machine, with a kernel and a
#                   pure cgroup v2 of its own; / is the machine's outside, read-only
# Everything of the node ends with its first process; outside the state folder, the
# node's cgroups and its namespaces nothing is touched.
set -euo pipefail
umask 022                                # up.sh is stricter; here it would shut users other than root out of containers
if [ "${1:-}" = outside ] || [ "${1:-}" = inside ]; then
  stage=$1 conf=$2
else                                     # a kernel started us
  export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/
  mount -t proc proc /proc
  stage=kernel conf=
  read -r line </proc/cmdline
  for w in $line; do case $w in k8sbed=*) conf=${w#*=} ;; esac; done
fi
# shellcheck disable=SC1090
. "$conf"                                # see node_files in up.sh

case $stage in
outside)
  for c in /sys/fs/cgroup /sys/fs/cgroup/*/; do [ ! -e "$c/$CG/cgroup.procs" ] || echo $$ >"$c/$CG/cgroup.procs"; done
  exec unshare --cgroup --mount --net --uts --pid --fork --kill-child "$0" inside "$conf"
  ;;
inside)
  mount --make-rprivate /
  read -r outer _ </proc/self/stat       # our pid outside: /proc is still the old one
  echo "$outer" >"$N/init.pid"
  end=$((SECONDS + 30))
  until [ -e "$N/wired" ]; do [ $SECONDS -lt $end ] || { echo "no wire" >&2; exit 1; }; sleep 0.05; done
  mount -t proc proc /proc
  # a fresh view of /sys (this network's devices) and of the cgroups (ours is the root)
  mapfile -t old < <(awk '$3 == "cgroup" || $3 == "cgroup2" { print $2, $3, $4 }' /proc/mounts)
  mount -t sysfs sysfs /sys
  [[ " ${old[*]}" == *" /sys/fs/cgroup cgroup2 "* ]] || mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
  for m in "${old[@]}"; do
    read -r at type opts <<<"$m"
    mkdir -p "$at"
    opts=$(tr ',' '\n' <<<"$opts" | grep -vxE 'rw|ro|relatime|nosuid|nodev|noexec|nsdelegate|memory_recursiveprot' | paste -sd, || true)
    mount -t "$type" ${opts:+-o "$opts"} cgroup "$at"
  done
  # pure v2: a group with processes hands no controllers on, so ours go into one of their own
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mkdir -p /sys/fs/cgroup/init
    for _ in 1 2 3; do while read -r p; do echo "$p" >/sys/fs/cgroup/init/cgroup.procs || true; done </sys/fs/cgroup/cgroup.procs; done 2>/dev/null
    for f in $(cat /sys/fs/cgroup/cgroup.controllers); do echo "+$f" >/sys/fs/cgroup/cgroup.subtree_control || true; done
  fi
  mount -t tmpfs -o mode=755 tmpfs /run
  mount -t tmpfs -o mode=755 tmpfs /var/lib
  mkdir -p /var/lib/kubelet /var/lib/containerd "$N"/{kubelet,containerd,sys}
  mount --bind "$N/kubelet" /var/lib/kubelet
  mount --bind "$N/containerd" /var/lib/containerd
  # the kubelet would set these for the whole machine: show it what it wants to see
  for s in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    f=/proc/sys/${s%=*}
    [ ! -e "$f" ] || [ "$(cat "$f")" = "${s#*=}" ] || { echo "${s#*=}" >"$N/sys/${f##*/}"; mount --bind "$N/sys/${f##*/}" "$f"; }
  done
  ;;
kernel)
  if grep -qw hostfs /proc/filesystems; then uml=1; else uml=; fi
  if [ -n "$uml" ]; then mount -t hostfs none "$N" -o "$N"
  else mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=none state "$N"; fi
  exec >"$N/init.log" 2>&1
  mount -t sysfs sysfs /sys
  mount -t cgroup2 cgroup /sys/fs/cgroup
  [ -e /dev/kmsg ] || mount -t devtmpfs dev /dev
  mkdir -p /dev/pts /dev/shm /dev/mqueue
  mount -t devpts devpts /dev/pts
  mount -t tmpfs tmpfs /dev/shm
  for m in "$MODULES"/*.ko; do "$BUSYBOX" insmod "$m" || echo "no $m"; done
  mount -t tmpfs -o mode=755 tmpfs /run
  export TMPDIR=/run
  ulimit -n 65536
  if [ -n "$uml" ]; then
    ip link set vec0 name eth0
    mount -t ext4 /dev/ubda /var/lib
    # the kubelet wants a clock speed and a topology, which this kernel does not tell
    { sed '/^$/d' /proc/cpuinfo; printf 'cpu MHz\t\t: 2000.000\nphysical id\t: 0\ncore id\t\t: 0\ncpu cores\t: 1\n\n'; } >/run/cpuinfo
    mount --bind /run/cpuinfo /proc/cpuinfo
    # Debian builds this kernel without the nf_tables families, so the old iptables
    mkdir /run/bin
    for t in iptables ip6tables; do for s in '' -save -restore; do ln -s "$(command -v $t-legacy$s)" /run/bin/$t$s; done; done
    PATH=/run/bin:$PATH
  else
    mount -t ext4 /dev/vda /var/lib
  fi
  ;;
esac

# ---- from here on both kinds are alike
ip link set lo up
ip addr add "$IP/24" dev eth0
ip link set eth0 up
ip route add default via "$NET.1"
for j in $(seq 0 31); do echo "route add $PODNET.$j.0/24 via $NET.$((10 + j))"; done | grep -v " $IP\$" | ip -batch -   # the other nodes' pods
hostname "$NAME"
echo 1 >/proc/sys/net/ipv4/ip_forward
mount -t tmpfs -o mode=755 tmpfs /var/log
mkdir -p /run/containerd /run/cni /var/lib/kubelet /var/lib/containerd /var/log/pods /var/log/containers
mount --make-rshared /

export PATH=$RT:$PATH
"$RT/containerd" --config "$N/containerd.toml" >"$N/containerd.log" 2>&1 &
main=$!
until [ -S /run/containerd/containerd.sock ] && "$RT/ctr" version >/dev/null 2>&1; do kill -0 $main; sleep 0.1; done
load() { # images put into the folder later are taken too; FILE.tar.done says it is there
  local t
  for t in "$@"; do
    [ -e "$t" ] && [ ! -e "$N/images/${t##*/}.done" ] || continue
    "$RT/ctr" -n k8s.io images import "$t" >>"$N/import.log" 2>&1 && : >"$N/images/${t##*/}.done"
  done
}
rm -f "$N"/images/*.done
load "$IMAGES"/*.tar "$N"/images/*.tar
while sleep 1; do load "$N"/images/*.tar || true; done &
# a kubelet that ends is started again, as systemd would, unless it ends in its first 5 seconds
{
  since=-5
  while [ $((SECONDS - since)) -ge 5 ]; do
    since=$SECONDS
    "$BIN/kubelet" --config="$N/kubelet.yaml" --kubeconfig="$N/kubelet.kubeconfig" --hostname-override="$NAME" --node-ip="$IP" \
      --node-labels=k8sbed=real || true
  done >>"$N/kubelet.log" 2>&1
} &
kubelet=$!
if [ "$PROXY" = 1 ]; then
  "$BIN/kube-proxy" --config="$N/kube-proxy.yaml" --hostname-override="$NAME" >"$N/kube-proxy.log" 2>&1 &
fi
# reap whatever is handed to pid 1; end when a main process ends
while kill -0 $main 2>/dev/null && kill -0 $kubelet 2>/dev/null; do wait -n || true; done
tail -n 3 "$N/kubelet.log" "$N/containerd.log" >&2
[ "$stage" != kernel ] || "$BUSYBOX" poweroff -f
exit 1
