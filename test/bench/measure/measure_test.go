package measure

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestKernelFigures(t *testing.T) {
	before := CPUOf(os.Getpid())
	n := 0
	for time.Duration(n) < 5_000_000 {
		n++
	}
	if after := CPUOf(os.Getpid()); before <= 0 || after <= before {
		t.Errorf("CPU time of this process %v, then %v", before, after)
	}
	if rss := Resident(os.Getpid()); rss < 1<<20 {
		t.Errorf("%g bytes", rss)
	}
	if m := Machine(); !strings.Contains(m, "cores of") {
		t.Errorf("%q", m)
	}
}
