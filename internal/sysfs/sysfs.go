// Package sysfs reads attributes of the kernel: small files that hold one value
// (Documentation/filesystems/sysfs.rst, "one value per file"). A [File] stays open and is
// read in place, so that reading it again costs one system call and no allocation.
//
// Reading a device that has been unplugged returns ENODEV; [IsGone] distinguishes that from
// an error of the device itself. A File is used from one goroutine; the functions are
// safe for concurrent use.
package sysfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxAttribute is the maximum length of an attribute in bytes. Numbers and words are shorter, and longer values are cut.
const maxAttribute = 128

// File is an open attribute.
type File struct {
	file *os.File
	buf  [maxAttribute]byte
}

// Open opens the attribute at path.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &File{file: f}, nil
}

// Path returns the path that the file was opened with.
func (f *File) Path() string { return f.file.Name() }

// Text returns the value without the newline. It is valid until the next call.
func (f *File) Text() ([]byte, error) {
	if f == nil || f.file == nil {
		return nil, fs.ErrClosed
	}
	n, err := f.file.ReadAt(f.buf[:], 0)
	if n == 0 {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	b := f.buf[:n]
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == 0 || b[len(b)-1] == ' ') {
		b = b[:len(b)-1]
	}
	return b, nil
}

// Int returns the value as a whole number.
func (f *File) Int() (int64, error) {
	b, err := f.Text()
	if err != nil {
		return 0, err
	}
	v, ok := Number(b)
	if !ok {
		return 0, fmt.Errorf("read %s: %q is no whole number", f.file.Name(), b)
	}
	return v, nil
}

// Close closes the file. Calling it again, or on nil, does nothing.
func (f *File) Close() error {
	if f == nil || f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}

// Number parses a decimal integer with an optional sign. It ignores text after a space, such as the unit in "1234 W"
// (files of pm_counters).
func Number(b []byte) (v int64, ok bool) {
	negative := false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		negative = b[0] == '-'
		b = b[1:]
	}
	n, rest, ok := Uint(b)
	if !ok || n > math.MaxInt64 || len(rest) > 0 && rest[0] != ' ' {
		return 0, false
	}
	if negative {
		return -int64(n), true
	}
	return int64(n), true
}

// ReadWord returns the content of a small file, or "" if it cannot be read.
func ReadWord(path ...string) string {
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(strings.Trim(string(b), "\x00 \n\t"), "")
}

// Nodes returns the device numbers of the first two devices of a class. dir has one folder per device, with the attribute dev. A device
// number is the major number shifted left by 20 bits plus the minor number. It is 0 if there is no such device.
func Nodes(dir string) (nodes [2]uint32) {
	files, _ := filepath.Glob(filepath.Join(dir, "*", "dev"))
	n := 0
	for _, f := range files {
		major, minor, _ := strings.Cut(ReadWord(f), ":")
		a, ok := Number([]byte(major))
		b, also := Number([]byte(minor))
		if ok && also && n < len(nodes) {
			nodes[n], n = uint32(a)<<20|uint32(b), n+1
		}
	}
	return nodes
}

// IsGone reports whether the device behind an attribute no longer exists.
func IsGone(err error) bool {
	return errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ENXIO) || errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, syscall.ESTALE)
}

// Path joins names below root. An empty root or "/" stands for this machine.
func Path(root string, names ...string) string {
	if root == "" {
		root = "/"
	}
	return filepath.Join(append([]string{root}, names...)...)
}

// Micro returns the number in a file of millionths, such as microwatts, in the whole unit. It returns 0 if the file cannot be read.
func Micro(path ...string) float64 {
	v, _ := Number([]byte(ReadWord(path...)))
	return float64(v) / 1e6
}
