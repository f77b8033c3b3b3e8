// Command kernels runs the accuracy cases of every source on the kernels of Debian, on machines
// that QEMU emulates, so that it needs neither hardware nor KVM:
//
//	go run ./test/kernels                          # all of them, one after the other: an hour and more
//	go run ./test/kernels -only 6.1 -tests none   # some, without the test programs
//
// It takes the kernels from the Debian archive (apt-get, as any user; nothing is installed), makes
// for each an initial file system that holds the agent, test programs and test/kernels/guest as the
// first process, and prints a table: kernel and control groups by source and privilege, each with
// the worst difference between what the agent charged and what the kernel counted for known loads.
// It fails if a difference is larger than its limit.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// machine is an emulated machine.
type machine struct {
	arch, suite string   // of Debian
	layout      string   // of control groups: v1, v2, hybrid
	tests       []string // packages with test programs that run, too
	modes       string   // pattern of the modes to run
	loads       string   // pattern of the loads to run
}

func (m machine) name() string { return m.suite + " " + m.arch + " " + m.layout }

// machines lists Debian 11's kernel (5.10), Debian 12's (6.1) and its backported one (6.12).
func machines() []machine {
	return []machine{
		{arch: "amd64", suite: "bookworm", layout: "v2", tests: testPackages},
		{arch: "amd64", suite: "bookworm", layout: "v1"},
		{arch: "amd64", suite: "bookworm", layout: "hybrid"},
		{arch: "amd64", suite: "bookworm-backports", layout: "v2", tests: testPackages},
		{arch: "amd64", suite: "bookworm-backports", layout: "v1"},
		{arch: "amd64", suite: "bullseye", layout: "hybrid", tests: testPackages},
		{arch: "arm64", suite: "bookworm", layout: "v2", tests: testPackages},
		{arch: "arm64", suite: "bookworm-backports", layout: "v2", tests: testPackages},
	}
}

func main() {
	cache := flag.String("cache", "bin/kernels", "folder that keeps kernels and programs")
	only := flag.String("only", "", "pattern of the machines to run, such as 'bookworm amd64'")
	tests := flag.String("tests", "", "pattern of the packages whose test programs run, too, such as 'files$'; 'none' runs none")
	limit := flag.Duration("timeout", 20*time.Minute, "for each machine")
	mode := flag.String("modes", "", "pattern of the sources and privileges to run, such as '^unprivileged'")
	loads := flag.String("loads", "", "pattern of the loads to run, such as '^nfs$'")
	verbose := flag.Bool("v", false, "print all that the machines print")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *cache, *only, *tests, machine{modes: *mode, loads: *loads}, *limit, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "kernels:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, cache, only, tests string, some machine, limit time.Duration, verbose bool) error {
	if names := missingPrograms(); len(names) > 0 {
		return fmt.Errorf(
			"these programs are not here: %s; on Debian: apt-get install apt dpkg xz-utils qemu-system-x86 qemu-system-arm "+
				"debian-archive-keyring", strings.Join(names, ", "))
	}
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	packages, err := regexp.Compile(tests)
	if err != nil {
		return err
	}
	if cache, err = filepath.Abs(cache); err != nil {
		return err
	}
	var all []*report
	for _, m := range machines() {
		if !pattern.MatchString(m.name()) {
			continue
		}
		m.tests = slices.DeleteFunc(slices.Clone(m.tests), func(p string) bool { return !packages.MatchString(p) })
		m.modes, m.loads = some.modes, some.loads
		r := &report{machine: m}
		all = append(all, r)
		began := time.Now()
		if err := emulate(ctx, cache, m, limit, r, verbose); err != nil {
			r.addProblem(err.Error())
		}
		fmt.Printf("%s: kernel %s, %d s\n", m.name(), r.kernel, int(time.Since(began).Seconds()))
		for _, p := range r.problems {
			fmt.Println("  " + p)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	fmt.Println()
	fmt.Print(markdownTable(all))
	for _, r := range all {
		if len(r.problems) > 0 {
			return fmt.Errorf("%s and others have problems, see above", r.machine.name())
		}
	}
	return nil
}
