// Package fuse counts what each process does on FUSE file systems (sshfs, rclone, CernVM-FS, Gluster, mergerfs), by programs of BPF
// where the kernel passes requests to the server of the file system and takes its answers.
//
// What counts are requests: what the page cache and the caches of names and attributes served is not among them, nor is what passes
// the server by (passthrough, DAX). Bytes are the payload of reads that were answered and of writes that succeeded; read-ahead and
// writing back are in them. A time lasts from passing the request on until the answer. Requests that the kernel makes for no
// process in particular, such as writing back and closing files, are those of nobody. No file system is asked for anything: a
// mount whose server does not answer holds nothing up, and its requests are counted when they are answered or given up.
//
// It needs BTF, CAP_BPF with CAP_PERFMON, and Linux 6.11. Sources: fs/fuse/dev.c, fs/fuse/fuse_trace.h,
// include/uapi/linux/fuse.h of the kernel. A [Source] is used from one goroutine.
package fuse

import (
	"errors"
	"fmt"
	"unsafe"

	"reckon/sensor"
	"reckon/sensor/task/bpf"
	"reckon/sensor/task/mounts"
)

//go:generate env BPF_CFLAGS=-mcpu=v3 bash ../bpf/build fuse record

// Options says how to count.
type Options struct {
	// Root is where /proc and /sys of this machine are mounted, "" for "/".
	Root string
	// Types are those of the kernel, shared with others who load programs; nil to parse them here.
	Types *bpf.Types
}

// Source counts requests while it is open.
type Source struct {
	accounts *bpf.Accounts
	reader   *mounts.Reader
}

// The programs write records as the reader takes them.
const _ = -(unsafe.Sizeof(fuseRecord{}) - unsafe.Sizeof(mounts.Record{}))

// Open loads the programs. It fails with [sensor.ErrUnavailable] where the kernel or the
// permissions do not allow it, and says which.
func Open(o Options) (*Source, error) {
	if o.Root == "" {
		o.Root = "/"
	}
	a, err := bpf.OpenAccounts(bpf.AccountsSpec{
		Root: o.Root, Types: o.Types, Load: loadFuse, Record: mounts.RecordSize, Buffer: 40,
		Attach: []string{fuseProgEnded, fuseProgAnswered, fuseProgSent}, Otherwise: "the kernel does not let requests to FUSE servers be traced", Fix: "use Linux 6.11 or later",
	})
	if err != nil {
		return nil, err
	}
	r, err := mounts.NewReader(a, o.Root, sensor.Mount{Type: "fuse", Source: "other"}, nil)
	if err != nil {
		_ = a.Close()
		return nil, fmt.Errorf("open the account of requests without a process: %w", err)
	}
	return &Source{accounts: a, reader: r}, nil
}

// Name returns "fuse".
func (s *Source) Name() string { return "fuse" }

// Missed is how many events interrupted a program and were therefore not counted.
func (s *Source) Missed() uint64 { return s.accounts.Missed() }

// Close unloads the programs. Calling it again does nothing.
func (s *Source) Close() error {
	if s.accounts == nil {
		return nil
	}
	err := s.accounts.Close()
	s.accounts = nil
	return err
}

// ReadMounts appends what was counted since the last call.
func (s *Source) ReadMounts(p *sensor.MountPass) error {
	if s.accounts == nil {
		return errors.New("read requests to FUSE servers: the source is closed")
	}
	if err := s.reader.Read(p); err != nil {
		return fmt.Errorf("read requests to FUSE servers: %w", err)
	}
	return nil
}

var _ sensor.MountSource = (*Source)(nil)
