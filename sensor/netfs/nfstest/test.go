package nfstest

import (
	"errors"
	"testing"
)

// Mounted starts a server for a test and mounts its directory with additional options. It skips the test if that is not possible.
func Mounted(t testing.TB, more string) (dir string) {
	t.Helper()
	s, err := Start(t.TempDir())
	if errors.Is(err, ErrNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	dir = t.TempDir()
	if err := s.Mount(dir, more); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Unmount(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
