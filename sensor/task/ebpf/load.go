package ebpf

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"reckon/sensor/task/bpf"
)

//go:generate bash bpf/build

// loadedPrograms holds the programs and maps that were loaded into the kernel.
type loadedPrograms struct {
	programs []*ebpf.Program
	events   *ebpf.Map
	reported *ebpf.Map
	anew     *ebpf.Map
	harvest  *ebpf.Map // counts of ended threads
	walk     *link.Iter
	list     *processLister // nil before Linux 6.7
	claim    *link.Iter     // nil before Linux 5.9
	traces   []link.Link
	bss      *ebpf.Map // variables that the programs share
	opens    *ebpf.Map // nil if opens of GPUs are not traced
	exits    error     // why the ends of processes are not traced; nil if they are
}

func (k *loadedPrograms) close() {
	for _, l := range k.traces {
		_ = l.Close()
	}
	for _, it := range []*link.Iter{k.walk, k.claim} {
		if it != nil {
			_ = it.Close()
		}
	}
	_ = k.list.close()
	for _, m := range []*ebpf.Map{k.events, k.reported, k.anew, k.harvest, k.bss, k.opens} {
		if m != nil {
			_ = m.Close()
		}
	}
	for _, p := range k.programs {
		_ = p.Close()
	}
}

// loadPrograms loads the programs into the kernel.
func loadPrograms(o Options) (*loadedPrograms, error) {
	if err := bpf.Permitted(); err != nil {
		return nil, explainLoad(err, o.Root)
	}
	cache, done, err := o.Types.Borrow()
	if err != nil {
		return nil, err
	}
	defer done()
	spec, err := loadTasks()
	if err != nil {
		return nil, fmt.Errorf("read the compiled programs: %w", err)
	}
	cpus := bpf.PossibleCPUs(o.Root)
	if err := spec.Variables[tasksVarNrCpus].Set(cpus); err != nil {
		return nil, fmt.Errorf("set the number of processors: %w", err)
	}
	spec.Maps[tasksMapEvents].MaxEntries, spec.Maps[tasksMapEnding].MaxEntries = recordRoom(cpus)
	spec.Maps[tasksMapHarvest].MaxEntries = cmp.Or(o.harvest, 2*spec.Maps[tasksMapEnding].MaxEntries)

	opens := spec.Copy()
	removePrograms(spec, tasksProgOpened)
	delete(spec.Maps, tasksMapOpens)
	var without error // why ends are not traced
	if o.NoExits {
		without = errNotRequested
		removePrograms(spec, tasksProgEnded, tasksProgFreed)
	}
	for _, unwanted := range [][]string{nil, {tasksProgList}, {tasksProgClaim}, {tasksProgEnded, tasksProgFreed}} {
		removePrograms(spec, unwanted...)
		if spec.Programs[tasksProgEnded] == nil {
			removePrograms(spec, tasksProgClaim)
			without = cmp.Or(without, err)
		}
		var k *loadedPrograms
		k, err = attachPrograms(spec, cache)
		if errors.Is(err, unix.EPERM) && bpf.RaiseMemlock() == nil {
			k, err = attachPrograms(spec, cache) // before Linux 5.11 BPF memory counts as locked memory
		}
		if err == nil {
			k.exits = without
			k.traceOpens(opens, cache)
			return k, nil
		}
	}
	return nil, explainLoad(err, o.Root)
}

// traceOpens enables the recording of GPU opens if the kernel can trace the function that opens character devices.
// amd64 kernels can since Linux 5.5, arm64 kernels since about 6.4.
func (k *loadedPrograms) traceOpens(spec *ebpf.CollectionSpec, cache *btf.Cache) {
	const shared = ".bss"
	spec.Programs = map[string]*ebpf.ProgramSpec{tasksProgOpened: spec.Programs[tasksProgOpened]}
	spec.Maps = map[string]*ebpf.MapSpec{shared: spec.Maps[shared], tasksMapOpens: spec.Maps[tasksMapOpens]}
	spec.Variables = nil
	c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: cache,
		MapReplacements: map[string]*ebpf.Map{shared: k.bss}})
	if err != nil {
		return
	}
	defer c.Close()
	l, err := link.AttachTracing(link.TracingOptions{Program: c.Programs[tasksProgOpened]})
	if err != nil {
		return
	}
	k.traces, k.opens = append(k.traces, l), c.DetachMap(tasksMapOpens)
}

func removePrograms(spec *ebpf.CollectionSpec, programs ...string) {
	for _, name := range programs {
		delete(spec.Programs, name)
	}
}

// recordRoom returns ring, the number of bytes for records between two passes, and ending, the number of processes
// between their end and their release by the kernel. Both grow with the number of processors. 256 KiB per processor
// have room for 1,000 ends. The kernel reserves up to 128 map entries per processor (LOCAL_FREE_TARGET in
// kernel/bpf/bpf_lru_list.c). Without further entries it would evict used ones, and ends would be lost without notice.
func recordRoom(cpus uint32) (ring, ending uint32) {
	ring = 1 << 20
	for ring>>18 < cpus && ring < 16<<20 {
		ring *= 2
	}
	return ring, 4096 + 192*min(cpus, 512)
}

// errNotRequested is the reason why exits are missing if they were not requested.
var errNotRequested = errors.New("not asked for")

// explainLoad turns a loading error into one line with the action to take.
func explainLoad(err error, root string) error {
	return bpf.Explain(err, root, "the kernel does not take the BPF task iterator", "use Linux 5.8 or later")
}

// attachPrograms loads the programs of spec and attaches them.
func attachPrograms(spec *ebpf.CollectionSpec, cache *btf.Cache) (*loadedPrograms, error) {
	c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: cache})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	k := &loadedPrograms{
		events: c.DetachMap(tasksMapEvents), reported: c.DetachMap(tasksMapTold), anew: c.DetachMap(tasksMapAnew),
		harvest: c.DetachMap(tasksMapHarvest), bss: c.DetachMap(".bss"),
	}
	fail := func(err error) (*loadedPrograms, error) {
		k.close()
		return nil, err
	}
	program := func(name string) *ebpf.Program {
		p := c.DetachProgram(name)
		if p != nil {
			k.programs = append(k.programs, p)
		}
		return p
	}
	if k.walk, err = link.AttachIter(link.IterOptions{Program: program(tasksProgWalk)}); err != nil {
		return fail(fmt.Errorf("attach the task iterator: %w", err))
	}
	if p := program(tasksProgList); p != nil {
		if k.list, err = openListing(p, c.Maps[tasksMapListing]); err != nil {
			return fail(err)
		}
	}
	if p := program(tasksProgClaim); p != nil {
		if k.claim, err = link.AttachIter(link.IterOptions{Program: p, Map: c.Maps[tasksMapEnding]}); err != nil {
			return fail(fmt.Errorf("attach the map iterator: %w", err))
		}
	}
	// The first reading passes our pid namespace to the programs. Without it they would record the ends
	// of processes outside of it as well.
	if err := k.readFirst(); err != nil {
		return fail(err)
	}
	// freed first: an entry that ended writes is then always taken out again.
	for _, name := range []string{tasksProgFreed, tasksProgEnded} {
		p := program(name)
		if p == nil {
			continue
		}
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			return fail(fmt.Errorf("trace the end of processes: %w", err))
		}
		k.traces = append(k.traces, l)
	}
	return k, nil
}

// readFirst reads the first records of the task iterator.
func (k *loadedPrograms) readFirst() error {
	fd, err := bpf.NewIteration(k.walk.FD())
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for {
		_, err := unix.Read(fd, make([]byte, processSize))
		if err != unix.EAGAIN && err != unix.EINTR {
			if err != nil {
				return fmt.Errorf("read the task iterator: %w", err)
			}
			return nil
		}
	}
}

// reportAll has the next reading report all processes in full.
func (k *loadedPrograms) reportAll() error { return k.anew.Put(uint32(0), uint32(1)) }
