package answer

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"reckon/access"
	"reckon/figure/wire"
	"reckon/query"
)

// GPUViews reads GPUs and the workloads that have them open; implemented by query.Views.
type GPUViews interface {
	GPUSpaces(ctx context.Context, from, at time.Time) ([]query.GPUSpace, error)
}

// shareLookback is the time over which the peaks of running jobs are computed.
const shareLookback = 24 * time.Hour

// judgeSharing judges every GPU for a job that needs a part of one.
func (f *Fit) judgeSharing(ctx context.Context, list *wire.FitList, q wire.FitQuery, now time.Time) error {
	spaces, err := f.GPUs.GPUSpaces(ctx, now.Add(-shareLookback), now)
	if err != nil {
		return err
	}
	viewer := access.From(ctx)
	for i := range spaces {
		s := &spaces[i]
		if s.Partitions > 0 {
			continue // its partitions are listed separately
		}
		g := judgeShare(s, q)
		for k := range g.Tenants {
			if t := &g.Tenants[k]; !viewer.Sees(t.Owner) {
				t.Workload, t.Owner = "another user's", ""
			}
		}
		list.Sharing = append(list.Sharing, g)
	}
	slices.SortStableFunc(list.Sharing, compareShares)
	return nil
}

// judgeShare determines whether a job fits next to the tenants of a GPU. A GPU without tenants is entirely free.
func judgeShare(s *query.GPUSpace, q wire.FitQuery) wire.GPUShare {
	g := wire.GPUShare{Site: s.Site, Node: s.Node, Device: s.Device, Index: s.Index, Model: s.Model,
		Partition: s.Parent != "", MemoryBytes: s.MemoryBytes, Tenants: append([]wire.GPUTenant{}, s.Tenants...)}
	ask := min(q.GPUs, 1)
	held, mean, peak := 0.0, ask, ask
	heldKnown, busyKnown := s.MemoryBytes != nil, true
	for _, t := range s.Tenants {
		if t.MemoryPeak == nil {
			heldKnown = false
		} else {
			held += *t.MemoryPeak
		}
		if t.BusyMean == nil || t.BusyPeak == nil {
			busyKnown = false
		} else {
			mean, peak = mean+*t.BusyMean, peak+*t.BusyPeak
		}
	}
	if s.MemoryUsed != nil {
		held = max(held, *s.MemoryUsed) // memory charged to no workload is not free either
	}
	var short, unknown []string
	switch {
	case !heldKnown:
		if unknown = append(unknown, "memory"); s.MemoryBytes != nil && q.GPUMemoryBytes > *s.MemoryBytes {
			unknown, short = nil, append(short, "memory")
		}
	default:
		if g.MemoryLeft = new(*s.MemoryBytes - held - q.GPUMemoryBytes); *g.MemoryLeft < 0 {
			short = append(short, "memory")
		}
	}
	if busyKnown {
		g.BusyLeft = new(1 - mean)
		g.SlowdownAtLeast, g.AtPeaks = new(max(mean, 1)), new(max(peak, 1))
		if *g.BusyLeft < -1e-9 {
			short = append(short, "time")
		}
	} else {
		unknown = append(unknown, "use of the tenants")
	}
	switch {
	case len(short) > 0:
		g.Fits, g.Why = new(false), "too little: "+strings.Join(short, ", ")
	case len(unknown) > 0:
		g.Why = "not known: " + strings.Join(unknown, ", ")
	default:
		g.Fits = new(true)
		if *g.AtPeaks > 1 {
			g.Why = fmt.Sprintf("they slow each other down by %.0f %% when all are at their busiest", 100*(*g.AtPeaks-1))
		}
	}
	g.Profile = smallestProfile(s, q)
	return g
}

// compareShares orders GPUs: suitable ones come first, and among them the fullest. Idle GPUs thus stay free for jobs
// that need a whole GPU.
func compareShares(a, b wire.GPUShare) int {
	rank := func(g *wire.GPUShare) int {
		switch {
		case g.Fits == nil:
			return 1
		case *g.Fits:
			return 0
		}
		return 2
	}
	left := func(v *float64) float64 {
		if v == nil {
			return math.Inf(1)
		}
		return *v
	}
	return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(left(a.BusyLeft), left(b.BusyLeft)),
		cmp.Compare(left(a.MemoryLeft), left(b.MemoryLeft)))
}

// migProfile is the size of a GPU partition: sevenths of the processors and GB of memory (NVIDIA Multi-Instance GPU
// User Guide, "Supported MIG Profiles").
type migProfile struct {
	slices, memory int
}

// migProfiles are selected by words in the model name and the memory of the device in GB.
var migProfiles = []struct {
	words    []string
	memory   int // approximate memory of the whole device, GB
	parts    int
	profiles []migProfile
}{
	{[]string{"A100", "A800"}, 40, 7, []migProfile{{1, 5}, {1, 10}, {2, 10}, {3, 20}, {4, 20}, {7, 40}}},
	{[]string{"A100", "A800", "H100", "H800"}, 80, 7, []migProfile{{1, 10}, {1, 20}, {2, 20}, {3, 40}, {4, 40}, {7, 80}}},
	{[]string{"H100", "GH200"}, 96, 7, []migProfile{{1, 12}, {1, 24}, {2, 24}, {3, 48}, {4, 48}, {7, 96}}},
	{[]string{"H200"}, 141, 7, []migProfile{{1, 18}, {1, 35}, {2, 35}, {3, 71}, {4, 71}, {7, 141}}},
	{[]string{"A30"}, 24, 4, []migProfile{{1, 6}, {2, 12}, {4, 24}}},
}

// smallestProfile returns the name of the smallest partition that a job fits in. For a device without partitions, it returns
// the number of such jobs that can share the device by time slices. It is empty if the device is itself a partition.
func smallestProfile(s *query.GPUSpace, q wire.FitQuery) string {
	if s.Parent != "" {
		return ""
	}
	if s.MemoryBytes != nil {
		whole := *s.MemoryBytes / (1 << 30)
		for _, m := range migProfiles {
			named := slices.ContainsFunc(m.words, func(w string) bool {
				return slices.Contains(strings.FieldsFunc(s.Model, isSeparator), w)
			})
			if !named || math.Abs(whole-float64(m.memory)) > 0.12*float64(m.memory) {
				continue
			}
			for _, p := range m.profiles {
				if float64(p.slices) >= q.GPUs*float64(m.parts)-1e-9 && float64(p.memory)*0.93*(1<<30) >= q.GPUMemoryBytes {
					return fmt.Sprintf("MIG %dg.%dgb", p.slices, p.memory)
				}
			}
			return "" // it needs more than the whole device
		}
	}
	n := math.Inf(1)
	if q.GPUs > 0 {
		n = math.Floor(1/q.GPUs + 1e-9)
	}
	if q.GPUMemoryBytes > 0 && s.MemoryBytes != nil {
		n = min(n, math.Floor(*s.MemoryBytes/q.GPUMemoryBytes))
	}
	if n < 2 || math.IsInf(n, 0) {
		return ""
	}
	return fmt.Sprintf("time slices, %d of such jobs", int(n))
}

func isSeparator(r rune) bool { return r == ' ' || r == '-' || r == '_' || r == '/' }
