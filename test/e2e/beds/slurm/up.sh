#!/bin/bash
# Starts a real Slurm with accounting on this machine, on loopback, with the packages of
# Debian 12 (script/setup e2e). Needs root, and control groups of version 1.
#   up.sh FOLDER      then: export SLURM_CONF=FOLDER/etc/slurm.conf
# FOLDER must be readable by all. A node is idle after some seconds. down.sh FOLDER stops it.
set -euo pipefail
bed=${1:?usage: up.sh FOLDER}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$bed"/{etc,log,spool/ctld,run,mysql,run-mysql}
bed=$(cd "$bed" && pwd)
host=$(hostname -s)
mkdir -p "$bed/spool/$host" "$bed/spool/$host-two" "$bed/dev"
for n in 0 1; do [ -e "$bed/dev/gpu$n" ] || mknod "$bed/dev/gpu$n" c 1 3; done
chmod 755 "$bed" "$bed/etc"
memory=$(awk '/MemTotal/ {print int($2 / 1024 * 0.4)}' /proc/meminfo)
for f in slurm.conf cgroup.conf gres.conf slurmdbd.conf; do
	sed "s#@BED@#$bed#g; s#@HOST@#$host#g; s#@MEMORY@#$memory#g; s#@CGROUP@#cgroup/v1#g" "$here/etc/$f" >"$bed/etc/$f"
done
# Tokens, of which slurmrestd needs some, are made by a plugin in a package of its own.
compgen -G '/usr/lib/*/slurm*/auth_jwt.so' >/dev/null || sed -i '/^AuthAlt/d' "$bed"/etc/*.conf
chmod 600 "$bed/etc/slurmdbd.conf"
[ -s "$bed/etc/jwt.key" ] || head -c 32 /dev/urandom >"$bed/etc/jwt.key"
chmod 600 "$bed/etc/jwt.key"
[ -s "$bed/etc/munge.key" ] || head -c 1024 /dev/urandom >"$bed/etc/munge.key"
chown munge:munge "$bed/run" "$bed/etc/munge.key"
chmod 400 "$bed/etc/munge.key"
chown -R mysql:mysql "$bed/mysql" "$bed/run-mysql"

# Groups that a bed before this one left would count on.
find /sys/fs/cgroup/*/"slurm_$host" /sys/fs/cgroup/*/"slurm_$host-two" -depth -type d -exec rmdir {} \; 2>/dev/null || true

# begin NAME COMMAND... starts a daemon in a session of its own and keeps its pid.
begin() {
	local name=$1
	shift
	setsid "$@" >"$bed/log/$name.out" 2>&1 </dev/null &
}
# wait_for SECONDS COMMAND... waits until a command succeeds.
wait_for() {
	local i n=$1
	shift
	for ((i = 0; i < n * 5; i++)); do "$@" >/dev/null 2>&1 && return 0; sleep 0.2; done
	echo "up.sh: gave up after $n s: $*; see $bed/log" >&2
	return 1
}

begin munged runuser -u munge -- munged --foreground --key-file="$bed/etc/munge.key" --socket="$bed/run/munge.socket" \
	--pid-file="$bed/run/munged.pid" --log-file="$bed/run/munged.log" --seed-file="$bed/run/munged.seed"
fresh=
if ! [ -d "$bed/mysql/mysql" ]; then
	fresh=1
	mariadb-install-db --user=mysql --datadir="$bed/mysql" --auth-root-authentication-method=normal --skip-test-db >"$bed/log/mysql-install.log" 2>&1
fi
sock=$bed/run-mysql/mysql.sock
begin mariadbd mariadbd --no-defaults --user=mysql --datadir="$bed/mysql" --socket="$sock" --port=13306 --bind-address=127.0.0.1 \
	--pid-file="$bed/run-mysql/mysqld.pid" --innodb-buffer-pool-size=256M --innodb-log-file-size=64M --innodb-lock-wait-timeout=900
wait_for 60 mariadb -S "$sock" -u root -e 'select 1'
[ -n "$fresh" ] && mariadb -S "$sock" -u root -e "create database slurm_acct_db; create user 'slurm'@'127.0.0.1' identified by 'slurmpw';
	create user 'slurm'@'localhost' identified by 'slurmpw'; grant all on slurm_acct_db.* to 'slurm'@'127.0.0.1','slurm'@'localhost'; flush privileges"

export SLURM_CONF=$bed/etc/slurm.conf
begin slurmdbd slurmdbd -D
wait_for 40 sacctmgr -n list cluster
if [ -n "$fresh" ]; then
	{
		sacctmgr -i add cluster tinyhpc
		sacctmgr -i add account demo Description=demo Organization=demo
		for u in hpcuser hpcbob; do
			id $u >/dev/null 2>&1 || useradd -m -s /bin/bash $u
			sacctmgr -i add user $u Account=demo
		done
	} >"$bed/log/sacctmgr.out" 2>&1
fi
begin slurmctld slurmctld -D
wait_for 20 sinfo -h
begin "slurmd-$host" slurmd -D -N "$host"
begin "slurmd-$host-two" slurmd -D -N "$host-two"
idle() { [ "$(sinfo -h -N -o "%N %T" | sort -u | grep -cE "idle|mixed|allocated|planned")" = 2 ]; }
wait_for 40 idle
sinfo -N
