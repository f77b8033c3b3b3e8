package archtest

import "strings"

// Exception lets one place break one rule. Where is the beginning of the text of the
// violation: a file, or a file and what stands in it.
type Exception struct {
	Rule, File, What string
	Reason           string
}

// Exceptions is the list of them.
func Exceptions() []Exception {
	return []Exception{
		{"state", "internal/buildinfo/buildinfo.go", "var Version", "the linker sets it for releases (-X) and can set nothing but a variable"},
		{"getenv", "internal/run/start.go", "os.Environ", "the command that reckon run starts inherits the environment; nothing is read from it"},
	}
}

func (e Exception) covers(rule string, v Violation) bool {
	return e.Rule == rule && e.File == v.File && strings.HasPrefix(v.What, e.What)
}
