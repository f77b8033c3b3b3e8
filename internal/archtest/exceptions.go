package archtest

import "strings"

// Exception allows one place to violate one rule. File and What must match the start of the violation's text, which
// begins with a file, or with a file and a name in it.
type Exception struct {
	Rule, File, What string
	Reason           string
}

// Exceptions lists all exceptions.
func Exceptions() []Exception {
	return []Exception{
		{"state", "internal/buildinfo/buildinfo.go", "var Version",
			"the linker sets it for releases (-X) and can set nothing but a variable"},
		{"init", "cmd/gcstart/gcstart.go", "func init", "it must run before the libraries allocate; only programs import it"},
		{"print", "web/ui/build/main.go", "os.Exit", "it is a program: it builds the pages, beside their sources"},
		{"print", "figure/gen/main.go", "os.Exit", "it is a program: it writes what is generated from the table beside it"},
		{"print", "web/api/gen/main.go", "os.Exit",
			"it is a program: it writes the texts of the OpenAPI file from the comments of package client"},
		{"sensor", "sensor/nvml/replay_test.go", "imports ",
			"it plays the raw answers of a library whose calls only this package knows through the accounts"},
		{"sleep", "agent/run/helper_test.go", "time.Sleep",
			"the programs that are measured do nothing but let time pass, or wait for a file of another process"},
		{"sleep", "agent/run/run_test.go", "time.Sleep", "it waits for a file that another process writes; nothing tells when"},
		{"sleep", "sensor/node/exporter_test.go", "time.Sleep", "it asks a real exporter until it listens; nothing tells when"},
	}
}

func (e Exception) matches(rule string, v Violation) bool {
	return e.Rule == rule && e.File == v.File && strings.HasPrefix(v.What, e.What)
}
