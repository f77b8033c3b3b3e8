//go:build e2e_k8s

// Package k8s installs reckon by its chart on a real Kubernetes cluster (test/e2e/beds/k8s), runs
// every kind of owner and of container there, and compares what reckon reports with what was run.
//
// `make e2e-k8s` runs it, as root, where K8SBED_CACHE holds the programs of the bed. A bed that runs
// in K8SBED_STATE is used and left; else one is started and taken away.
package k8s

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/internal/buildinfo"
)

const (
	scripts = "../beds/k8s"
	chart   = "../../../deploy/helm/reckon"
	bin     = "../../../bin"
	address = "10.96.0.98"
)

// version is the version of the chart, which names the images.
var version = buildinfo.Release()

// bed is a running cluster.
type bed struct {
	t     *testing.T
	cache string
	state string // folder of this run
	env   []string
	node  string
}

// needs are the programs of the bed that a run of the tests starts.
var needs = []string{"k8s-1.34/kubectl", "k8s-1.34/kube-apiserver", "k8s-1.34/kubelet", "node/containerd", "node/runc", "jobset/jobset-manager", "dns/dns"}

// start brings the bed up, or skips and names the missing part.
func start(t *testing.T) *bed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a node of Kubernetes needs root")
	}
	cache := os.Getenv("K8SBED_CACHE")
	if cache == "" {
		t.Skip("K8SBED_CACHE names no folder with the programs of Kubernetes; test/e2e/beds/k8s/README.md says how they are built")
	}
	for _, p := range needs {
		if _, err := os.Stat(filepath.Join(cache, p)); err != nil {
			t.Skipf("%v: run test/e2e/beds/k8s/build.sh control node jobset dns with this K8SBED_CACHE", err)
		}
	}
	for _, p := range []string{"reckon", "reckon-agent"} {
		if _, err := os.Stat(filepath.Join(bin, p)); err != nil {
			t.Skipf("%v: run make build", err)
		}
	}
	state, kept := os.LookupEnv("K8SBED_STATE")
	if !kept {
		dir, err := os.MkdirTemp("", "reckon-k8s-")
		if err != nil {
			t.Fatal(err)
		}
		state = dir
	}
	b := &bed{t: t, cache: cache, state: state, node: "node0"}
	b.env = append(os.Environ(), "K8SBED_STATE="+state, "K8SBED_JOBSET=1", "K8SBED_DNS=1", "KUBECONFIG="+filepath.Join(state, "admin.kubeconfig"),
		"PATH="+filepath.Join(cache, "k8s-1.34")+":"+cache+":"+os.Getenv("PATH"))
	if os.Getenv("K8SBED_NODES") == "" {
		b.env = append(b.env, "K8SBED_NODES=1")
	}
	if !kept {
		t.Cleanup(func() {
			if out, err := b.command(time.Minute, "", filepath.Join(scripts, "down.sh"), "--purge"); err != nil {
				t.Errorf("down.sh: %v\n%s", err, out)
			}
		})
	}
	if out, err := b.command(10*time.Minute, "", filepath.Join(scripts, "up.sh")); err != nil {
		t.Fatalf("up.sh: %v\n%s", err, out)
	}
	b.helm()
	return b
}

// helm builds the program as the module operator pins it, once.
func (b *bed) helm() {
	b.t.Helper()
	out, err := b.command(20*time.Minute, "", "go", "-C", "../../../kubernetes/operator", "build", "-o", filepath.Join(b.cache, "helm"), "helm.sh/helm/v4/cmd/helm")
	if err != nil {
		b.t.Fatalf("build helm: %v\n%s", err, out)
	}
}

// command runs a program for a while at most and returns what it printed.
func (b *bed) command(limit time.Duration, input, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.t.Context()), limit)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Env = b.env
	if !strings.Contains(name, "/") { // by the PATH of the bed
		for _, dir := range []string{filepath.Join(b.cache, "k8s-1.34"), b.cache} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				c = exec.CommandContext(ctx, filepath.Join(dir, name), args...)
				c.Env = b.env
			}
		}
	}
	c.Stdin = strings.NewReader(input)
	var out, problem bytes.Buffer
	c.Stdout, c.Stderr = &out, &problem
	c.WaitDelay = time.Second // daemons keep the pipe
	err := c.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, problem.String())
	}
	return out.String(), err
}

func (b *bed) must(name string, args ...string) string {
	b.t.Helper()
	out, err := b.command(3*time.Minute, "", name, args...)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// apply gives objects to the cluster.
func (b *bed) apply(objects ...any) {
	b.t.Helper()
	raw, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.command(time.Minute, string(raw), "kubectl", "apply", "-f", "-"); err != nil {
		b.t.Fatal(err)
	}
}

// static holds that a program runs in an image that has nothing else: `make build` links the C library where there is one.
func (b *bed) static(program string) {
	b.t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		b.t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			b.t.Fatalf("%s needs the C library of a machine: run make build-static", program)
		}
	}
}

// images gives every node the programs that were built, as `make release` packs them.
func (b *bed) images() {
	b.t.Helper()
	dir := b.t.TempDir()
	if out, err := b.command(10*time.Minute, "", "env", "CGO_ENABLED=0", "go", "-C", "../../../kubernetes/operator", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, "reckon-operator"), "./cmd/reckon-operator"); err != nil {
		b.t.Fatalf("build the operator: %v\n%s", err, out)
	}
	for _, program := range []string{"reckon", "reckon-agent", "reckon-operator"} {
		bin := bin
		if program == "reckon-operator" {
			bin = dir
		}
		b.static(filepath.Join(bin, program))
		root := filepath.Join(dir, "root", program)
		for _, d := range []string{"usr/bin", "tmp", "data"} {
			if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
				b.t.Fatal(err)
			}
		}
		b.must("cp", filepath.Join(bin, program), filepath.Join(root, "usr/bin", program))
		b.must("chmod", "-R", "go+rX", root)
		tar := filepath.Join(dir, program+".tar")
		b.must(filepath.Join(scripts, "mkimage.sh"), root, "localhost/reckon/"+program+":"+version, tar, "/usr/bin/"+program)
		b.load(program != "reckon-agent", tar) // which would take minutes on an emulated machine
	}
}

// load gives an image to the nodes, or to the first one only.
func (b *bed) load(first bool, image ...string) {
	b.t.Helper()
	before := b.env
	defer func() { b.env = before }()
	if b.env = append(slices.Clone(b.env), "K8SBED_WAIT=900"); first {
		b.env = append(b.env, "K8SBED_ONLY="+b.node)
	}
	if out, err := b.command(20*time.Minute, "", filepath.Join(scripts, "load.sh"), image...); err != nil {
		b.t.Fatalf("%v\n%s", err, out)
	}
}

// until waits for a condition, which reports the missing part.
func (b *bed) until(limit time.Duration, what string, missing func() string) time.Duration {
	b.t.Helper()
	began := time.Now()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		m := missing()
		took := time.Since(began)
		if m == "" {
			b.t.Logf("%s after %.1f s", what, took.Seconds())
			return took
		}
		if took > limit {
			b.t.Fatalf("%s: not after %v: %s", what, limit, m)
		}
		<-tick.C
	}
}

// reckon asks the server, in its pod.
func (b *bed) reckon(args ...string) (string, error) {
	return b.command(30*time.Second, "", "kubectl", append([]string{"-n", "reckon", "exec", "reckon-0", "--", "reckon"}, args...)...)
}

// sample is one series of an instant query.
type sample struct {
	Labels map[string]string
	Value  string
}

// query asks PromQL.
func (b *bed) query(promql string) ([]sample, error) {
	out, err := b.reckon("query", "--format", "json", promql)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Series []struct {
			Metric  map[string]string `json:"metric"`
			Samples []struct {
				Value string `json:"value"`
			} `json:"samples"`
		} `json:"series"`
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	var list []sample
	for _, s := range answer.Series {
		if len(s.Samples) > 0 {
			list = append(list, sample{s.Metric, s.Samples[len(s.Samples)-1].Value})
		}
	}
	return list, nil
}
