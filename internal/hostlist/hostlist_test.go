package hostlist

import (
	"slices"
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	for _, tt := range []struct {
		list string
		want string // space separated
	}{
		{"", ""},
		{"vm", "vm"},
		{"c1-[5,9,12-14],gpu-2", "c1-5 c1-9 c1-12 c1-13 c1-14 gpu-2"}, // as sinfo of a real cluster writes it
		{"n[08-11]", "n08 n09 n10 n11"},
		{"r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"},
		{"n[9-10]x", "n9x n10x"},
	} {
		got, err := Expand(tt.list)
		if err != nil || strings.Join(got, " ") != tt.want {
			t.Errorf("%q: %v, %v", tt.list, got, err)
		}
	}
	for _, bad := range []string{",", "a,,b", "n[1-", "n[3-1]", "n[a]", "n[0-99999999]", "n[1-1000][1-1000]", "n]", "a b", "n[]", "n[+1]"} {
		if got, err := Expand(bad); err == nil {
			t.Errorf("%q was taken for %v", bad, got)
		}
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("c1-[5,9,12-18],gpu-[1-2]x[01-02]")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := Expand(s)
		if err != nil {
			return
		}
		if len(got) > Most || slices.Contains(got, "") {
			t.Errorf("%q: %d names", s, len(got))
		}
	})
}

func BenchmarkExpand(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Expand("c1-[5-28,40-900],gpu-[1-16]"); err != nil {
			b.Fatal(err)
		}
	}
}
