package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"reckon/account"
	"reckon/agent/external"
	"reckon/internal/kubelet"
	"reckon/metric/compat"
	"reckon/sensor"
	"reckon/sensor/all"
	"reckon/sensor/cgroup"
	"reckon/sensor/node"
	"reckon/sensor/podstorage"
	"reckon/sensor/task"
	"reckon/sensor/task/bpf"
	"reckon/sensor/task/procfs"
	"reckon/workload"
	resolvers "reckon/workload/all"
	"reckon/workload/users"
)

// taskSource is the task table with its exit records.
type taskSource interface {
	sensor.TaskSource
	sensor.CgroupNamer
	// Live and Exits name the sources in use; Exits is empty when there is none.
	Live() string
	Exits() string
}

// Numbers of files that an agent opens: 158 with all kernel programs, 66 for root with --source
// procfs. Below UsualFiles some sensors are unavailable, below LeastFiles most of them.
const (
	LeastFiles = 96
	UsualFiles = 160
)

// Note is a sensor that is not available, and why.
type Note struct {
	Sensor string
	Err    error
}

// Open opens the sources that this machine has. It returns a note for each source that cannot be read. It returns an
// error only if the task table is unreadable.
func Open(c Config) (agent *Agent, notes []Note, err error) {
	if err := c.defaults(); err != nil {
		return nil, nil, err
	}
	a := newAgent(c)
	a.ledger = a.newLedger()
	if c.Replay != "" {
		err = a.openReplay()
	} else {
		notes, err = a.openMachine()
	}
	if err != nil {
		return nil, nil, err
	}
	if a.views, err = compat.New(a.config.Node, c.Compat); err != nil {
		_ = a.Close()
		return nil, nil, err
	}
	a.stored.instance = a.config.Node
	a.restore()
	for i := range notes {
		notes[i].Err = explainFileLimit(notes[i].Err)
	}
	return a, notes, nil
}

func newAgent(c Config) *Agent {
	return &Agent{
		config: c, log: c.Logger,
		chain: resolvers.Chain(), probes: workload.Probes(),
		known: make(map[uint64]*cgroupSet), leaders: make(map[int32]*groupLeader),
		handles: make(map[string]*sharedHandle),
		now:     newClock(c.Logger).now, asks: make(chan func()),
	}
}

func (a *Agent) newLedger() *account.Ledger {
	return account.New(account.Config{
		Node: a.config.Node, Export: a.config.Export, Linger: a.config.Linger, Identify: a.identify, Idle: a.config.Idle,
		Rename: a.rename, NameGrace: a.nameGrace, Container: a.container, Tallies: task.TallySpecs(), Login: a.login,
		Within: a.neededMemory,
	})
}

// openMachine opens the sensors of this machine.
func (a *Agent) openMachine() ([]Note, error) {
	c := &a.config
	own, err := readOwnConfig(c)
	if err != nil {
		return nil, err
	}
	if err := a.openKubelet(own.Pods); err != nil {
		return nil, err
	}
	if a.pods != nil {
		a.closers = append(a.closers, a.pods)
		defer a.addSensor("kubelet", kubeletSensor{a.pods}, nil)
		folder := cmp.Or(c.Kubelet.Folder, kubelet.DefaultFolder)
		defer a.addSensor("pod-storage", &podStorage{Reader: podstorage.New(c.Root, folder), agent: a}, nil)
	}
	types := new(bpf.Types)
	defer types.Release()
	tasks := task.Options{Root: c.Root, Source: c.Source, Exits: c.Exits, Files: c.Files, Counters: c.Counters, Types: types}
	source, missing, err := task.Open(tasks)
	if err != nil {
		return nil, fmt.Errorf("read the task table: %w", err)
	}
	var notes []Note
	note := func(name string, s sensor.Sensor, err error) {
		a.addSensor(name, s, err)
		if err != nil {
			notes = append(notes, Note{name, err})
		}
	}
	a.tasks = source
	a.closers = append(a.closers, source)
	a.reportMissedEvents(source.Name(), source)
	a.addSensor(source.Name(), nil, nil)
	for _, m := range missing {
		note(m.Sensor, nil, m.Err)
	}
	a.look = procfs.NewProc(c.Root)
	names := users.New(c.Root)
	a.user = names.Name
	a.closers = append(a.closers, names)
	a.btime = bootTime(c.Root)
	if c.Steady {
		a.now = a.steadyTime
	}
	a.bootID = bootID(c.Root)

	machine, err := node.NewMachine(c.Root)
	if err == nil {
		a.machine = machine
		a.closers = append(a.closers, machine)
	}
	note("machine", nil, err)
	groups, err := cgroup.New(cgroup.Options{Root: c.Root, Tick: c.Tick})
	if err == nil {
		a.cgroups = groups
		a.closers = append(a.closers, groups)
	}
	note("cgroup", nil, err)
	readers := slices.Concat(
		all.Configured(all.Options{Root: c.Root, Tegrastats: c.Tegrastats, HostEnergy: c.HostEnergy, Redfish: c.Redfish}),
		external.Sensors(external.Options{Root: c.Root, Textfile: own.Textfile, Scrape: own.Scrape, Pods: own.Pods, Kubelet: a.pods,
			Custom: own.Custom}))
	for _, e := range readers {
		s, err := e.Open()
		if own.hasInput(e.Name) && err != nil && !errors.Is(err, sensor.ErrUnavailable) {
			_ = a.Close() // the mistake is to be mended first
			return nil, fmt.Errorf("own metrics, %s: %w", e.Name, err)
		}
		if mayAppear(e, err) {
			a.missing = append(a.missing, e)
		}
		note(e.Name, s, err)
	}
	a.openOwnReaders(own.MaxSeries)
	notes = append(notes, a.openMeters()...)
	a.openGPUs()
	notes = append(notes, a.openTallies(tasks)...)
	notes = append(notes, a.openLinks(tasks)...)
	responses, err := task.OpenDisks(tasks)
	if err == nil {
		a.reportMissedEvents(responses.Name(), responses)
	}
	note("disks", responses, err)
	return notes, nil
}

// bootTime returns the boot time of the machine in seconds since the Unix epoch (btime of
// /proc/stat, see proc(5)). It is constant for a boot, so the names of process groups survive a
// restart of the agent.
func bootTime(root string) int64 {
	data, _ := os.ReadFile(filepath.Join(root, "proc/stat"))
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(line, "btime "); ok {
			if n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil {
				return n
			}
		}
	}
	return time.Now().Unix()
}

// bootID returns the random id of this boot (Documentation/admin-guide/sysctl/kernel.rst, random).
func bootID(root string) string {
	data, _ := os.ReadFile(filepath.Join(root, "proc/sys/kernel/random/boot_id"))
	return strings.TrimSpace(string(data))
}

// restore restores the accounts of an earlier agent of this boot.
func (a *Agent) restore() {
	if a.config.State == "" || a.bootID == "" {
		return
	}
	data, err := readState(a.config.State)
	if os.IsNotExist(err) {
		a.log.Info("accounts begin now: none were saved", "file", a.config.State)
		return
	}
	if err == nil {
		err = a.ledger.Restore(data, a.bootID)
	}
	switch {
	case err == nil:
		if booted := a.ledger.Booted(); booted != 0 {
			a.btime = booted
		}
		a.restoreLeaders()
	case errors.Is(err, account.ErrDamaged):
		aside := a.config.State + ".damaged"
		a.log.Warn(
			"accounts start from zero: the saved ones are damaged, and the usage since the last export is lost; "+
				"the file was set aside and may be deleted", "file", a.config.State, "aside", aside, "reason", err.Error())
		if err := os.Rename(a.config.State, aside); err != nil {
			a.log.Warn("the damaged file could not be set aside", "err", err)
		}
	case errors.Is(err, fs.ErrPermission):
		a.log.Warn("accounts start from zero: the saved ones cannot be read; give the file to the agent's user, or delete it",
			"file", a.config.State, "err", err)
	default:
		a.log.Info("accounts start from zero", "file", a.config.State, "reason", err.Error())
	}
	a.ledger.SetBooted(a.btime)
}

// save writes the accounts to the state file, so that a restarted agent continues from them. It replaces the file
// atomically: after a crash, the previous file is intact.
func (a *Agent) save() {
	if a.config.State == "" || a.bootID == "" {
		return
	}
	err := a.replaceState(a.config.State + ".new")
	switch {
	case err != nil && !a.self.saveFailed:
		a.log.Warn("the accounts could not be saved; a restart of the agent will lose the usage since the last save", "err", err)
		a.self.saveFailed = true
	case err == nil:
		a.self.saveFailed = false
	}
}
