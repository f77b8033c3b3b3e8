// Command kernels runs the accuracy cases of every source on the kernels of Debian, on machines
// that QEMU emulates, so that it needs neither hardware nor KVM:
//
//	go run ./test/kernels                          # all of them, one after the other: an hour and more
//	go run ./test/kernels -only 6.1 -tests=false   # some, without the test programs
//
// It takes the kernels from the Debian archive (apt-get, as any user; nothing is installed), makes
// for each an initial file system that holds the agent, test programs and test/kernels/guest as
// the first process, and prints a table: kernel and control groups by source and privilege, each
// with the worst difference between what the agent charged and what the kernel counted for
// known loads. It fails where a difference is larger than its limit.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// machine is one to be emulated.
type machine struct {
	arch, suite string // of Debian
	layout      string // of control groups: v1, v2, hybrid
	tests       bool   // run the test programs, too
}

func (m machine) name() string { return m.suite + " " + m.arch + " " + m.layout }

// machines lists Debian 11's kernel (5.10), Debian 12's (6.1) and its backported one (6.12).
func machines() []machine {
	return []machine{
		{"amd64", "bookworm", "v2", true},
		{"amd64", "bookworm", "v1", false},
		{"amd64", "bookworm", "hybrid", false},
		{"amd64", "bookworm-backports", "v2", true},
		{"amd64", "bookworm-backports", "v1", false},
		{"amd64", "bullseye", "hybrid", true},
		{"arm64", "bookworm", "v2", true},
	}
}

func main() {
	cache := flag.String("cache", "bin/kernels", "folder that keeps kernels and programs")
	only := flag.String("only", "", "pattern of the machines to run, such as 'bookworm amd64'")
	tests := flag.Bool("tests", true, "run the test programs of the sensors, too")
	limit := flag.Duration("timeout", 20*time.Minute, "for each machine")
	verbose := flag.Bool("v", false, "print all that the machines print")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *cache, *only, *tests, *limit, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "kernels:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, cache, only string, tests bool, limit time.Duration, verbose bool) error {
	if names := missing(); len(names) > 0 {
		return fmt.Errorf("these programs are not here: %s; on Debian: apt-get install apt dpkg qemu-system-x86 qemu-system-arm debian-archive-keyring", strings.Join(names, ", "))
	}
	pattern, err := regexp.Compile(only)
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
		r := &report{machine: m}
		all = append(all, r)
		m.tests = m.tests && tests
		began := time.Now()
		if err := emulate(ctx, cache, m, limit, r, verbose); err != nil {
			r.problem(err.Error())
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
	fmt.Print(table(all))
	for _, r := range all {
		if len(r.problems) > 0 {
			return fmt.Errorf("%s and others have problems, see above", r.machine.name())
		}
	}
	return nil
}
