package resident

import (
	"runtime"
	"testing"
)

func TestPercentFor(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 40}, {3 * mb, 40},
		{10 * mb, 40}, {10*mb + 262145, 39}, // 4 MB are 40 % of 10
		{20 * mb, 20}, {40 * mb, 10}, {41 * mb, 10}, {4000 * mb, 10},
	} {
		if got := percentFor(c.live, 40, 4*mb); got != c.want {
			t.Errorf("%d bytes live: %d %%, want %d", c.live, got, c.want)
		}
	}
}

func TestLive(t *testing.T) {
	block := make([]byte, 32<<20)
	runtime.GC()
	if n := live(); n < 32<<20 || n > 1<<30 {
		t.Errorf("%d bytes", n)
	}
	runtime.KeepAlive(block)
}
