// Command reckon reports the use of CPU, memory, GPU, disk and energy by every job, pod, service
// and user of a machine or a site.
//
// Each subcommand is one file: its constructor, its options and its run function. Commands print to
// standard output; errors and progress go to standard error. The exit status is 0 on success, 1 on
// failure and 2 after a usage error; `reckon run` exits with the status of the command that it ran.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	_ "reckon/cmd/gcstart" // fewer collections at the start
)

func main() {
	ctx, stop := context.Background(), func() {}
	if len(os.Args) < 2 || os.Args[1] != "run" {
		// run forwards signals to its command, and must not handle signals that a shell ignores for a background
		// job.
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		context.AfterFunc(ctx, func() {
			// A later signal ends the process at once, but for SIGTERM to a server, which always ends.
			time.AfterFunc(2*time.Second, func() {
				if len(os.Args) > 1 && (os.Args[1] == "serve" || os.Args[1] == "up") {
					signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM)
				}
				stop()
			})
		})
	}
	run := execute
	if filepath.Base(os.Args[0]) == kubectlName {
		run = executePlugin
	}
	code := run(ctx, deps{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, localLive: inProcess,
	}, os.Args[1:])
	stop()
	os.Exit(code)
}
