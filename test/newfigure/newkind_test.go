package newfigure

import (
	"path/filepath"
	"testing"
)

const kindCode = `// Package condor recognises jobs of HTCondor by the environment that its starter gives them.
package condor

import (
	"reckon/internal/cgpath"
	"reckon/workload"
)

// Resolver implements [workload.Resolver].
type Resolver struct{}

// New returns a resolver.
func New() *Resolver { return &Resolver{} }

// Name implements [workload.Resolver].
func (*Resolver) Name() string { return "condor" }

// Resolve implements [workload.Resolver].
func (*Resolver) Resolve(h *workload.Hint) (workload.Identity, bool) {
	id, ok := h.Getenv("CONDOR_ID")
	if id = cgpath.Clean(id); !ok || id == "" || h.Kernel {
		return workload.Identity{}, false
	}
	return workload.Identity{Workload: workload.MakeID(workload.Condor, id)}, true
}
`

const kindTest = `package condor

import (
	"testing"

	"reckon/workload"
	"reckon/workload/workloadtest"
)

func TestConformance(t *testing.T) {
	workloadtest.Test(t, func() workload.Resolver { return New() })
}

func TestCondor(t *testing.T) {
	h := &workload.Hint{Node: "n1", UID: 1000, User: "alice", Env: func(key string) (string, bool) { return "17.0", key == "CONDOR_ID" }}
	if id, ok := New().Resolve(h); !ok || id.Workload != "condor/17.0" || !id.Workload.Kind().Batch() || !id.Workload.Kind().Person() {
		t.Errorf("%+v %v", id, ok)
	}
}
`

// TestNewKind: a kind is its row in the table, its resolver with a test and a line in workload/all.
func TestNewKind(t *testing.T) {
	root, scratch := copied(t)
	kinds, all := filepath.Join(scratch, "workload/kind.go"), filepath.Join(scratch, "workload/all/all.go")
	edit(t, kinds, "\tDeployment Kind = \"deployment\"", "\tCondor     Kind = \"condor\"     // condor/17.0\n\tDeployment Kind = \"deployment\"")
	edit(t, kinds, "\t{Deployment, pods |", "\t{Condor, batch | person | requests, \"\", []string{\"CONDOR_ID\"}},\n\t{Deployment, pods |")
	edit(t, all, "\t\tbatch.New(),\n", "\t\tbatch.New(),\n\t\tcondor.New(),\n")
	edit(t, all, "\t\"reckon/workload/container\"\n", "\t\"reckon/workload/condor\"\n\t\"reckon/workload/container\"\n")
	write(t, filepath.Join(scratch, "workload/condor/condor.go"), kindCode)
	write(t, filepath.Join(scratch, "workload/condor/condor_test.go"), kindTest)
	run(t, scratch, "go", "generate", "./figure")
	run(t, scratch, "go", "test", "-run", "TestReference", "./internal/metricdoc", "-update")
	atMost(t, root, scratch, 4)
	contains(t, filepath.Join(scratch, "doc/metrics.md"), "condor")
	contains(t, filepath.Join(scratch, "web/ui/src/lib/vocabulary.ts"), "condor")
	run(t, scratch, "go", "build", "./cmd/...")
	if out := output(t, scratch, "go", "run", "./cmd/reckon", "jobs", "--help"); !has(out, "condor") {
		t.Error("the help of reckon jobs does not name it")
	}
	run(t, scratch, "go", "test", "-run", "Kind|Condor|Conformance|UpToDate|Script/jobs|OpenAPI|Document|Architecture|Chain|Identify", "./workload/...", "./figure/...", "./web/api", "./cmd/reckon", "./internal/archtest")
}
