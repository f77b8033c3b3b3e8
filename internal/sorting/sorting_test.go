package sorting_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"reckon/internal/sorting"
)

type pair struct {
	Key, Place int
	Text       string
}

func byKey(a, b pair) int { return cmp.Compare(a.Key, b.Key) }

func pairs(n int) []pair {
	r := rand.New(rand.NewPCG(12, uint64(n)))
	x := make([]pair, n)
	for i := range x {
		x[i] = pair{r.IntN(max(n/3, 1)), i, fmt.Sprint(i)}
	}
	return x
}

// TestAsSlices sorts lists with many equal keys, of lengths on both sides of those where the algorithm changes (12 and 50),
// as package slices sorts them.
func TestAsSlices(t *testing.T) {
	for _, n := range []int{0, 1, 2, 12, 13, 49, 50, 51, 3000} {
		in := pairs(n)
		for name, sort := range map[string][2]func([]pair, func(a, b pair) int){
			"Func":   {sorting.Func[pair], slices.SortFunc[[]pair]},
			"Stable": {sorting.Stable[pair], slices.SortStableFunc[[]pair]},
		} {
			got, want := slices.Clone(in), slices.Clone(in)
			sort[0](got, byKey)
			sort[1](want, byKey)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s of %d: %v, not %v", name, n, got, want)
			}
		}
		if got := sorting.Collect(slices.Values(in), byKey); !slices.IsSortedFunc(got, byKey) || len(got) != n {
			t.Errorf("Collect of %d: %v", n, got)
		}
	}
}

func BenchmarkFunc(b *testing.B)   { bench(b, sorting.Func[pair]) }
func BenchmarkSlices(b *testing.B) { bench(b, slices.SortFunc[[]pair]) }

func bench(b *testing.B, sort func([]pair, func(a, b pair) int)) {
	in := pairs(1000)
	x := make([]pair, len(in))
	b.ReportAllocs()
	for b.Loop() {
		copy(x, in)
		sort(x, byKey)
	}
}
