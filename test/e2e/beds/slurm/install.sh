#!/bin/bash
# Installs what up.sh starts, from the packages of Debian 12. Nothing that they bring is
# started: the daemons of the bed have folders and ports of their own.
set -e
need=()
for x in slurmctld:slurmctld slurmd:slurmd slurmdbd:slurmdbd squeue:slurm-client munged:munge mariadbd:mariadb-server slurmrestd:slurmrestd; do
	command -v "${x%%:*}" >/dev/null || need+=("${x##*:}")
done
[ ${#need[@]} -eq 0 ] && exit 0
command -v apt-get >/dev/null || { echo "install.sh: this bed is for Debian 12; missing: ${need[*]}" >&2; exit 1; }
policy=/usr/sbin/policy-rc.d
[ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy; chmod 755 $policy; trap "rm -f $policy" EXIT; }
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${need[@]}" slurm-wlm-mysql-plugin slurm-wlm-basic-plugins >/dev/null
