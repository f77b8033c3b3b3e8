package bpf

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"reckon/sensor"
)

// Types caches the types of the running kernel (BTF) while programs are loaded. Several collections share one Types, because parsing
// takes tens of milliseconds and some MB. Its zero value is ready for use. It is not safe for concurrent use.
type Types struct {
	cache *btf.Cache
	err   error
}

// Borrow returns the parsed types of the kernel. The caller must call done after loading. If t is nil, done releases
// the types at once. If the kernel has no BTF, the error matches [sensor.ErrUnavailable].
func (t *Types) Borrow() (cache *btf.Cache, done func(), err error) {
	done = func() {}
	if t == nil {
		t = new(Types)
		done = t.Release
	}
	if t.cache == nil && t.err == nil {
		t.cache = btf.NewCache()
		if _, err := t.cache.Kernel(); err != nil {
			t.cache, t.err = nil, noTypesError(err)
		}
	}
	return t.cache, done, t.err
}

func noTypesError(err error) error {
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, os.ErrNotExist) {
		return sensor.Unavailable("the kernel does not describe its types (no BTF)", "use a kernel built with CONFIG_DEBUG_INFO_BTF", nil)
	}
	return fmt.Errorf("read the types of the kernel: %w", err)
}

// Release drops the types and returns their memory to the system. They are parsed again on demand.
func (t *Types) Release() {
	if t.cache == nil {
		return
	}
	*t = Types{}
	debug.FreeOSMemory()
}
