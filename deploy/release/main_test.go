package main

import (
	"testing"
	"time"
)

func TestVersion(t *testing.T) {
	for described, want := range map[string]string{
		"v1.2.3":                "1.2.3",
		"v1.2.3-dirty":          "1.2.3+dirty",
		"v1.2.3-4-gabc1234":     "1.2.3+4.gabc1234",
		"v1.2.3-rc.1":           "1.2.3-rc.1",
		"v1.2.3-rc.1-2-gabc":    "1.2.3-rc.1+2.gabc",
		"abc1234":               "0.0.0+20260102.030405.gabc1234",
		"abc1234-dirty":         "0.0.0+20260102.030405.gabc1234.dirty",
		"v1.2.3-4-gabc12-dirty": "1.2.3+4.gabc12.dirty",
	} {
		if got := version(described, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)); got != want {
			t.Errorf("%s is %s, want %s", described, got, want)
		}
	}
}
