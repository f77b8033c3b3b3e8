// Package files counts the file system calls of each process by BPF programs at functions of the kernel's VFS (fentry and fexit): opens,
// stats, listings and changes of directories and attributes as metadata, reads and writes with their bytes.
//
// Calls count if they reach a file system, whether it uses its server, its disk or its caches to serve them. For network file systems,
// including FUSE, the time of calls is counted as well. Not counted are missing names, and reads and writes by readv(2), io_uring,
// mmap(2) and sendfile(2). For NFSv4, the time does not include an open that the lookup of the name has done. A change in an overlay also
// counts for the file system below it. A call to a hanging mount is counted when it returns.
//
// Local file systems are counted only on request, because counting makes each call a little slower. Otherwise, nothing is attached if no
// network file system is mounted.
//
// It needs BTF, CAP_BPF with CAP_PERFMON, Linux 5.13 on x86 or 6.4 on arm64, and a kernel that allows BPF trampolines. Sources:
// fs/stat.c, fs/open.c, fs/readdir.c, fs/namei.c, fs/attr.c, fs/read_write.c of the kernel. A [Source] is used from one goroutine.
package files

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"reckon/sensor"
	"reckon/sensor/task/bpf"
)

//go:generate env BPF_CFLAGS=-mcpu=v3 bash ../bpf/build files record

// Options configures the calls to count.
type Options struct {
	// Root is the directory with /proc and /sys of this machine, "" for "/".
	Root string
	// Types are the kernel's types, shared with other loaders; nil parses them here.
	Types *bpf.Types
	// All counts file systems of this machine, too.
	All bool
}

// Source counts calls while it is open.
type Source struct {
	accounts *bpf.Accounts
	reader   *reader
	hooks    []hook
	links    []link.Link
	programs []*ebpf.Program // that are attached
	missing  []error
	table    *os.File // of mounts; nil once calls across the network are counted
}

// The programs write records in the layout that the reader expects.
const _ = -(unsafe.Sizeof(filesRecord{}) - unsafe.Sizeof(mountRecord{}))

// Open loads the programs. If the kernel or the permissions do not allow it, the error matches [sensor.ErrUnavailable]
// and gives the reason. If no matching file system is mounted, the error has no remedy, because none is needed.
func Open(o Options) (*Source, error) {
	if o.Root == "" {
		o.Root = "/"
	}
	s, err := load(o)
	if err != nil {
		return nil, withoutRemedy(o, err)
	}
	return s, nil
}

// withoutRemedy returns an error of [load] without its remedy if no mounted file system would be counted.
func withoutRemedy(o Options, err error) error {
	if o.All || !errors.Is(err, sensor.ErrUnavailable) {
		return err
	}
	table, failed := mountTable(o.Root)
	if failed != nil {
		return err
	}
	defer table.Close()
	if found, failed := hasRemoteMount(table); found || failed != nil {
		return err
	}
	return sensor.Unavailable("calls on network file systems are not counted (none is mounted)", "", err)
}

func load(o Options) (*Source, error) {
	cache, done, err := o.Types.Borrow()
	if err != nil {
		return nil, err
	}
	defer done()
	kernel, err := cache.Kernel()
	if err != nil {
		return nil, fmt.Errorf("read the types of the kernel: %w", err)
	}
	s := new(Source)
	if s.hooks, s.missing, err = chooseHooks(kernel); err != nil {
		return nil, err
	}
	const otherwise, fix = "the kernel does not let calls of the VFS be traced",
		"use Linux 5.13 or later (arm64: 6.4) with BPF trampolines (CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS) and without lockdown"
	s.accounts, err = bpf.OpenAccounts(bpf.AccountsSpec{
		Root: o.Root, Types: o.Types, Load: func() (*ebpf.CollectionSpec, error) { return s.preparePrograms(o) }, Record: recordSize,
		Buffer: 40, Attach: []string{filesProgEnded}, Also: s.programNames(), Otherwise: otherwise, Fix: fix,
	})
	if err != nil {
		return nil, err
	}
	if err := s.attachNeeded(o); err != nil {
		_ = s.Close()
		return nil, bpf.Explain(err, o.Root, otherwise, fix)
	}
	return s, nil
}

// attachNeeded attaches the programs that are needed now.
func (s *Source) attachNeeded(o Options) (err error) {
	if s.reader, err = newReader(s.accounts, o.Root, mountID{sensor.OtherNames, sensor.OtherNames, o.All}); err != nil {
		return fmt.Errorf("open the account of calls without a process: %w", err)
	}
	if s.table, err = mountTable(o.Root); err != nil {
		return err
	}
	if o.All {
		if err := s.attach(onMachine); err != nil {
			return err
		}
	} else if err := s.probeKernel(); err != nil {
		return err
	}
	return s.attachRemote()
}

// probeKernel determines whether the kernel allows the programs to be attached.
func (s *Source) probeKernel() error {
	l, err := link.AttachTracing(link.TracingOptions{Program: s.accounts.Program(s.hooks[0].program())})
	if err != nil {
		return fmt.Errorf("attach to %s: %w", s.hooks[0].function, err)
	}
	return l.Close()
}

// attachRemote starts to count calls across the network if such a file system is mounted.
func (s *Source) attachRemote() error {
	if s.table == nil {
		return nil
	}
	found, err := hasRemoteMount(s.table)
	if err != nil || !found {
		return err
	}
	_ = s.table.Close()
	s.table = nil
	return s.attach(onNetwork)
}

// attach attaches the programs in scope what that are not attached yet. It returns an error if a mandatory function
// cannot be attached, because the other programs are useless without it.
func (s *Source) attach(within scope) error {
	for i := range s.hooks {
		h := &s.hooks[i]
		if h.attached || h.scope&within == 0 {
			continue
		}
		p := s.accounts.Program(h.program())
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil && h.must {
			return fmt.Errorf("attach to %s: %w", h.function, err)
		}
		if err != nil {
			s.missing = append(s.missing, fmt.Errorf("%s: %w", h.function, bpf.Cause(err)))
			continue
		}
		h.attached = true
		s.links, s.programs = append(s.links, l), append(s.programs, p)
	}
	return nil
}

// preparePrograms reads the compiled programs and creates one for each function.
func (s *Source) preparePrograms(o Options) (*ebpf.CollectionSpec, error) {
	spec, err := loadFiles()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(spec.Variables[filesVarAll].Set(o.All), spec.Variables[filesVarFuse].Set(true)); err != nil {
		return nil, fmt.Errorf("set what is counted: %w", err)
	}
	spec.Maps[filesMapPending].MaxEntries *= bpf.PossibleCPUs(o.Root)
	for i := range s.hooks {
		h := &s.hooks[i]
		p := spec.Programs[h.template].Copy()
		p.Name, p.AttachTo = h.program(), h.function
		spec.Programs[p.Name] = p
	}
	return spec, nil
}

// programNames lists the programs that [Source.preparePrograms] makes.
func (s *Source) programNames() (all []string) {
	for i := range s.hooks {
		all = append(all, s.hooks[i].program())
	}
	return all
}

// Spec describes the counts.
func (s *Source) Spec() *sensor.TallySpec { return Spec }

// Missing returns which functions the kernel lacks or did not let us count.
func (s *Source) Missing() (name string, err error) {
	return "files-hooks", sensor.RefusedAny("some calls on file systems are not counted", s.missing...)
}

// Missed returns the number of calls interrupted a program and that were therefore not counted.
func (s *Source) Missed() uint64 {
	if s.accounts == nil {
		return 0
	}
	return s.accounts.Missed() + bpf.Missed(s.programs...)
}

// Close unloads the programs. Calling it again does nothing.
func (s *Source) Close() error {
	if s.accounts == nil {
		return nil
	}
	var errs []error
	for _, l := range s.links {
		errs = append(errs, l.Close())
	}
	if s.table != nil {
		errs = append(errs, s.table.Close())
	}
	errs = append(errs, s.accounts.Close())
	s.accounts, s.links, s.table = nil, nil, nil
	return errors.Join(errs...)
}

// Read appends the counts since the last call.
func (s *Source) Read(p *sensor.TallyPass) error {
	if s.accounts == nil {
		return errors.New("read calls on file systems: the source is closed")
	}
	if s.table != nil && mountsChanged(s.table) {
		if err := s.attachRemote(); err != nil {
			return fmt.Errorf("count calls on file systems across the network: %w", err)
		}
	}
	if err := s.reader.read(p); err != nil {
		return fmt.Errorf("read calls on file systems: %w", err)
	}
	return nil
}

var _ sensor.Tally = (*Source)(nil)
