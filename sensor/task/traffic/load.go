package traffic

import (
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"reckon/sensor/task/bpf"
)

//go:generate bash ../bpf/build traffic record

// The places where payload is counted.
const (
	byTracepoints = "tracepoints"
	byFexit       = "fexit"
)

// attachMethod is one way to count traffic: a set of kernel functions to attach programs to. Programs in must are
// mandatory. Those in beside are used if the kernel has the function.
type attachMethod struct {
	name         string
	must, beside []string
}

func attachMethods() []attachMethod {
	return []attachMethod{
		{byTracepoints, []string{trafficProgSent, trafficProgReceived}, []string{trafficProgSpliced}},
		{byFexit, []string{trafficProgSent4, trafficProgReceived4},
			[]string{trafficProgSent6, trafficProgReceived6, trafficProgSendpage, trafficProgSpliced}},
	}
}

// requiredPrograms returns the programs that every method needs, because accounts must be freed when their processes end.
func requiredPrograms() []string { return []string{trafficProgEnded, trafficProgHarvest} }

// loadedPrograms holds the programs and maps that were loaded into the kernel.
type loadedPrograms struct {
	hooks   string
	missing []error
	// unspliced: payload that the kernel takes out of sockets without a call of the process is not counted.
	unspliced bool
	objects   []interface{ Close() error } // closed in reverse
	accounts  *ebpf.Map
	programs  []*ebpf.Program // that are attached to events
	here      *ebpf.Map
	harvest   *link.Iter
}

func (k *loadedPrograms) close() {
	for i := len(k.objects) - 1; i >= 0; i-- {
		_ = k.objects[i].Close()
	}
}

// loadMethod loads the programs into the kernel.
func loadMethod(o Options) (*loadedPrograms, error) {
	explain := func(err error) error {
		return bpf.Explain(err, o.Root, "the kernel has no place to count traffic at",
			"use Linux 6.3 or later, or 5.13 with BPF trampolines")
	}
	if err := bpf.Permitted(); err != nil {
		return nil, explain(err)
	}
	cache, done, err := o.Types.Borrow()
	if err != nil {
		return nil, err
	}
	defer done()
	var first error
	for _, w := range attachMethods() {
		if o.hooks != "" && o.hooks != w.name {
			continue
		}
		for _, connections := range []bool{true, false} {
			k, err := loadPrograms(o, w, connections, cache)
			if errors.Is(err, unix.EPERM) && bpf.RaiseMemlock() == nil {
				k, err = loadPrograms(o, w, connections, cache)
			}
			if err == nil {
				return k, nil
			}
			if first == nil {
				first = fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	return nil, explain(first)
}

// configurePrograms reads the compiled programs and sets their parameters for the machine.
func configurePrograms(o Options, connections bool) (*ebpf.CollectionSpec, error) {
	spec, err := loadTraffic()
	if err != nil {
		return nil, fmt.Errorf("read the compiled programs: %w", err)
	}
	if err := spec.Variables[trafficVarConnections].Set(connections); err != nil {
		return nil, fmt.Errorf("set whether connections are followed: %w", err)
	}
	spec.Maps[trafficMapAccounts].MaxEntries = processRoom(bpf.PossibleCPUs(o.Root))
	if list, err := net.InterfaceAddrs(); err == nil {
		spec.Maps[trafficMapHere].MaxEntries = addressRoom(len(list))
	}
	spec.Maps[trafficMapPending].MaxEntries *= bpf.PossibleCPUs(o.Root)
	if o.accounts != 0 {
		spec.Maps[trafficMapAccounts].MaxEntries = o.accounts
	}
	return spec, nil
}

// processRoom returns the number of processes with traffic for which the table has room. It grows with the number of
// processors, because more processors end more processes. An account takes 0.6 KiB from the first traffic of its
// process until two passes after the end.
func processRoom(cpus uint32) uint32 { return min(8192+512*cpus, 1<<16) }

// addressRoom returns the number of addresses of this machine for which a table has room, given n configured
// addresses. Other network namespaces with connections need as many again.
func addressRoom(n int) uint32 { return uint32(min(max(2048, 2*n), 1<<16)) }

// loadPrograms loads the programs and attaches them by method w. connections enables storing data with sockets, which
// requires Linux 5.11.
func loadPrograms(o Options, method attachMethod, connections bool, cache *btf.Cache) (*loadedPrograms, error) {
	spec, err := configurePrograms(o, connections)
	if err != nil {
		return nil, err
	}
	all := spec.Programs
	spec.Programs = make(map[string]*ebpf.ProgramSpec)
	for _, name := range append(requiredPrograms(), method.must...) {
		spec.Programs[name] = all[name]
	}
	c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: cache})
	if err != nil {
		return nil, err
	}
	k := &loadedPrograms{hooks: method.name, accounts: c.Maps[trafficMapAccounts], here: c.Maps[trafficMapHere]}
	k.objects = append(k.objects, closeFunc(c.Close))
	if err := k.attachPrograms(c, method); err != nil {
		k.close()
		return nil, err
	}
	beside := method.beside
	if connections {
		beside = append([]string{trafficProgState, trafficProgRetransmit}, beside...)
	} else {
		beside = append([]string{trafficProgState}, beside...)
		k.missing = append(k.missing, errors.New("TCP segments sent again and connections accepted are not counted (Linux 5.11)"))
	}
	for _, name := range beside {
		if err := k.addProgram(spec, c, all[name], cache); err != nil {
			what := name
			if name == trafficProgSpliced {
				k.unspliced = true
				what = "bytes spliced out of sockets, as the kernel refuses fexit programs"
			}
			k.missing = append(k.missing, fmt.Errorf("%s: %w", what, bpf.Cause(err)))
		}
	}
	return k, nil
}

type closeFunc func()

func (f closeFunc) Close() error { f(); return nil }

// attachPrograms attaches the mandatory programs of method w. It attaches the iterator first, because that passes our pid namespace to
// the other programs. The program for ends of processes comes before those that create accounts, so that every account is ended.
func (k *loadedPrograms) attachPrograms(c *ebpf.Collection, w attachMethod) (err error) {
	if k.harvest, err = link.AttachIter(link.IterOptions{Program: c.Programs[trafficProgHarvest], Map: k.accounts}); err != nil {
		return fmt.Errorf("attach the map iterator: %w", err)
	}
	k.objects = append(k.objects, k.harvest)
	if err := k.runIterator(); err != nil {
		return err
	}
	for _, name := range append([]string{trafficProgEnded}, w.must...) {
		l, err := link.AttachTracing(link.TracingOptions{Program: c.Programs[name]})
		if err != nil {
			return fmt.Errorf("attach %s: %w", name, err)
		}
		k.objects, k.programs = append(k.objects, l), append(k.programs, c.Programs[name])
	}
	return nil
}

// runIterator runs the iterator once.
func (k *loadedPrograms) runIterator() error {
	fd, err := bpf.NewIteration(k.harvest.FD())
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for {
		if _, err := unix.Read(fd, make([]byte, recordSize)); err != unix.EAGAIN && err != unix.EINTR {
			return err
		}
	}
}

// addProgram loads and attaches another program that shares the existing maps.
func (k *loadedPrograms) addProgram(spec *ebpf.CollectionSpec, c *ebpf.Collection, p *ebpf.ProgramSpec, cache *btf.Cache) error {
	one := spec.Copy()
	one.Programs = map[string]*ebpf.ProgramSpec{p.Name: p}
	more, err := ebpf.NewCollectionWithOptions(one, ebpf.CollectionOptions{Cache: cache, MapReplacements: c.Maps})
	if err != nil {
		return err
	}
	k.objects = append(k.objects, closeFunc(more.Close))
	l, err := link.AttachTracing(link.TracingOptions{Program: more.Programs[p.Name]})
	if err != nil {
		return err
	}
	k.objects, k.programs = append(k.objects, l), append(k.programs, more.Programs[p.Name])
	return nil
}

// addressRefresh is the number of passes after which the addresses in our own network namespace are read again.
// Addresses in other namespaces become known through connections that use them.
const addressRefresh = 60

// passAddresses passes the addresses of this machine to the programs. Until a connection uses it, an address that
// cannot be read counts as the address of another machine.
func (k *loadedPrograms) passAddresses() {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return
	}
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return
	}
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			var key [16]byte
			copy(key[:], n.IP.To16())
			_ = k.here.Put(key, uint64(now.Nano())) // a full map gives the oldest away
		}
	}
}
