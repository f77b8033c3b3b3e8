package api_test

import (
	"context"
	"testing"
	"time"

	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

// fakeFit echoes the query.
type fakeFit struct{}

func (fakeFit) Fit(_ context.Context, q client.FitQuery) (client.FitList, error) {
	longest := q.Time.Seconds()
	return client.FitList{Places: []client.Place{{Partitions: []string{"gpu"}, Cores: &q.Cores, MemoryBytes: &q.MemoryBytes, GPUs: &q.GPUs, LongestRun: &longest}}}, nil
}

func TestFit(t *testing.T) {
	h := api.New(api.Options{Backend: apitest.Site(now), Fit: fakeFit{}})
	q := client.FitQuery{Cores: 4, MemoryBytes: 1 << 36, GPUs: 2, Time: 8 * time.Hour}
	p := decode[client.FitList](t, get(t, h, "/api/reckon/v1/fit?"+q.Query().Encode()), 200).Places[0]
	if *p.Cores != 4 || *p.MemoryBytes != 1<<36 || *p.GPUs != 2 || *p.LongestRun != 8*3600 {
		t.Errorf("%+v", p)
	}
	for _, bad := range []string{"cores=-1", "cores=many", "time=soon", "memory=4"} {
		if w := get(t, h, "/api/reckon/v1/fit?"+bad); w.Code != 400 {
			t.Errorf("%s: %d", bad, w.Code)
		}
	}
	if w := get(t, api.New(api.Options{Backend: apitest.Site(now)}), "/api/reckon/v1/fit"); w.Code != 404 {
		t.Errorf("a server that does not know answers %d", w.Code)
	}
}
