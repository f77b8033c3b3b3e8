package golden

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestSize holds the server's program to 95 MB, see doc/decisions/0512-weight.md: the figure is for linux/amd64.
func TestSize(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skipf("the bound is that of linux/amd64, not of %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	dir, err := build()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Stat(filepath.Join(dir, "reckon"))
	if err != nil {
		t.Fatal(err)
	}
	const most = 95_000_000
	if program.Size() > most {
		t.Errorf("reckon has %d bytes, more than %d", program.Size(), most)
	}
}
