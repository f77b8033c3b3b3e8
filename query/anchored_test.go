package query_test

import (
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"

	"reckon/query"
)

// TestAnchoredIncrease: anchored increases of workloads that start and end within the range, with a zero
// sample at their start, add up to the increase of the machine; plain increase() returns more.
func TestAnchoredIncrease(t *testing.T) {
	// Four workloads of one core: always running; started and ended within the range; started before and
	// ended within; started within: 600, 120, 270 and 330 s within the ten minutes up to 15 min.
	stored := promqltest.LoadedStorage(t, `load 15s
  cpu{workload="always"} 0+15x80
  cpu{workload="within"} _x30 0+15x8
  cpu{workload="ended"} 0+15x38
  cpu{workload="born"} _x38 0+15x40
`)
	e := query.NewEngine(query.EngineOptions{})
	ask := func(q string) float64 {
		t.Helper()
		got, err := e.NewInstantQuery(t.Context(), stored, promql.NewPrometheusQueryOpts(false, 0), q, time.Unix(15*60, 0))
		if err != nil {
			t.Fatal(err)
		}
		defer got.Close()
		r := got.Exec(t.Context())
		v, err := r.Vector()
		if err != nil || len(v) != 1 {
			t.Fatalf("%s: %v, %v", q, v, err)
		}
		return v[0].F
	}
	const want = 600 + 120 + 270 + 330
	if got := ask(`sum(increase(cpu[10m] anchored))`); math.Abs(got-want) > 0.003*want {
		t.Errorf("anchored %v, want %v within 0.3 %%", got, want)
	}
	plain := ask(`sum(increase(cpu[10m]))`)
	if plain < want*1.001 {
		t.Errorf("plain increase() says %v of %v: then the guide is wrong", plain, want)
	}
	t.Logf("plain increase() says %+.2f %%", 100*(plain/want-1))
}
