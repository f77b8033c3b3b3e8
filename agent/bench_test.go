package agent

import "testing"

// BenchmarkTick reads this machine as it is: run it with a thousand idle processes
// beside it (test/bench does) to hold it against the budget.
func BenchmarkTick(b *testing.B) {
	for _, source := range []string{"ebpf", "procfs"} {
		b.Run(source, func(b *testing.B) {
			a, _, err := Open(Config{Source: source})
			if err != nil {
				b.Skip(err)
			}
			defer a.Close()
			for range 3 {
				if err := a.tick(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := a.tick(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(a.pass.Live)), "processes")
		})
	}
}

// BenchmarkExport measures one export, all sensors included.
func BenchmarkExport(b *testing.B) {
	a, _, err := Open(Config{Source: "procfs", Expose: true})
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	for range 3 {
		if err := a.tick(); err != nil {
			b.Fatal(err)
		}
	}
	a.export(a.now())
	b.ReportAllocs()
	for b.Loop() {
		a.export(a.now())
	}
	b.ReportMetric(float64(len(a.batch.Samples)), "samples")
}
