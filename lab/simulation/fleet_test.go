package simulation_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"reckon/lab/simulate"
	"reckon/lab/simulation"
	"reckon/metric"
	"reckon/transport/push"
)

var monday = time.Date(2026, 3, 2, 6, 0, 0, 0, time.UTC)

func site(t testing.TB, c simulate.Config) *simulate.Site {
	t.Helper()
	if c.From.IsZero() {
		c.From = monday
	}
	s, err := simulate.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sums encodes exports in wire format, and keeps a checksum for each node.
type sums struct {
	mu       sync.Mutex
	encoders map[string]*push.Encoder
	hashes   map[string]hash.Hash
	samples  int
	look     func(node string, b *metric.Batch)
}

func newSums() *sums {
	return &sums{encoders: map[string]*push.Encoder{}, hashes: map[string]hash.Hash{}}
}

func (s *sums) Put(_ context.Context, node string, b *metric.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.encoders[node] == nil {
		s.encoders[node] = push.NewEncoder(map[string]string{"node": node}, push.Filter{})
		s.hashes[node] = sha256.New()
	}
	if s.look != nil {
		s.look(node, b)
	}
	s.samples += len(b.Samples)
	return s.encoders[node].Encode(b, func(request []byte, _ int) error {
		_, err := s.hashes[node].Write(request)
		return err
	})
}

func (s *sums) result() map[string]string {
	out := map[string]string{}
	for n, h := range s.hashes {
		out[n] = hex.EncodeToString(h.Sum(nil))
	}
	return out
}

// TestSameSeed: the same seed gives the same batches, byte by byte, whatever the number of
// workers; another one does not.
func TestSameSeed(t *testing.T) {
	run := func(seed uint64, workers int) map[string]string {
		f := simulation.New(simulation.Config{Site: site(t, simulate.Config{Nodes: 12, Jobs: 400, GPUNodes: 3, Seed: seed, For: 8 * time.Hour}), Workers: workers})
		out := newSums()
		if _, err := f.Run(t.Context(), simulation.Stretch{Until: monday.Add(4 * time.Hour), Tick: 20 * time.Second, Export: time.Minute}, out); err != nil {
			t.Fatal(err)
		}
		return out.result()
	}
	first := run(7, 1)
	if len(first) != 13 { // the nodes, and the batch system
		t.Errorf("%d senders, want 13", len(first))
	}
	second := run(7, 4)
	for _, n := range slices.Sorted(maps.Keys(first)) {
		if first[n] != second[n] {
			t.Errorf("node %q made other batches the second time", n)
		}
	}
	other := run(8, 1)
	for n, sum := range first {
		if other[n] == sum && n != "" {
			t.Errorf("node %q made the same batches with another seed", n)
		}
	}
}

// TestRollOuts: real agents name the pods of a simulated site by their Deployments, and ten roll-outs leave as many workloads.
func TestRollOuts(t *testing.T) {
	s := site(t, simulate.Config{Nodes: 6, Jobs: 1, Pods: 30, RollOuts: 10, For: time.Hour, Seed: 2})
	workloads, pods := map[string]bool{}, map[string]bool{}
	out := newSums()
	out.look = func(node string, b *metric.Batch) {
		for _, x := range b.Samples {
			if x.Series.Desc.Name == "reckon_container_info" && !x.Ended() {
				workloads[x.Series.Values[0]] = true
				pods[x.Series.Values[2]] = true
			}
			if x.Series.Desc.Name == "reckon_workload_info" && x.Series.Values[1] == "pod" {
				t.Errorf("%s: a pod without a name: %v", node, x.Series.Values)
			}
		}
	}
	f := simulation.New(simulation.Config{Site: s})
	if _, err := f.Run(t.Context(), simulation.Stretch{Until: s.End(), Tick: 15 * time.Second, Export: 30 * time.Second}, out); err != nil {
		t.Fatal(err)
	}
	if len(workloads) != 3 || !workloads["deployment/astro/nginx-0"] || !workloads["deployment/bio/java-1"] || len(pods) != 2*11*30 {
		t.Errorf("%d workloads, %d pods and containers, want 3 and %d: %v", len(workloads), len(pods), 2*11*30, workloads)
	}
}
