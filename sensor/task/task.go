// Package task selects the sources of a machine's task table and of the records of ended processes, and joins the two.
//
// The sources are in the folders below: ebpf (the task iterator and the trace points of the scheduler), procfs (/proc)
// and taskstats (exit records over netlink). Each returns [sensor.ErrUnavailable] with the missing requirement. The
// best one that works is used, unless a certain one was requested.
//
// Units are as in [sensor.Process]. A [Source] is used from one goroutine.
package task

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"reckon/sensor"
	"reckon/sensor/task/bpf"
	"reckon/sensor/task/ebpf"
	"reckon/sensor/task/procfs"
	"reckon/sensor/task/taskstats"
)

// Words for [Options] and for [Source.Live] and [Source.Exits].
const (
	Auto      = "auto"
	EBPF      = "ebpf"
	Procfs    = "procfs"
	Taskstats = "taskstats"
	None      = "none"

	Network = "network"
	All     = "all"
)

// Options configures the sources.
type Options struct {
	// Root is the mount point of the machine's file tree, "" for "/". The kernel can be queried
	// only if it is the tree of this machine.
	Root string
	// Source is Auto (or empty), EBPF or Procfs.
	Source string
	// Exits is Auto (or empty), EBPF, Taskstats or None.
	Exits string
	// Files reports on which file systems calls are counted by process: Network (or empty), All or None.
	Files string
	// Counters has the performance counters of the processors read.
	Counters bool
	// Types are the kernel's types, shared by all loaders; nil parses them each time.
	Types *bpf.Types
}

// Note is a source that is not in use, and why.
type Note struct {
	Sensor string
	Err    error
}

// Open opens the task table. The notes list the sources that the setting auto skipped. Open returns an error if no
// source can be read, or if a source that was selected by name is unavailable.
func Open(o Options) (source *Source, notes []Note, err error) {
	if err := o.validate(); err != nil {
		return nil, nil, err
	}
	outside, err := checkNamespaces(o)
	if err != nil {
		return nil, nil, err
	}
	s := &Source{}
	if err := s.openLive(o, &notes); err != nil {
		return nil, notes, err
	}
	if err := s.openExits(o, &notes); err != nil {
		_ = s.Close()
		return nil, notes, err
	}
	if outside != nil {
		notes = append(notes, Note{PIDNamespace, outside})
	}
	if hidden := procfs.Hidden(o.Root); hidden != nil {
		notes = append(notes, Note{OtherUsers, hidden})
	}
	return s, notes, nil
}

func (o *Options) validate() error {
	if o.Root == "" {
		o.Root = "/"
	}
	if o.Source == "" {
		o.Source = Auto
	}
	if o.Exits == "" {
		o.Exits = Auto
	}
	switch o.Source {
	case Auto, EBPF, Procfs:
	default:
		return fmt.Errorf("no source of processes is called %q: use auto, ebpf or procfs", o.Source)
	}
	switch o.Exits {
	case Auto, EBPF, Taskstats, None:
	default:
		return fmt.Errorf("no source of exit records is called %q: use auto, ebpf, taskstats or none", o.Exits)
	}
	switch o.Files {
	case "", Network, All, None:
	default:
		return fmt.Errorf("no choice of file systems is called %q: use network, all or none", o.Files)
	}
	return nil
}

func (s *Source) openLive(o Options, notes *[]Note) error {
	if o.Source != Procfs {
		b, err := openEBPF(o, o.Exits != Auto && o.Exits != EBPF)
		switch {
		case err == nil:
			s.live, s.bpf = b, b
			return nil
		case o.Source == EBPF:
			return fmt.Errorf("source ebpf: %w", err)
		}
		*notes = append(*notes, Note{EBPF, err})
	}
	p, err := procfs.New(procfs.Options{Root: o.Root})
	if err != nil {
		return fmt.Errorf("source procfs: %w", err)
	}
	s.live = p
	return nil
}

func (s *Source) openExits(o Options, notes *[]Note) error {
	switch o.Exits {
	case None:
		return nil
	case Taskstats:
		return s.openTaskstats(o)
	}
	err := s.useEBPF(o)
	if err == nil {
		return nil
	}
	if o.Exits == EBPF {
		return fmt.Errorf("exit records of ebpf: %w", err)
	}
	// Where the programs could not be loaded at all, the reason was reported.
	if len(*notes) == 0 {
		*notes = append(*notes, Note{"ebpf-exits", err})
	}
	if err := s.openTaskstats(o); err != nil {
		*notes = append(*notes, Note{Taskstats, errors.Unwrap(err)})
	}
	return nil
}

// useEBPF uses the exit records of the source of processes, or opens an additional one.
func (s *Source) useEBPF(o Options) error {
	b := s.bpf
	if b == nil {
		var err error
		if b, err = openEBPF(o, false); err != nil {
			return err
		}
		if err := b.Exits(); err != nil {
			_ = b.Close()
			return err
		}
		s.exits = b
		return nil
	}
	s.own = b.Exits() == nil
	return b.Exits()
}

func (s *Source) openTaskstats(o Options) error {
	err := sameMachine(o.Root)
	if err == nil {
		var t *taskstats.Source
		if t, err = taskstats.New(taskstats.Options{Root: o.Root}); err == nil {
			s.exits = t
			return nil
		}
	}
	return fmt.Errorf("exit records of taskstats: %w", err)
}

func openEBPF(o Options, noExits bool) (*ebpf.Source, error) {
	if err := sameMachine(o.Root); err != nil {
		return nil, err
	}
	if hasForeignIDs(o.Root) {
		return nil, foreignError(o.Root, "")
	}
	return ebpf.New(ebpf.Options{Root: o.Root, NoExits: noExits, Types: o.Types})
}

// sameMachine returns an error unless root is the file tree of the machine that runs this process. It compares the boot
// ids (Documentation/admin-guide/sysctl/kernel.rst).
func sameMachine(root string) error {
	const file = "proc/sys/kernel/random/boot_id"
	if filepath.Clean(root) == "/" {
		return nil
	}
	there, err := os.ReadFile(filepath.Join(root, file))
	if err == nil {
		var here []byte
		if here, err = os.ReadFile("/" + file); err == nil && bytes.Equal(here, there) {
			return nil
		}
	}
	return sensor.Unavailable("the file tree at "+root+" is not that of the running kernel", "", err)
}
