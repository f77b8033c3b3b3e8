package waits

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"reckon/sensor"
	"reckon/sensor/task/bpf"
)

//go:generate bash ../bpf/build waits record

// kernelSide is what was loaded into the kernel.
type kernelSide struct {
	programs *ebpf.Collection
	accounts *ebpf.Map
	harvest  *link.Iter
	traces   []link.Link
}

func (k *kernelSide) close() {
	for i := len(k.traces) - 1; i >= 0; i-- {
		_ = k.traces[i].Close()
	}
	if k.harvest != nil {
		_ = k.harvest.Close()
	}
	k.programs.Close()
}

// load brings the programs into the kernel.
func load(o Options) (*kernelSide, error) {
	explain := func(err error) error {
		return bpf.Explain(err, o.Root, "the kernel does not let waits be traced", "use Linux 5.9 or later")
	}
	if err := bpf.Permitted(); err != nil {
		return nil, explain(err)
	}
	cache, done, err := o.Types.Borrow()
	if err != nil {
		return nil, err
	}
	defer done()
	k, err := install(o, cache)
	if errors.Is(err, unix.EPERM) && bpf.RaiseMemlock() == nil {
		k, err = install(o, cache)
	}
	if err != nil {
		return nil, explain(err)
	}
	return k, nil
}

// install loads the programs and attaches them. The iterator comes first: it tells the programs
// which pid namespace is ours. Ends come before what makes accounts, so that each is ended.
func install(o Options, cache *btf.Cache) (*kernelSide, error) {
	spec, err := loadWaits()
	if err != nil {
		return nil, fmt.Errorf("read the compiled programs: %w", err)
	}
	spec.Maps[waitsMapAccounts].MaxEntries = min(8192+512*bpf.PossibleCPUs(o.Root), 1<<16)
	if o.accounts != 0 {
		spec.Maps[waitsMapAccounts].MaxEntries = o.accounts
	}
	c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: cache})
	if err != nil {
		return nil, err
	}
	k := &kernelSide{programs: c, accounts: c.Maps[waitsMapAccounts]}
	fail := func(err error) (*kernelSide, error) {
		k.close()
		return nil, err
	}
	if k.harvest, err = link.AttachIter(link.IterOptions{Program: c.Programs[waitsProgHarvest], Map: k.accounts}); err != nil {
		return fail(fmt.Errorf("attach the map iterator: %w", err))
	}
	if err := (&Source{kernel: k, buf: make([]byte, 4<<10)}).ReadWaits(new(sensor.WaitPass)); err != nil {
		return fail(err)
	}
	for _, name := range []string{waitsProgEnded, waitsProgWoken, waitsProgAsleep} {
		l, err := link.AttachTracing(link.TracingOptions{Program: c.Programs[name]})
		if err != nil {
			return fail(fmt.Errorf("attach %s: %w", name, err))
		}
		k.traces = append(k.traces, l)
	}
	return k, nil
}
