package importbench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"reckon/server"
	"reckon/web/client"
)

// The load: nodes with processes in two jobs each, read every five minutes; jobs of two hours.
const (
	nodes, procs, readings = 250, 10, 400
	records                = nodes * procs * readings
)

// load writes the records as sonar's CSV.
func load(w io.Writer) error {
	b := bufio.NewWriterSize(w, 1<<20)
	start := time.Date(2023, 9, 1, 0, 0, 0, 0, time.UTC)
	for r := range readings {
		at := start.Add(time.Duration(r) * 5 * time.Minute).Format(time.RFC3339)
		group := r / 24
		for n := range nodes {
			for p := range procs {
				job := 100_000 + group*nodes*2 + n*2 + p/5
				fmt.Fprintf(b, "v=0.13.200,time=%s,host=c%d-%d.hpc,user=user%03d,cmd=prog%d,job=%d,pid=%d,ppid=%d,cpu%%=%d,cpukib=%d,rssanonkib=%d,cputime_sec=%d,epoch=0\n",
					at, n/50, n%50, job*7%60, p%5, job, 1000+group*100+p, 900+group, 85+p, 1_000_000+r, 500_000+r*10+p, (r%24+1)*(250+p*3))
			}
		}
	}
	return b.Flush()
}

func input() client.ImportFile {
	return client.ImportFile{Name: "sonar.csv", Open: func() (io.ReadCloser, error) {
		r, w := io.Pipe()
		go func() { _ = w.CloseWithError(load(w)) }()
		return r, nil
	}}
}

func cpu(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// BenchmarkImport counts the making of the records too: a tenth of it.
func BenchmarkImport(b *testing.B) {
	for b.Loop() {
		before := cpu(b)
		r, err := server.ImportFiles(context.Background(), b.TempDir(), nil, client.ImportOptions{Format: "sonar"}, []client.ImportFile{input()})
		if err != nil || r.Taken != records {
			b.Fatalf("%+v %v", r, err)
		}
		b.ReportMetric(cpu(b)-before, "cpu-s/import")
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err == nil {
		b.ReportMetric(float64(u.Maxrss)/1024, "MiB-resident")
	}
}

// BenchmarkJob asks for a job, over HTTP.
func BenchmarkJob(b *testing.B) {
	data := filepath.Join(b.TempDir(), "data")
	if _, err := server.ImportFiles(context.Background(), data, nil, client.ImportOptions{Format: "sonar"}, []client.ImportFile{input()}); err != nil {
		b.Fatal(err)
	}
	s, err := server.Open(context.Background(), server.Config{Listen: "127.0.0.1:0", Data: data, Receive: true})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() { cancel(); <-done }()
	c, err := client.New("http://" + s.Addr())
	if err != nil {
		b.Fatal(err)
	}
	n, before := 0, cpu(b)
	for b.Loop() {
		d, err := c.Workload(context.Background(), fmt.Sprintf("slurm/%d", 100_000+n*37%8500), client.Range{})
		if err != nil || d.CPUSeconds == nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric((cpu(b)-before)/float64(n), "cpu-s/job")
}
