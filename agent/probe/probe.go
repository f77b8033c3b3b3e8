package probe

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"reckon/web/client"
)

// Options of a measurement.
type Options struct {
	// Proc is the folder to read; empty: /proc.
	Proc string
	// Rate is the time between two readings.
	Rate time.Duration
	// Completions is the number of samples that are wanted; 0: until the application has ended.
	Completions int64
	// Processes and Threads ask for these tables.
	Processes, Threads bool
	// Commands limits the tables to commands that begin like one of these; nil means all. The
	// totals always cover the whole pod.
	Commands []string
	// Pod and PodUID name the pod in the served data.
	Pod, PodUID string

	boot time.Time
}

// Limits on the data kept while no reader fetches it. Above maxRows, new samples omit their tables and take less than 1
// KB each. At maxSamples, the measurement ends.
const (
	maxRows    = 200_000
	maxSamples = 100_000
)

// tailInterval is the shortest pause between additional readings of an application. When the application ends, its use since
// the last of these readings is lost.
const tailInterval = 100 * time.Millisecond

// Probe measures a pod and keeps the samples until they have been read. It is safe for concurrent use.
type Probe struct {
	options Options
	reader  *reader

	mu      sync.Mutex
	page    client.ProbePage // without samples
	samples []client.ProbeSample
	rows    int
	total   client.ProbeUse // of all samples
	lastTo  time.Time
	next    int64 // the number of the next sample
	changed chan struct{}
	read    int64         // a reader has requested samples after this one
	drained chan struct{} // closed when the end was served and all before it read
}

// New returns a probe that has not started.
func New(o Options) (*Probe, error) {
	if o.Proc == "" {
		o.Proc = "/proc"
	}
	if o.Rate < 100*time.Millisecond {
		return nil, fmt.Errorf("a rate of %s is too fast: 100ms is the least", o.Rate)
	}
	p := &Probe{options: o, reader: newReader(o.Proc), next: 1, changed: make(chan struct{}), drained: make(chan struct{})}
	p.options.boot = p.reader.boot
	p.reader.threads = o.Threads
	p.reader.match = commandMatcher(o.Commands)
	p.page = client.ProbePage{Pod: o.Pod, PodUID: o.PodUID, RateSeconds: o.Rate.Seconds(), Wanted: o.Completions, Kernel: kernelRelease(),
		Boot: bootID(o.Proc)}
	return p, nil
}

// commandMatcher returns a function that reports whether a process runs one of the commands.
func commandMatcher(commands []string) func(string, []byte) bool {
	if len(commands) == 0 {
		return func(string, []byte) bool { return true }
	}
	return func(name string, args []byte) bool {
		line := strings.ReplaceAll(strings.TrimRight(string(args), "\x00"), "\x00", " ")
		for _, c := range commands {
			first, _, _ := strings.Cut(c, " ")
			if line == c || strings.HasPrefix(line, c+" ") || c == first && filepath.Base(c) == name {
				return true
			}
		}
		return false
	}
}

// Run waits for the application and measures it. It ends after the wanted number of samples, or when the application or
// ctx ends. The application has ended when only the probe and the process that holds the namespace are left.
func (p *Probe) Run(ctx context.Context) error {
	before, err := p.waitForStart(ctx)
	if err != nil || before == nil {
		p.endMeasurement("stopped")
		return err
	}
	start, high := before.at, before.sumCounters().cpu
	p.mu.Lock()
	p.page.Start = start
	p.mu.Unlock()
	reason := "completions"
	for n := int64(1); p.options.Completions == 0 || n <= p.options.Completions; n++ {
		// Readings stay on the grid of the first, but never closer than half the rate.
		due := start.Add(time.Duration(n) * p.options.Rate)
		if nearest := before.at.Add(p.options.Rate / 2); due.Before(nearest) {
			due = nearest
		}
		after, stop := p.waitForReading(ctx, due)
		if after != nil {
			high = p.addSample(before, after, high)
			before = after
		}
		if stop != "" {
			reason = stop
			break
		}
		if n == maxSamples {
			reason = "full"
			break
		}
	}
	p.endMeasurement(reason)
	return nil
}

// waitForStart waits for the application to start. It returns the last reading without the application, so that no use is
// missed. If the application started before the probe, it returns the first reading. It returns nil if ctx ends.
func (p *Probe) waitForStart(ctx context.Context) (*processTable, error) {
	var last *processTable
	for {
		t, err := p.reader.read(time.Now())
		if err != nil {
			return nil, err
		}
		if p.reader.hasApplication(t) {
			if last == nil {
				last = t
			}
			return last, nil
		}
		last = t
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(p.options.Rate / 50):
		}
	}
}

// waitForReading waits until due and returns the reading then. It also reads the application in between, so that little use is
// lost when the application ends. In that case, it returns the last reading before the end, or nil if there was none.
// stop is the reason for the end, or empty.
func (p *Probe) waitForReading(ctx context.Context, due time.Time) (after *processTable, stop string) {
	pause := tailInterval
	for {
		done := false
		select {
		case <-ctx.Done():
			done = true
		case <-time.After(max(min(time.Until(due), pause), 0)):
		}
		began := time.Now()
		t, err := p.reader.read(began)
		switch {
		case err != nil:
			return after, "stopped"
		case !p.reader.hasApplication(t):
			return after, "application"
		case done:
			return t, "stopped"
		case !t.at.Before(due):
			return t, ""
		}
		after = t
		pause = max(tailInterval, 50*time.Since(began)) // at most 2 % of a processor
	}
}

// hasApplication reports whether t contains a process of the application. Zombies do not count, and neither does the first
// process of the namespace if it is the pause container.
func (r *reader) hasApplication(t *processTable) bool {
	for k, p := range t.processes {
		if !p.zombie && !(k.pid == 1 && p.command == "pause") {
			return true
		}
	}
	return false
}

// addSample stores the sample between two readings and returns the new high. high is the processor time counted so far.
func (p *Probe) addSample(before, after *processTable, high int64) int64 {
	s, high := sampleBetween(before, after, p.options, high)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Seq = p.next
	p.next++
	rows := len(s.Commands) + len(s.Processes) + len(s.Threads)
	if p.rows+rows > maxRows {
		s.Commands, s.Processes, s.Threads, s.Dropped, rows = nil, nil, nil, true, 0
	}
	p.rows += rows
	p.samples = append(p.samples, s)
	if s.Seq == 1 {
		p.total = s.Total
	} else {
		p.total = p.total.Plus(s.Total)
	}
	p.lastTo = s.To
	for name, why := range after.absent {
		if p.page.Absent == nil {
			p.page.Absent = map[string]string{}
		}
		p.page.Absent[name] = why
	}
	p.wakeWaiters()
	return high
}

// Result ends a measurement of another kind with its result.
func (p *Probe) Result(r *client.ProbeResult) {
	p.mu.Lock()
	p.page.Result = r
	p.mu.Unlock()
	p.endMeasurement("completions")
}

func (p *Probe) endMeasurement(reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.page.Ended, p.page.Reason = true, reason
	p.wakeWaiters()
}

// wakeWaiters signals a change to all waiting goroutines. The caller must hold the lock.
func (p *Probe) wakeWaiters() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Page returns up to limit samples with a sequence number greater than after. It discards the samples up to the number
// kept. It waits for a sample until the measurement or ctx ends.
func (p *Probe) Page(ctx context.Context, after, kept int64, limit int) client.ProbePage {
	for {
		p.mu.Lock()
		p.acknowledge(kept)
		page, changed := p.page, p.changed
		page.Last = p.next - 1
		page.Samples = []client.ProbeSample{}
		for _, s := range p.samples {
			if s.Seq > after && len(page.Samples) < limit {
				page.Samples = append(page.Samples, s)
			}
		}
		// The end is served with the last sample.
		page.Ended = page.Ended && (len(page.Samples) == 0 || page.Samples[len(page.Samples)-1].Seq == page.Last)
		p.mu.Unlock()
		if len(page.Samples) > 0 || page.Ended || ctx.Err() != nil {
			return page
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// acknowledge drops samples that the reader has received, up to the number after. The caller must hold the lock.
func (p *Probe) acknowledge(after int64) {
	if after > p.next-1 {
		after = p.next - 1
	}
	p.read = max(p.read, after)
	keep := 0
	for keep < len(p.samples) && p.samples[keep].Seq <= p.read {
		s := p.samples[keep]
		p.rows -= len(s.Commands) + len(s.Processes) + len(s.Threads)
		keep++
	}
	p.samples = append([]client.ProbeSample(nil), p.samples[keep:]...)
}

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

func bootID(proc string) string {
	text, err := os.ReadFile(filepath.Join(proc, "sys/kernel/random/boot_id"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
