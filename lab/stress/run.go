package stress

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ErrUnavailable reports that this machine cannot generate a load at all.
var ErrUnavailable = errors.New("this machine cannot make that load")

// Options configure the run of a program. The zero value is usable.
type Options struct {
	Period time.Duration // of the CPU bursts; 0 is 2 ms
	Pin    bool          // pins each CPU thread to a CPU of its own

	Dir      string // folder of the file of the disk load; "" is the working directory
	Keep     bool   // leave that file behind
	FileSize int64  // size of the file in bytes; 0 means 256 MiB
	DiskMode DiskMode

	GPU int // number of the GPU that is loaded, from 0

	Peer string // host:port that receives the network load; "" is this process, over loopback

	// Done is called with each completed step; may be nil. It delays nothing.
	Done func(StepReport)
}

var errHangs = errors.New("a thread of the load hangs in the kernel: storage or network does not answer")

// endTimeout is the time that threads have to end after the program.
const endTimeout = 5 * time.Second

// lastSendTimeout is the time limit for sending the last bytes.
const lastSendTimeout = 200 * time.Millisecond

// programRun is a running program.
type programRun struct {
	Options
	p     Program
	peak  Level
	clock programClock
	stop  atomic.Bool
	wg    sync.WaitGroup

	spinners []*spinner
	memory   *memoryLoad
	disk     *diskLoad
	net      *networkLoad
	gpu      *gpuLoad
	meter    *useMeter

	mu       sync.Mutex
	failures []string
	report   Report
	last     reading
	io       [2]int64 // the kernel's counters of storage at the start: read, written
}

// Run executes a program and reports its targets and the achieved amounts. When ctx ends, the load stops. Run then
// returns the report of the time so far and no error.
func Run(ctx context.Context, p Program, o Options) (*Report, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if o.Period == 0 {
		o.Period = 2 * time.Millisecond
	}
	if o.Period < 500*time.Microsecond || o.Period > time.Second {
		return nil, fmt.Errorf("a period of %s: give 500us to 1s", o.Period)
	}
	if o.FileSize == 0 {
		o.FileSize = 256 << 20
	}
	r := &programRun{Options: o, p: p, peak: p.Peak()}
	cancel := context.AfterFunc(ctx, func() { r.stop.Store(true) })
	defer cancel()
	err := r.open(ctx)
	if err == nil {
		err = r.execute(ctx)
	}
	if !errors.Is(err, errHangs) { // After a hang, a thread still uses the resources that would be closed.
		err = errors.Join(err, r.close())
	}
	if err != nil {
		return nil, err
	}
	return &r.report, nil
}

// open acquires everything that may be unavailable, before any load starts.
func (r *programRun) open(ctx context.Context) error {
	if r.peak[GPU] > 0 {
		load, err := openGPU(r.p, r.GPU, openCUDA)
		if err != nil {
			return err
		}
		r.gpu = load
		r.report.addNote("the GPU load is on %s", load.dev.name())
	}
	if r.peak[DiskRead] > 0 || r.peak[DiskWrite] > 0 {
		r.disk = &diskLoad{dir: r.Dir, keep: r.Keep, size: r.FileSize, mode: r.DiskMode}
		if err := r.disk.openFile(r.peak[DiskRead] > 0, &r.stop); err != nil {
			return err
		}
		if asked := r.DiskMode; (asked == DiskAuto || asked == "") && r.disk.mode == DiskSync {
			r.report.addNote("the file system of %s does not support direct I/O: writes go through the page cache and are synced",
				r.disk.dir)
		}
	}
	if r.peak[Network] > 0 {
		r.net = &networkLoad{}
		if err := r.net.open(ctx, r.Peer); err != nil {
			return err
		}
	}
	if r.peak[Memory] > 0 {
		r.memory = &memoryLoad{curve: newCurve(r.p, Memory)}
		if err := r.memory.reserve(r.peak[Memory]); err != nil {
			return err
		}
		r.memory.resizeTo(r.p.Steps[0].Level[Memory], &r.stop) // before the measured time begins
	}
	return r.startSpinners()
}

// startSpinners creates the threads that load the CPU.
func (r *programRun) startSpinners() error {
	n := r.p.workers()
	cpus, err := allowedCPUs()
	if err != nil {
		return err
	}
	if r.peak[CPU] > float64(len(cpus)) {
		r.report.addNote("%.4g cores are wished, and this process may use %d CPUs", r.peak[CPU], len(cpus))
	}
	if r.Pin && n > len(cpus) {
		r.report.addNote("%d threads are pinned to %d CPUs: some share one", n, len(cpus))
	}
	curve := newCurve(r.p, CPU)
	for i := range n {
		s := &spinner{curve: curve, period: r.Period, phase: r.Period * time.Duration(i) / time.Duration(n), parts: float64(n), cpu: -1}
		if r.Pin {
			s.cpu = cpus[i%len(cpus)]
		}
		r.spinners = append(r.spinners, s)
	}
	r.meter = &useMeter{curve: curve, spinners: r.spinners, bytes: r.countBytes, step: r.atBoundary}
	return nil
}

// execute executes the program. It returns when all threads have ended. If the kernel does not release a thread, for
// example from a write to a hanging disk, play returns some seconds after the end.
func (r *programRun) execute(ctx context.Context) error {
	// Spinning threads must not wait for one another.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(len(r.spinners) + 6))
	ready, begin := make(chan error, len(r.spinners)), make(chan struct{})
	for _, s := range r.spinners {
		r.wg.Go(func() {
			ready <- s.prepare()
			<-begin
			s.run(&r.stop)
		})
	}
	for range r.spinners {
		if err := <-ready; err != nil {
			r.report.addNote("%v: the threads run where the kernel puts them", err)
		}
	}
	r.clock = newClock()
	for _, s := range r.spinners {
		s.clock = r.clock
	}
	r.meter.clock, r.meter.zero = r.clock, readClock(unix.CLOCK_PROCESS_CPUTIME_ID)
	r.io = storageBytes()
	r.report.Start = r.clock.start
	close(begin)
	r.startThreads()
	var border int
	var end reading
	r.wg.Go(func() {
		border, end = r.meter.run(&r.stop)
		if r.net != nil { // do not wait for a peer that receives nothing
			_ = r.net.out.SetDeadline(time.Now().Add(lastSendTimeout))
		}
	})

	ended := make(chan struct{})
	go func() { r.wg.Wait(); close(ended) }()
	late := time.NewTimer(r.p.Duration() + endTimeout)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
		return fmt.Errorf("the program is over: %w", errHangs)
	case <-ctx.Done():
		late.Reset(endTimeout)
		select {
		case <-ended:
		case <-late.C:
			return fmt.Errorf("%w: %w", ctx.Err(), errHangs)
		}
	}
	end.bytes = r.countBytes()
	r.atBoundary(border, end)
	r.finish(ctx)
	return nil
}

// startThreads starts all threads except the spinners.
func (r *programRun) startThreads() {
	if r.memory != nil {
		r.memory.clock = r.clock
		r.wg.Go(func() { r.memory.run(&r.stop, r.wait) })
	}
	if r.disk != nil {
		r.startStream(DiskWrite, &r.disk.written, blockSize, pieceSize, r.disk.writer())
		if r.peak[DiskRead] > 0 {
			read, err := r.disk.reader()
			if err != nil {
				r.addFailure(err)
			} else {
				r.startStream(DiskRead, &r.disk.read, blockSize, pieceSize, read)
			}
		}
	}
	if r.gpu != nil {
		r.wg.Go(func() {
			if err := r.gpu.run(r.clock, r.wait); err != nil {
				r.addFailure(err)
			}
		})
	}
	if r.net != nil {
		r.wg.Go(r.net.receiveAll)
		r.startStream(Network, &r.net.sent, 1, maxNetPiece, r.net.sendBytes)
	}
}

func (r *programRun) startStream(resource Resource, done *atomic.Int64, unit, maxBytes int, move func(int) (int, error)) {
	if r.peak[resource] == 0 {
		return
	}
	s := &byteStream{clock: r.clock, curve: newCurve(r.p, resource), unit: unit, max: maxBytes, done: done, interval: writeInterval,
		move: move}
	r.wg.Go(func() {
		if err := s.run(&r.stop, r.wait); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			r.addFailure(err)
		}
		if resource == Network {
			r.net.closeSending()
		}
	})
}

// wait sleeps until a time of the program. It returns false if the load should end.
func (r *programRun) wait(at time.Duration) bool {
	for {
		now := r.clock.elapsed()
		if r.stop.Load() {
			return false
		}
		if now >= at {
			return true
		}
		r.clock.sleepUntil(min(at, now+50*time.Millisecond))
	}
}

func (r *programRun) addFailure(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, err.Error())
}

func (r *programRun) countBytes() (b [resources]int64) {
	if r.disk != nil {
		b[DiskRead], b[DiskWrite] = r.disk.read.Load(), r.disk.written.Load()
	}
	if r.net != nil {
		b[Network] = r.net.sent.Load()
		if r.net.in != nil {
			b[Network] = r.net.got.Load()
		}
	}
	if r.gpu != nil {
		b[GPU] = r.gpu.busy.Load()
	}
	if r.memory != nil {
		b[Memory] = -1
		if now, err := residentBytes(); err == nil {
			b[Memory] = now
		}
	}
	return b
}

// atBoundary is called by the meter at the boundary before step i.
func (r *programRun) atBoundary(i int, m reading) {
	if i > 0 {
		s := r.stepReport(i-1, r.last, m)
		r.report.Steps = append(r.report.Steps, s)
		if r.Done != nil {
			r.Done(s)
		}
	}
	r.last = m
}

func (r *programRun) stepReport(i int, from, to reading) StepReport {
	d := to.at - from.at
	s := StepReport{Step: i + 1, Start: from.at.Seconds(), Seconds: d.Seconds(), Figures: map[string]Figure{}}
	for _, of := range All() {
		if r.peak[of] == 0 {
			continue
		}
		f := Figure{Wish: r.p.Steps[i].Level[of]}
		if got := r.achievedAmount(of, from, to); !math.IsNaN(got) && !math.IsInf(got, 0) {
			f.Achieved = &got
		}
		if of == CPU {
			f.Wish = (r.meter.curve.integralTo(to.at) - r.meter.curve.integralTo(from.at)) / float64(d)
			if dev := standardDeviation(r.meter.shares); !math.IsNaN(dev) {
				f.Deviation = &dev
			}
		}
		s.Figures[of.String()] = f
	}
	return s
}

func (r *programRun) achievedAmount(of Resource, from, to reading) float64 {
	d := (to.at - from.at).Seconds()
	switch of {
	case CPU:
		return float64(to.cpu-from.cpu) / 1e9 / d
	case Memory:
		if to.bytes[of] < 0 {
			return math.NaN()
		}
		return float64(to.bytes[of])
	case GPU: // busy nanoseconds of the device
		return float64(to.bytes[of]-from.bytes[of]) / 1e9 / d
	default:
		return float64(to.bytes[of]-from.bytes[of]) / d
	}
}

func (r *programRun) close() error {
	var errs []error
	if r.memory != nil {
		errs = append(errs, r.memory.close())
	}
	if r.disk != nil {
		errs = append(errs, r.disk.close())
	}
	if r.net != nil {
		errs = append(errs, r.net.close())
	}
	if r.gpu != nil {
		errs = append(errs, r.gpu.dev.close())
	}
	return errors.Join(errs...)
}

// storageBytes returns the bytes read and written by this process (proc_pid_io(5)), or -1 if unknown.
func storageBytes() [2]int64 {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return [2]int64{-1, -1}
	}
	return parseIO(string(text))
}

func parseIO(text string) [2]int64 {
	out := [2]int64{-1, -1}
	for i, name := range []string{"read_bytes:", "write_bytes:"} {
		for line := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(line, name); ok {
				if n, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64); err == nil && n >= 0 {
					out[i] = n
				}
			}
		}
	}
	return out
}
