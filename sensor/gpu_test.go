package sensor

import (
	"testing"

	"reckon/metric"
)

// Every figure has a series, and no two have the same one.
func TestGPUFigures(t *testing.T) {
	s := NewGPUSeries(&GPU{Vendor: "nvidia", Device: "GPU-1"})
	var b metric.Batch
	seen := map[string]bool{}
	listed := map[*metric.Desc]bool{}
	for _, d := range GPUDescs() {
		listed[d] = true
	}
	for f := range gpuFigures {
		s.Add(&b, f, 1)
	}
	s.Info(&b)
	for _, m := range b.Samples {
		k := m.Series.Desc.Name
		for _, v := range m.Series.Values {
			k += "|" + v
		}
		if seen[k] {
			t.Errorf("%s stands for two figures", k)
		}
		seen[k] = true
		if !listed[m.Series.Desc] {
			t.Errorf("%s is not listed", k)
		}
	}
	if len(b.Samples) != int(gpuFigures)+1 {
		t.Errorf("%d samples for %d figures", len(b.Samples), gpuFigures)
	}
	from := len(b.Samples)
	if n := testing.AllocsPerRun(20, func() { b.Samples = b.Samples[:0]; s.Add(&b, GPUPowerWatts, 3) }); n != 0 {
		t.Errorf("a figure allocates %v times (batch of %d)", n, from)
	}
}
