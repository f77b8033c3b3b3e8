package bpf

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// AccountsSpec describes BPF programs that keep accounts, mostly one per process (include/account.h). The programs have
// a map "accounts". Their iterator "harvest" writes a record of fixed size for each account in the map.
type AccountsSpec struct {
	// Root is the directory with /proc and /sys of this machine.
	Root string
	// Types are the kernel's, nil to parse them here.
	Types *Types
	// Load reads the compiled programs.
	Load func() (*ebpf.CollectionSpec, error)
	// Record is the size of a record in bytes, Buffer the number of records per read.
	Record, Buffer int
	// Room is the number of accounts there that is room for at a time, 0 for a number of processes that grows with the processors.
	Room uint32
	// Attach lists the tracing programs to load, in the order of attachment. "ended" precedes those
	// that create accounts, so that the end of each account's process is recorded.
	Attach []string
	// Also names programs that are loaded and not attached.
	Also []string
	// Otherwise and Fix are the reason and the remedy for an unrecognised refusal by the kernel.
	Otherwise, Fix string
}

// Accounts are the loaded programs. They are used from one goroutine.
type Accounts struct {
	Map *ebpf.Map // process id to account

	collection *ebpf.Collection
	programs   []*ebpf.Program // that are attached to events
	harvest    *link.Iter
	traces     []link.Link
	record     int
	buf        []byte
	over       Ended
}

// OpenAccounts loads the programs into the kernel and attaches them. If the kernel or the permissions do not allow
// that, the error matches sensor.ErrUnavailable.
func OpenAccounts(o AccountsSpec) (*Accounts, error) {
	if err := Permitted(); err != nil {
		return nil, Explain(err, o.Root, o.Otherwise, o.Fix)
	}
	cache, done, err := o.Types.Borrow()
	if err != nil {
		return nil, err
	}
	defer done()
	a, err := o.loadPrograms(cache)
	if errors.Is(err, unix.EPERM) && RaiseMemlock() == nil {
		a, err = o.loadPrograms(cache)
	}
	if err != nil {
		return nil, Explain(err, o.Root, o.Otherwise, o.Fix)
	}
	return a, nil
}

// loadPrograms loads the programs. The iterator is attached and run first, because it records the pid namespace of the reader.
func (o *AccountsSpec) loadPrograms(cache *btf.Cache) (*Accounts, error) {
	spec, err := o.Load()
	if err != nil {
		return nil, fmt.Errorf("read the compiled programs: %w", err)
	}
	spec.Maps["accounts"].MaxEntries = min(8192+512*PossibleCPUs(o.Root), 1<<16)
	if o.Room != 0 {
		spec.Maps["accounts"].MaxEntries = o.Room
	}
	for name := range spec.Programs {
		if name != "harvest" && !slices.Contains(o.Attach, name) && !slices.Contains(o.Also, name) {
			delete(spec.Programs, name)
		}
	}
	c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: cache})
	if err != nil {
		return nil, err
	}
	a := &Accounts{Map: c.Maps["accounts"], collection: c, record: o.Record, buf: make([]byte, o.Record*o.Buffer)}
	if err := a.attach(o.Attach); err != nil {
		_ = a.Close()
		return nil, err
	}
	return a, nil
}

func (a *Accounts) attach(names []string) (err error) {
	if a.harvest, err = link.AttachIter(link.IterOptions{Program: a.collection.Programs["harvest"], Map: a.Map}); err != nil {
		return fmt.Errorf("attach the map iterator: %w", err)
	}
	if err := a.Read(func([]byte) (uint32, bool) { return 0, false }); err != nil {
		return err
	}
	for _, name := range names {
		p := a.collection.Programs[name]
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			return fmt.Errorf("attach %s: %w", name, err)
		}
		a.programs, a.traces = append(a.programs, p), append(a.traces, l)
	}
	return nil
}

// Program returns a loaded program by name; nil if there is none.
func (a *Accounts) Program(name string) *ebpf.Program { return a.collection.Programs[name] }

// MapNamed returns a map of the programs by name; nil if there is none.
func (a *Accounts) MapNamed(name string) *ebpf.Map { return a.collection.Maps[name] }

// Read calls take with each record since the previous reading. take returns the key of the account, and whether its
// process has ended. The account of an ended process is deleted after the next reading, which reports activity that was
// still in progress. Read does not allocate.
func (a *Accounts) Read(take func(record []byte) (key uint32, ended bool)) error {
	fd, err := NewIteration(a.harvest.FD())
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	a.over.Begin()
	for {
		n, err := unix.Read(fd, a.buf)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
			continue
		case err != nil:
			return err
		case n == 0:
			a.over.Free(a.Map)
			return nil
		case n%a.record != 0:
			return fmt.Errorf("%d bytes are no whole number of records of %d", n, a.record)
		}
		for b := a.buf[:n]; len(b) > 0; b = b[a.record:] {
			if key, ended := take(b[:a.record]); ended {
				a.over.Add(key)
			}
		}
	}
}

// Missed returns the number of events lost since the programs were loaded. The kernel skips a program if the event interrupts the same
// program on the same processor. Linux before 5.12 does not count such events, so the result is 0 there.
func (a *Accounts) Missed() uint64 {
	if a == nil {
		return 0
	}
	return Missed(a.programs...)
}

// Close unloads the programs.
func (a *Accounts) Close() error {
	var errs []error
	for i := len(a.traces) - 1; i >= 0; i-- {
		errs = append(errs, a.traces[i].Close())
	}
	if a.harvest != nil {
		errs = append(errs, a.harvest.Close())
	}
	a.collection.Close()
	return errors.Join(errs...)
}
