package account

import (
	"testing"
	"unsafe"
)

// TestSizes holds what a node with 20,000 processes in 2,000 workloads keeps of each, by the size classes of
// the allocator.
func TestSizes(t *testing.T) {
	for name, c := range map[string]struct{ size, most uintptr }{
		"process": {unsafe.Sizeof(process{}), 208},
		"part":    {unsafe.Sizeof(Part{}), 1408},
		"group":   {unsafe.Sizeof(group{}), 352},
	} {
		if c.size > c.most {
			t.Errorf("a %s takes %d bytes, want at most %d: keep behind a pointer what few of them have", name, c.size, c.most)
		}
	}
}
