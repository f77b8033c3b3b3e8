package main

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// modules loads the modules of the initial file system in the order of their names.
func modules() {
	files, _ := filepath.Glob("/modules/*.ko") // sorted
	for _, name := range files {
		f, err := os.Open(name)
		if err == nil {
			err = unix.FinitModule(int(f.Fd()), "", 0)
			_ = f.Close()
		}
		if err != nil {
			printLine("note module %s: %v", name, err)
		}
	}
}
