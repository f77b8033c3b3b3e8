package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFootprintFile(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	file := filepath.Join(t.TempDir(), "grid.csv")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("time,g_per_kWh\n2026-11-21 12:00,100\n2026-11-21 13:00,300\n")
	f, err := OpenFootprint(file, "0.5 EUR", nil)
	if err != nil {
		t.Fatal(err)
	}
	grams := func() float64 {
		t.Helper()
		v, ok := f.currentRates().Carbon().Of(3.6e6, noon, noon.Add(time.Hour)) // 1 kWh
		if !ok {
			t.Fatal("the rate is unknown")
		}
		return v
	}
	if got, cost := grams(), f.currentRates().Tariff(); got != 100 || cost.Unit != "EUR" {
		t.Errorf("%v g, %+v; want 100 g, EUR", got, cost)
	}
	// The file changes; then it breaks, and the values before hold on.
	again := func(text string, at time.Time) {
		write(text)
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
		f.carbon.looked = time.Time{}
	}
	again("time,g_per_kWh\n2026-11-21 12:00,50\n", noon)
	if got := grams(); got != 50 {
		t.Errorf("after a change: %v g, want 50", got)
	}
	again("nonsense", noon.Add(time.Hour))
	if got := grams(); got != 50 {
		t.Errorf("after a broken change: %v g, want 50", got)
	}
	if (*Footprint)(nil).currentRates() != nil {
		t.Error("nobody said anything, and there are rates")
	}
	if none, err := OpenFootprint("", "", nil); err != nil || none.currentRates().Carbon() != nil || none.currentRates().Tariff() != nil {
		t.Errorf("no rates: %v", err)
	}

	for want, c := range map[string][2]string{
		"grid-intensity: \"coal\" is neither": {"coal", ""},
		"tariff: \"0.3\" has no unit":         {"", "0.3"},
		"tariff: ":                            {"", file},
	} {
		if _, err := OpenFootprint(c[0], c[1], nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", c, err, want)
		}
	}
}
