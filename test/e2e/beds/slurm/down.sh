#!/bin/bash
# Stops exactly the daemons that up.sh started, by their pid files.
bed=${1:?usage: down.sh FOLDER}
bed=$(cd "$bed" && pwd) || exit 1
for p in run/slurmd-*.pid run/slurmctld.pid run/slurmdbd.pid run-mysql/mysqld.pid run/munged.pid; do
	for f in "$bed"/$p; do
		[ -s "$f" ] || continue
		pid=$(cat "$f")
		kill "$pid" 2>/dev/null
		for ((i = 0; i < 50; i++)); do kill -0 "$pid" 2>/dev/null || break; sleep 0.2; done
	done
done
host=$(hostname -s)
for c in memory cpuacct cpuset freezer devices; do
	find "/sys/fs/cgroup/$c/slurm_$host" "/sys/fs/cgroup/$c/slurm_$host-two" -depth -type d -exec rmdir {} \; 2>/dev/null
done
true
