package tsdb

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reckon/metric"
	"reckon/store/storetest"
)

// churnGroups makes the test binary a process that plays an hour of process groups which
// come and go, that many a second, into a store, and prints what it cost; see TestMain.
const churnGroups = "RECKON_TSDB_CHURN_GROUPS"

// A group lives for 20 s, is exported every 15 s, and has as many series as `reckon up`
// makes for one that works: 8 gauges and 12 counters.
const (
	churnLife   = 20 * time.Second
	churnExport = 15 * time.Second
	churnSeries = 20
	churnTime   = time.Hour
)

// churn plays the groups. Between exports it does what the janitor and the database do
// once a minute.
type churn struct {
	store *Store
	now   time.Time
	clock storetest.Clock
	batch metric.Batch
	live  []churnGroup
	born  int
}

type churnGroup struct {
	from   time.Time
	series []*metric.Series
}

var churnDescs = func() (list []*metric.Desc) {
	for i := range churnSeries {
		d := &metric.Desc{Name: fmt.Sprintf("reckon_workload_figure_%02d", i), Help: "A figure.", Kind: metric.Gauge, Unit: metric.Bytes, Labels: []string{"workload", "kind", "part", "owner"}}
		if i >= 8 {
			d.Name, d.Kind, d.Unit = d.Name+"_total", metric.Counter, metric.Seconds
		}
		list = append(list, d)
	}
	return list
}()

// export advances the time by one export, in which so many groups begin a second.
func (c *churn) export(perSecond float64) error {
	before := c.now
	c.now = c.clock.Set(c.now.Add(churnExport))
	for at := before; at.Before(c.now); at = at.Add(time.Duration(float64(time.Second) / perSecond)) {
		c.born++
		g := churnGroup{from: at}
		for _, d := range churnDescs {
			s := metric.NewSeries(d, fmt.Sprintf("group/node-01/%d-%d", 10_000+c.born%20_000, at.Unix()), "group", "", "alice")
			if d.Kind == metric.Counter {
				s.Created = at.UnixMilli()
			}
			g.series = append(g.series, s)
		}
		c.live = append(c.live, g)
	}
	c.batch.Reset(c.now)
	kept := c.live[:0]
	for i, g := range c.live {
		over := c.now.Sub(g.from) > churnLife
		for k, s := range g.series {
			c.batch.Add(s, float64((i*7+k*13)%97)+c.now.Sub(g.from).Seconds())
			c.batch.Samples[len(c.batch.Samples)-1].Last = over
		}
		if !over {
			kept = append(kept, g)
		}
	}
	c.live = kept
	return c.store.Append(context.Background(), external, &c.batch)
}

// countWarnings counts log lines of level warning or worse.
type countWarnings struct {
	slog.Handler
	n *atomic.Int64
}

func (h countWarnings) Enabled(context.Context, slog.Level) bool { return true }
func (h countWarnings) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		h.n.Add(1)
	}
	return nil
}
func (h countWarnings) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h countWarnings) WithGroup(string) slog.Handler      { return h }

func printChurn(perSecond float64) error {
	dir, err := os.MkdirTemp("", "reckon-churn-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var warnings atomic.Int64
	c := &churn{now: time.Now().Truncate(blockRange).Add(-blockRange)}
	c.clock.Set(c.now)
	c.store, err = Open(Options{Dir: dir, Clock: c.clock.Now, Logger: slog.New(countWarnings{n: &warnings})})
	if err != nil {
		return err
	}
	debug.SetGCPercent(50) // as reckon up does
	written, cpu := writtenBytes(), cpuTime()
	var mean, peak float64
	for elapsed := time.Duration(0); elapsed < churnTime; elapsed += churnExport {
		if err := c.export(perSecond); err != nil {
			return err
		}
		if elapsed%endedEvery == 0 {
			c.store.evictEnded(c.store.db)
		}
		if elapsed%time.Minute == 0 {
			if err := c.store.db.Compact(context.Background()); err != nil {
				return err
			}
			mean += statusKB("RssAnon:") / churnTime.Minutes()
		}
		peak = max(peak, statusKB("RssAnon:"))
	}
	written, cpu = writtenBytes()-written, cpuTime()-cpu
	blocks, err := dirBytes(dir)
	if err != nil {
		return err
	}
	wal, _ := dirBytes(filepath.Join(dir, "wal"))          // an error counts nothing
	head, _ := dirBytes(filepath.Join(dir, "chunks_head")) // nor here
	fmt.Println(float64(written)/1e6, float64(blocks-wal-head)/1e6, float64(wal)/1e6, peak/1e3, mean/1e3, cpu.Seconds(), len(c.store.db.Blocks()), warnings.Load())
	return c.store.Close()
}

// writtenBytes is the amount that this process gave to write(2).
func writtenBytes() int64 {
	raw, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	var n int64
	for line := range strings.Lines(string(raw)) {
		if _, err := fmt.Sscanf(line, "wchar: %d", &n); err == nil {
			return n
		}
	}
	return 0
}

func cpuTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func statusKB(name string) (kb float64) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), name+" %f", &kb); err == nil {
			return kb
		}
	}
	return 0
}

// BenchmarkChurn plays an hour of groups that come and go: bytes written, how many of them are
// kept in blocks and in the log, the largest and the mean resident set (anonymous memory),
// the CPU time, blocks and warnings at the end.
func BenchmarkChurn(b *testing.B) {
	for _, rate := range []string{"2", "5", "20"} {
		b.Run("groups/s="+rate, func(b *testing.B) {
			for b.Loop() {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), churnGroups+"="+rate)
				out, err := cmd.CombinedOutput()
				if err != nil {
					b.Fatalf("%v: %s", err, out)
				}
				var written, kept, wal, peak, mean, cpu, blocks, warnings float64
				if _, err := fmt.Sscan(string(out), &written, &kept, &wal, &peak, &mean, &cpu, &blocks, &warnings); err != nil {
					b.Fatalf("%q: %v", out, err)
				}
				b.ReportMetric(written, "MB-written")
				b.ReportMetric(kept, "MB-blocks")
				b.ReportMetric(wal, "MB-log")
				b.ReportMetric(peak, "MB-peak")
				b.ReportMetric(mean, "MB-mean")
				b.ReportMetric(cpu, "CPU-s")
				b.ReportMetric(blocks, "blocks")
				b.ReportMetric(warnings, "warnings")
			}
		})
	}
}
