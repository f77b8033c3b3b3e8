package importbench

import (
	"context"
	"io"
	"os"
	"runtime"
	"syscall"
	"testing"

	"reckon/server"
	"reckon/web/client"
)

// BenchmarkSacct imports the export of sacct in the file that SACCT names. DATA keeps the data directory.
func BenchmarkSacct(b *testing.B) {
	name := os.Getenv("SACCT")
	if name == "" {
		b.Skip("SACCT names no file")
	}
	for b.Loop() {
		data := os.Getenv("DATA")
		if data == "" {
			data = b.TempDir()
		}
		before := cpu(b)
		r, err := server.ImportFiles(context.Background(), data, nil, client.ImportOptions{Format: "sacct", Progress: func(string) {}},
			[]client.ImportFile{{Name: name, Open: func() (io.ReadCloser, error) { return os.Open(name) }}})
		if err != nil {
			b.Fatalf("%+v %v", r, err)
		}
		b.ReportMetric(cpu(b)-before, "cpu-s/import")
		b.ReportMetric(float64(r.Taken), "jobs")
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err == nil {
		b.ReportMetric(float64(u.Maxrss)/1024, "MiB-resident")
	}
}
