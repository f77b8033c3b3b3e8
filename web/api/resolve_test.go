package api_test

import (
	"fmt"
	"testing"
	"time"

	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

// TestEndOfANameHoweverOld finds a workload older than thousands of others by the end of its name.
func TestEndOfANameHoweverOld(t *testing.T) {
	b := apitest.Site(now)
	add := func(id, name string, seen time.Time) {
		b.Details = append(b.Details, client.WorkloadDetail{Workload: client.Workload{ID: id, Kind: "unit", Name: name, Owner: "root", Start: seen.Add(-time.Hour), Seen: seen}})
	}
	add("deployment/shop/cart", "shop/cart", now.AddDate(0, -2, 0))
	add("unit/nightly.service", "nightly.service", now.AddDate(0, -2, 0))
	for i := range 2100 {
		add(fmt.Sprint("unit/u", i), fmt.Sprint("u", i), now)
	}
	h := api.New(api.Options{Backend: b})
	for text, want := range map[string]string{"cart": "deployment/shop/cart", "nightly": "unit/nightly.service"} {
		if d := decode[client.WorkloadDetail](t, get(t, h, "/api/reckon/v1/workloads/"+text), 200); d.ID != want {
			t.Errorf("%s is %s, want %s", text, d.ID, want)
		}
	}
	decode[client.Error](t, get(t, h, "/api/reckon/v1/workloads/ca?t"), 400)
	decode[client.Error](t, get(t, h, "/api/reckon/v1/workloads/car%3F"), 404) // a name, not a pattern
}
