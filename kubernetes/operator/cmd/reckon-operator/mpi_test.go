package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestBedMPI runs launchers and workers with Debian's Open MPI on two nodes: NetPIPE by app-custom, and, where OPERATOR_MPI names a folder that has
// them at the paths of the published images, the OSU micro-benchmarks and Chatterbug.
func TestBedMPI(t *testing.T) {
	b := onBed(t)
	more := os.Getenv("OPERATOR_MPI")
	args := []string{"example.local/debian-mpi:1"}
	if more != "" {
		args = append(args, more)
	}
	if out, err := exec.Command(filepath.Join(scripts, "mpi.sh"), args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	names := b.names()
	for _, c := range []struct {
		name, path, spec string
		want             []string
	}{
		{"pipe", "", `name: app-custom, options: {soleTenancy: "true", command: "mpirun --hostfile ./hostlist.txt --allow-run-as-root -np 2 -map-by ppr:1:node NPopenmpi -u 1024 -o /tmp/np.out"}`, []string{"Now starting the main loop", "1024 bytes"}},
		{"osu", "opt/osu-benchmark", "name: network-osu-benchmark, listOptions: {commands: [osu_latency, osu_bw]}", []string{"OSU MPI Latency Test", "OSU MPI Bandwidth Test"}},
		{"collective", "opt/osu-benchmark", "name: network-osu-benchmark, listOptions: {commands: [osu_allreduce]}", []string{"OSU MPI Allreduce Latency Test"}},
		{"bug", "root/chatterbug", `name: network-chatterbug, options: {command: stencil3d, mpirun: "-N 1", args: "1 1 2 10 10 10 4 1"}`, []string{"Running stencil3d on 2 processors", "Time elapsed per iteration"}},
		{"bug", "root/chatterbug", `name: network-chatterbug, options: {command: ping-pong, mpirun: "-N 1", args: "1 1"}`, nil},
	} {
		if _, err := os.Stat(filepath.Join(more, c.path)); c.path != "" && (more == "" || err != nil) {
			t.Logf("%s: OPERATOR_MPI has no %s", c.name, c.path)
			continue
		}
		key := b.apply("metadata: {name: " + c.name + "}\nspec: {pods: 2, metrics: [{image: 'example.local/debian-mpi:1', " + c.spec + "}]}\n")
		began := time.Now()
		b.answerFor(names, key)
		run := b.run(key, 8*time.Minute) // ranks wait by spinning: on a busy machine that takes minutes
		var nodes []string
		log := ""
		for _, p := range run.Pods {
			nodes, log = append(nodes, p.Node), log+p.Log
		}
		slices.Sort(nodes)
		t.Logf("%s: %s after %.0f s on %v\n%s", c.name, run.Outcome, time.Since(began).Seconds(), nodes, log)
		if c.want == nil {
			if strings.Contains(log, "was unable to launch") || strings.Contains(log, "No such file") {
				t.Errorf("%s: the program was not found", c.name)
			}
			continue
		}
		if run.Outcome != "Finished" || len(slices.Compact(nodes)) != 2 {
			t.Errorf("%s: %s on %v\n%s", c.name, run.Outcome, nodes, b.log(key))
		}
		for _, want := range c.want {
			if !strings.Contains(log, want) {
				t.Errorf("%s: %q is missing", c.name, want)
			}
		}
	}
}

// answerFor waits for the pods of a set and answers for their names.
func (b *bed) answerFor(names *dns, key types.NamespacedName) {
	b.t.Helper()
	b.until("two pods of "+key.Name, 2*time.Minute, func() bool {
		var pods core.PodList
		err := b.c.List(b.t.Context(), &pods, client.InNamespace(key.Namespace), client.MatchingLabels{"metricset-name": key.Name})
		if err != nil {
			return false
		}
		addressed := slices.DeleteFunc(pods.Items, func(p core.Pod) bool { return p.Status.PodIP == "" })
		names.set(addressed)
		return len(addressed) == 2
	})
}
