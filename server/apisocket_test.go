package server

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestListenUnix: everybody may connect; what a killed server left is replaced, the socket of one that
// answers is not, nor a file that is none.
func TestListenUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "api.sock")
	ln, err := listenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if _, err := listenUnix(path); err == nil || !strings.Contains(err.Error(), "another server answers") {
		t.Errorf("a second server took it: %v", err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = ln.Close() // as a kill leaves it
	if ln, err = listenUnix(path); err != nil {
		t.Fatalf("what a killed server left: %v", err)
	}
	_ = ln.Close()
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenUnix(path); err == nil {
		t.Error("a file was taken for a socket")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("the file is gone: %q %v", text, err)
	}
}
