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

// sums encodes what comes, as it would travel, and keeps a checksum for each node.
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

// TestSameSeed: the same seed makes the same batches, byte by byte, whatever the number of
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
	if len(first) != 13 { // the nodes, and what the batch system says
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
