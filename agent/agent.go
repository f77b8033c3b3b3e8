// Package agent composes the sensors, the resolvers and the accounts of one node into a loop that
// reads at a short internal tick and exports at longer intervals.
//
// One goroutine owns the sensors and the ledger. State that other goroutines may request at any
// time (the exposition, the state of the sensors) is copied under a lock at each export.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/s2"
	"golang.org/x/sys/unix"

	"reckon/account"
	"reckon/internal/kubelet"
	"reckon/metric"
	"reckon/metric/compat"
	"reckon/sensor"
	"reckon/sensor/all"
	"reckon/sensor/task"
	"reckon/web/client"
	"reckon/workload"
	"reckon/workload/kubernetes"
)

// Config configures the sources and intervals of an agent.
type Config struct {
	Node string // name of this machine; empty asks the kernel
	Root string // root of the file trees of the machine, "/" by default
	// Tegrastats is a file or named pipe that NVIDIA's tegrastats writes to; empty for none.
	Tegrastats string
	// Redfish is a file that names management controllers to ask for power; empty for none.
	Redfish string
	// Guests is the folder to which the energy of each virtual machine on this host is written (see
	// sensor/host), empty for none. HostEnergy is the file to which the host of this virtual
	// machine does so, empty for the default.
	Guests     string
	HostEnergy string
	// OwnMetrics is the file that lists the sources of external figures (see ownconfig.go),
	// Textfile additional folders of text files. Empty means none.
	OwnMetrics string
	Textfile   []string

	// Files reports on which file systems the calls of processes are counted: network (or empty), all or none.
	Files string

	// Counters reads the performance counters of the processors at each switch of threads, for every workload.
	Counters bool

	// Kubelet reports the names of pods.
	Kubelet Kubelet

	Source string // auto, ebpf, procfs
	Exits  string // auto, ebpf, taskstats, none
	Replay string // a recording to play instead of this machine

	Tick   time.Duration // between two readings, 1 s by default
	Export time.Duration // between two exports, 15 s by default
	Linger time.Duration // how long an ended workload stays in the exposition

	// PowerModel is a file with a power model for a machine without a meter. Empty selects the
	// built-in curve for this kind of machine, "none" no model.
	PowerModel string
	// Idle selects how the energy of an idle node is shared: none, request or even.
	Idle account.IdleShare

	// Compat names views under which Gather also shows each export; see metric/compat.
	Compat []string
	// StoreCompat also adds those views to each export, with a job and an instance, for dashboards
	// of other programs; see compat.go.
	StoreCompat bool

	// State is the file that carries the accounts over a restart; empty for none.
	State string
	// Expose keeps a copy of each export for Gather.
	Expose bool
	// Steady keeps timestamps monotonic when the system clock is stepped. push.Clock corrects them
	// when they are sent.
	Steady bool

	// Lean returns memory to the system every few minutes. It is for a process that does nothing
	// else, because its cost grows with the heap.
	Lean bool
	// Version is put into reckon_agent_info.
	Version string
	Logger  *slog.Logger

	named bool // Node was given
}

func (c *Config) defaults() error {
	if c.Root == "" {
		c.Root = "/"
	}
	if c.Tick <= 0 {
		c.Tick = time.Second
	}
	if c.Export <= 0 {
		c.Export = 15 * time.Second
	}
	if c.Export < c.Tick {
		return fmt.Errorf("the export interval %v is shorter than the tick %v", c.Export, c.Tick)
	}
	switch c.Idle {
	case "", account.IdleNone, account.IdleRequest, account.IdleEven:
	default:
		return fmt.Errorf("idle energy can be shared by none, request or even, not by %q", c.Idle)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.named = c.Node != ""; !c.named {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("read the name of this machine: %w; give it with --node", err)
		}
		c.Node, _, _ = strings.Cut(name, ".")
	}
	return nil
}

// Sink receives an export. It must not keep the batch.
type Sink func(ctx context.Context, b *metric.Batch) error

// Listener receives the ticks of a live view.
type Listener interface {
	Subscribers() int
	Publish(client.Live)
}

// Agent measures one node. Run must be called once; the other methods are safe for concurrent use.
type Agent struct {
	config Config
	log    *slog.Logger

	tasks   taskSource
	machine sensor.MachineReader
	cgroups sensor.CgroupReader
	sensors []*sensorState
	chain   workload.Chain
	pods    *kubelet.Cache // nil if no kubelet is asked
	packer  *s2.Writer     // of the state; nil before the first one
	// kubernetes is the resolver of the chain that asks it.
	kubernetes *kubernetes.Resolver
	waiting    metric.Cache // series of containers that wait
	notRunning metric.Cache // other pods and containers without an account, for consumers that list pods
	podNet     podNetworks
	podGroups  podCgroups
	user       func(uid uint32) string
	look       identityReader // at a process in /proc
	probes     []string       // workload.Probes
	ledger     *account.Ledger
	meter      *energyReading // nil if a recording is played
	closers    []io.Closer
	missing    []all.Entry // sensors that may appear later

	// The loop's own memory.
	pass     sensor.Pass
	total    sensor.Machine
	haveNode bool
	batch    metric.Batch
	gpu      gpuReading
	kernel   tallyReader
	monitors sensor.MonitorPass
	sharing  sharedMeasuring
	own      externalFigures
	views    []compat.View
	rates    fastPods
	stored   storedViews
	known    map[uint64]*cgroupSet
	// introduced is the boot time of the pass for which introduce ran last.
	introduced uint64
	leaders    map[int32]*groupLeader
	handles    map[string]*sharedHandle
	now        func() time.Time
	btime      int64 // seconds since the Unix epoch of boot
	bootID     string
	self       selfStats
	rows       []account.Live

	asks chan func() // run by the loop, between two ticks

	mu      sync.RWMutex // guards the fields below, and own.inputs
	exposed exportCopy
	status  []client.Sensor
}

// Node returns the name of the machine that the agent measures.
func (a *Agent) Node() string { return a.config.Node }

// startTicks is the number of ticks after which the agent returns the memory that its start used.
const startTicks = 5

// memoryReturnTicks is the number of ticks after which a lean agent returns unused memory again.
const memoryReturnTicks = 300

// Run reads until ctx ends, or until the end of a recording that is not repeated. Each export goes
// to every sink. If a sink fails, the error is logged and the other sinks continue. The last
// export, after ctx ends, gets a few seconds.
func (a *Agent) Run(ctx context.Context, live Listener, sinks ...Sink) error {
	ticker := time.NewTicker(a.config.Tick)
	defer ticker.Stop()
	searching, stop := context.WithCancel(ctx)
	defer stop()
	go a.rediscover(searching, a.missing)
	started := time.Now()
	next := started // the first export follows the first complete tick
	failing := make([]bool, len(sinks))
	for n := 0; ; n++ {
		a.gpu.next = next
		err := a.tick()
		switch {
		case errors.Is(err, io.EOF):
			a.export(a.passTime())
			a.send(ctx, sinks, failing)
			return nil
		case err != nil:
			return err
		}
		if n == startTicks || a.config.Lean && n%memoryReturnTicks == 0 {
			debug.FreeOSMemory() // memory used for opening the sensors, and garbage
		}
		if live != nil && live.Subscribers() > 0 {
			a.readCounts()
			live.Publish(a.buildLive())
		}
		if now := time.Now(); n > 0 && !now.Before(next) {
			a.awaitNames(ctx)
			a.export(a.passTime())
			a.save() // first, so that receivers never have more than the saved state
			a.send(ctx, sinks, failing)
			if next = next.Add(a.config.Export); next.Before(now) {
				next = now.Add(a.config.Export)
			}
		} else if n > 0 {
			a.sendFast(ctx, sinks, failing)
		}
		if !a.serveUntilTick(ctx, ticker.C) {
			return a.takeFinalReading(sinks, failing)
		}
	}
}

// serveUntilTick serves requests to the loop until the next tick. It returns false at the end.
func (a *Agent) serveUntilTick(ctx context.Context, tick <-chan time.Time) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick:
			return true
		case ask := <-a.asks:
			ask()
		}
	}
}

// takeFinalReading takes a final reading, so that no use is lost when the agent stops, and sends it to the sinks.
func (a *Agent) takeFinalReading(sinks []Sink, failing []bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := a.tick(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	a.export(a.passTime())
	a.save()
	a.send(ctx, sinks, failing)
	return nil
}

// tick reads the task table and the machine once.
func (a *Agent) tick() error {
	began := time.Now()
	a.gpu.startBackground(a.config.Tick)
	a.pass.Reset()
	if err := a.tasks.Read(&a.pass); err != nil {
		if errors.Is(err, io.EOF) {
			return err
		}
		// One failed pass loses nothing: the next one sees the same counters.
		a.recordResult(a.tasks.Name(), err)
		a.self.failed++
		return nil
	}
	a.pass.Lacks = task.Lacks(a.pass.Lacks, a.tasks.Live(), a.tasks.Exits())
	a.readChildTimes(&a.pass)
	var m *sensor.Machine
	if a.machine != nil {
		err := a.machine.ReadMachine(&a.total)
		a.recordResult("machine", err)
		if err == nil {
			m, a.haveNode = &a.total, true
		}
	}
	a.recordResult(a.tasks.Name(), a.pass.RefuseMemory(a.total.MemoryTotal))
	a.ledger.Tick(a.passTime(), &a.pass, m)
	a.tickLinks()
	a.tickCounts()
	a.measureShared()
	a.tickGPU()
	a.tickEnergy(m)
	a.self.countTick(time.Since(began), a.config.Tick)
	return nil
}

// passTime returns the wall time at which the current pass began. Figures carry this timestamp, because on an overloaded
// machine the export may follow seconds later. Its own time would not match the CPU times.
func (a *Agent) passTime() time.Time {
	now := a.now()
	var ts unix.Timespec
	if a.config.Replay != "" || unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return now
	}
	if late := time.Duration(ts.Nano()) - time.Duration(a.pass.Boot); late > 0 && late < time.Minute {
		return now.Add(-late)
	}
	return now
}

func (a *Agent) send(ctx context.Context, sinks []Sink, failing []bool) {
	a.sendBatch(ctx, &a.batch, sinks, failing)
}

func (a *Agent) sendBatch(ctx context.Context, b *metric.Batch, sinks []Sink, failing []bool) {
	for i, sink := range sinks {
		err := sink(ctx, b)
		switch {
		case err != nil:
			a.self.exportErrors++
			if !failing[i] { // once, not at every export
				a.log.Error("an export was not stored whole", "err", err)
			}
			failing[i] = true
		case failing[i]:
			a.log.Info("exports are stored again")
			failing[i] = false
		}
	}
}

// Close releases the agent's resources. Call it after Run has returned.
func (a *Agent) Close() error {
	var errs []error
	for _, u := range a.sensors {
		if u.sensor != nil {
			errs = append(errs, u.sensor.Close())
		}
	}
	for _, c := range a.closers {
		errs = append(errs, c.Close())
	}
	a.ledger.Close()
	return errors.Join(errs...)
}

// Reading returns a few words that name the sources of processes and of exit records.
func (a *Agent) Reading() string {
	s := "processes by " + a.tasks.Live()
	if exits := a.tasks.Exits(); exits != "" {
		return s + ", their ends by " + exits
	}
	return s + ", no exit records"
}

// ReadsExits reports whether the ends of processes are recorded.
func (a *Agent) ReadsExits() bool { return a.tasks.Exits() != "" }

// SeesOthersIO reports whether the I/O of processes of other users can be read.
func (a *Agent) SeesOthersIO() bool {
	if a.tasks.Live() == "ebpf" {
		return true
	}
	status, _ := os.ReadFile("/proc/self/status")
	uidMap, _ := os.ReadFile("/proc/self/uid_map")
	return maySeeAllUsers(string(status), string(uidMap))
}

// maySeeAllUsers reports whether the agent may read the details of processes of all users. It reads /proc/PID/status and
// /proc/PID/uid_map.
func maySeeAllUsers(status, uidMap string) bool {
	_, rest, _ := strings.Cut(status, "\nCapEff:")
	line, _, _ := strings.Cut(rest, "\n")
	set, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	return err == nil && set>>unix.CAP_SYS_PTRACE&1 == 1 && strings.Join(strings.Fields(uidMap), " ") == "0 0 4294967295"
}
