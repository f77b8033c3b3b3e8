package jobs

import (
	"fmt"
	"strconv"
	"strings"

	"reckon/kubernetes/operator/metricset"
)

// launcherContainers makes the containers of a launcher and its workers.
func (b *builder) launcherContainers(m *metricset.Measure) (launch, work container, err error) {
	if m.Shape == metricset.Mesh {
		launch, work = b.meshContainers(m)
		return launch, work, nil
	}
	image := m.Image
	if m.Given.Image != "" {
		image = m.Given.Image
	}
	env := envVars("RECKON_METADATA", b.logHeader(m), "RECKON_HOSTS", strings.Join(b.hostNames(m), "\n"), "RECKON_PODS",
		strconv.Itoa(int(*b.set.Spec.Pods)), "RECKON_TASKS", m.Values["tasks"])
	launch = container{name: "launcher", image: image, workdir: m.Values["workdir"], file: "launcher.sh", env: env}
	work = container{name: "workers", image: image, workdir: m.Values["workdir"], file: "worker.sh", env: env}
	work.script = &script{pre: joinLines(startShell, writeHosts, writeProblemFile(m)), command: "sleep infinity"}
	switch m.Name {
	case "network-osu-benchmark":
		launch.script, work.script = osuScript(m)
	case "network-netmark":
		launch.script = netmarkScript(m)
		launch.env = append(launch.env, netmarkEnv(m)...)
	case "network-chatterbug":
		launch.script = chatterbugScript(m)
	case "app-hpl":
		launch.script = hplScript(m)
		launch.env = append(launch.env, hplEnv(m)...)
	default:
		launch.script = appScript(m)
	}
	return launch, work, nil
}

const (
	// startShell enables the launcher's mpirun to start processes on the workers.
	startShell = `/usr/sbin/sshd -D &`
	writeHosts = `printf '%s\n' "$RECKON_HOSTS" > ./hostlist.txt`
	// awaitHosts waits until each host has an address and answers to ssh, two minutes at most.
	awaitHosts = `reckon_left=120
for reckon_host in $RECKON_HOSTS; do
  until getent hosts "$reckon_host" > /dev/null && (exec 3<> "/dev/tcp/$reckon_host/22") 2> /dev/null; do
    reckon_left=$((reckon_left - 1))
    if [ $reckon_left -le 0 ]; then echo "host $reckon_host does not answer to ssh"; break; fi
    sleep 1
  done
done`
	// addresses writes a list of addresses, for those mpiruns that cannot use names.
	addresses = `: > ./hostlist.txt
for reckon_host in $RECKON_HOSTS; do
  getent hosts "$reckon_host" | awk 'NR == 1 { print $1 }' >> ./hostlist.txt
done
cat ./hostlist.txt`
	// ranks sets tasks to the processors of one pod, and np to the requested tasks or else to the processors of all pods.
	ranks = `pods=$RECKON_PODS
tasks=$(nproc)
np=$RECKON_TASKS
if [ "$np" -eq 0 ]; then np=$((pods * tasks)); fi
echo "tasks on one pod: $tasks, in all: $np"`
)

// writeProblemFile writes the command into a file that mpirun can start on every host.
func writeProblemFile(m *metricset.Measure) string {
	command := m.Values["command"]
	if command == "" {
		return ""
	}
	// The delimiter must not be a line of the command.
	end := "RECKON_END"
	for strings.Contains("\n"+command+"\n", "\n"+end+"\n") {
		end += "_"
	}
	return fmt.Sprintf("cat <<%s > ./problem.sh\n#!/bin/bash\n%s\n%s\nchmod +x ./problem.sh", end, command, end)
}

// appScript returns the script of a metric of the family app-*. lammps and custom run their command directly. The
// others write the command to a file that a prefix such as mpirun runs.
func appScript(m *metricset.Measure) *script {
	s := &script{
		pre:     joinLines(startShell, printMetadata, writeHosts, writeProblemFile(m), awaitHosts, echo(markStart), echo(markPoint)),
		command: joinWords(m.Values["prefix"], "./problem.sh"),
		post:    echo(markEnd),
	}
	if m.Name == "app-lammps" || m.Name == "app-custom" {
		s.command = joinWords(m.Values["prefix"], m.Values["command"])
	}
	if m.Name == "app-bdas" {
		s.pre = joinLines(startShell, printMetadata, writeProblemFile(m), awaitHosts, addresses, echo(markStart), echo(markPoint))
	}
	return s
}

func osuScript(m *metricset.Measure) (launch, work *script) {
	pre := joinLines(startShell, ranks, awaitHosts, addresses, "head -2 ./hostlist.txt > ./hostlist-pairs.txt", printMetadata)
	names := m.Lists["commands"]
	switch {
	case m.Values.On("all"):
		names = metricset.OSUAll()
	case len(names) == 0:
		names = metricset.OSUDefaults()
	}
	mpirun := "mpirun"
	if m.Values.On("timed") {
		mpirun = "time mpirun"
	}
	var run []string
	for _, name := range names {
		program, pair, flags := metricset.OSUProgram(name)
		hosts := "./hostlist.txt"
		if pair {
			hosts = "./hostlist-pairs.txt"
		}
		if f := m.Values["flags"]; f != "" {
			flags = f
		}
		line := fmt.Sprintf("%s --hostfile %s --allow-run-as-root %s %s", mpirun, hosts, flags, program)
		run = append(run, echo(markPoint), showCommand(line), line+` || reckon_failed=1`)
	}
	launch = &script{
		pre:     joinLines(pre, "reckon_failed=0", echo(markStart)),
		command: joinLines(joinLines(run...), `[ "$reckon_failed" -eq 0 ]`),
		post:    echo(markEnd),
	}
	return launch, &script{pre: joinLines(startShell, ranks), command: "sleep infinity"}
}

// showCommand prints a command before it runs.
func showCommand(line string) string { return "cat <<'RECKON_LINE'\n" + line + "\nRECKON_LINE" }

func chatterbugScript(m *metricset.Measure) *script {
	line := joinWords("mpirun --hostfile ./hostlist.txt --allow-run-as-root", m.Values["mpirun"],
		metricset.ChatterbugProgram(m.Values["command"]), m.Values["args"])
	return &script{
		pre:     joinLines(startShell, ranks, awaitHosts, addresses, printMetadata, echo(markStart), echo(markPoint), showCommand(line)),
		command: line,
		post:    echo(markEnd),
	}
}
