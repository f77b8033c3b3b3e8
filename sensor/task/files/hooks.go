package files

import (
	"fmt"

	"github.com/cilium/ebpf/btf"

	"reckon/sensor"
)

// scope selects the file systems that a program is needed for.
type scope int

const (
	onMachine scope = 1 << iota // this machine's
	onNetwork                   // those across the network
)

// hook is a program that is attached to a function of the kernel.
type hook struct {
	function string
	template string // the program that is made for it
	scope    scope
	must     bool // nothing is counted without it
	attached bool
}

// program returns the name of the program. The kernel shows 15 bytes of it.
func (h *hook) program() string { return h.template + "_" + h.function }

// programPair holds the names of the programs at the entry and the return of a kernel function, or "". argument is the index
// of the function argument that leads to the file system, and kind the type that it points to.
type programPair struct {
	argument     int
	kind         string // of structure that it points to
	begins, ends string
}

var (
	byStat        = programPair{0, "path", filesProgStatBegins, ""}
	byStatTime    = programPair{0, "path", "", filesProgStatEnds}
	byOpened      = programPair{0, "path", filesProgOpenBegins, filesProgOpenEnds}
	byRead        = programPair{0, "file", filesProgMoveBegins, filesProgRead}
	byWritten     = programPair{0, "file", filesProgMoveBegins, filesProgWritten}
	byFile        = programPair{0, "file", filesProgFileBegins, filesProgFileEnds}
	byInode       = programPair{1, "inode", filesProgInodeBegins, filesProgInodeEnds}
	byDentry      = programPair{1, "dentry", filesProgDentryBegins, filesProgDentryEnds}
	byFirstDentry = programPair{0, "dentry", filesProgFirstDentryBegins, filesProgFirstDentryEnds}
	byRename      = programPair{0, "renamedata", filesProgRenameBegins, filesProgRenameEnds}
)

// kernelFunction is one function of the VFS.
type kernelFunction struct {
	name string
	by   programPair
	must bool
}

// kernelFunctions are the kernel functions that are hooked to count calls.
var kernelFunctions = []kernelFunction{
	{"security_inode_getattr", byStat, true},
	{"vfs_getattr_nosec", byStatTime, false},
	{"vfs_open", byOpened, true},
	{"vfs_read", byRead, true},
	{"vfs_write", byWritten, true},
	{"iterate_dir", byFile, false},
	{"notify_change", byDentry, false},
	{"vfs_unlink", byInode, false},
	{"vfs_mkdir", byInode, false},
	{"vfs_rmdir", byInode, false},
	{"vfs_symlink", byInode, false},
	{"vfs_link", byFirstDentry, false},
	{"vfs_rename", byRename, false},
}

// chooseHooks returns the programs for the functions of a kernel, and the reasons why other functions are not counted.
func chooseHooks(kernel *btf.Spec) (all []hook, missing []error, err error) {
	for i := range kernelFunctions {
		f := &kernelFunctions[i]
		if err := f.checkUsable(kernel); err == nil {
			all = append(all, f.hooksFor()...)
		} else if f.must {
			return nil, nil, sensor.RefusedError("the kernel has no place to count calls of the VFS at",
				"report it with the output of uname -r",
				err)
		} else {
			missing = append(missing, err)
		}
	}
	return all, missing, nil
}

// checkUsable returns an error if a function cannot be used.
func (f *kernelFunction) checkUsable(kernel *btf.Spec) error {
	var fn *btf.Func
	if err := kernel.TypeByName(f.name, &fn); err != nil {
		return fmt.Errorf("%s: the kernel has no such function", f.name)
	}
	if !hasArgument(fn, f.by) {
		return fmt.Errorf("%s: its arguments are not known", f.name)
	}
	return nil
}

// hooksFor returns the programs to attach to a function. The number of bytes is known only when the call returns. For
// local calls the duration is not needed.
func (f *kernelFunction) hooksFor() (all []hook) {
	begins, ends := onMachine|onNetwork, onNetwork
	if f.by.begins == filesProgMoveBegins {
		begins, ends = onNetwork, onMachine|onNetwork
	}
	if f.by.begins != "" {
		all = append(all, hook{function: f.name, template: f.by.begins, scope: begins, must: f.must})
	}
	if f.by.ends != "" {
		all = append(all, hook{function: f.name, template: f.by.ends, scope: ends, must: f.must})
	}
	return all
}

// hasArgument reports whether a function has the argument that identifies its file system.
func hasArgument(fn *btf.Func, by programPair) bool {
	proto, ok := fn.Type.(*btf.FuncProto)
	if !ok || len(proto.Params) <= by.argument {
		return false
	}
	pointer, ok := btf.UnderlyingType(proto.Params[by.argument].Type).(*btf.Pointer)
	if !ok {
		return false
	}
	s, ok := btf.UnderlyingType(pointer.Target).(*btf.Struct)
	return ok && s.Name == by.kind
}
