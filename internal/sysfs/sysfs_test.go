package sysfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "power1_input")
	write := func(s string) {
		if err := os.WriteFile(path, []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("4711\n")
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int64{"4711\n": 4711, "-256000\n": -256000, "12 W": 12, "+7": 7} {
		write(text)
		if got, err := f.Int(); err != nil || got != want {
			t.Errorf("%q: got %d and %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"N/A", "1x", "-", "99999999999999999999"} {
		write(text)
		if got, err := f.Int(); err == nil {
			t.Errorf("%q: got %d, want an error", text, got)
		}
	}
	write("")
	if _, err := f.Int(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("empty: got %v", err)
	}
	write("1")
	if n := testing.AllocsPerRun(20, func() { _, _ = f.Int() }); n != 0 {
		t.Errorf("a reading allocates %v times", n)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("again: %v", err)
	}
	if _, err := f.Int(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("closed: got %v", err)
	}
}

func TestGone(t *testing.T) {
	if !IsGone(&fs.PathError{Err: syscall.ENODEV}) || IsGone(&fs.PathError{Err: syscall.EIO}) {
		t.Error("ENODEV says that the device is gone, EIO does not")
	}
}

func FuzzNumber(f *testing.F) {
	f.Add([]byte("9223372036854775794"))
	f.Add([]byte("-1"))
	f.Add([]byte("12 W 34 us"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, ok := Number(b); ok && len(b) == 0 || !ok && v > 0 && len(b) == 0 {
			t.Fatalf("Number(%q) = %d, %v", b, v, ok)
		} else if ok && v == 0 {
			for _, c := range b {
				if c == ' ' {
					break
				}
				if c >= '1' && c <= '9' {
					t.Fatalf("Number(%q) = 0", b)
				}
			}
		}
	})
}
