package slurmctl

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"reckon/interop/scheduler"
)

// Commands polls through the commands of Slurm, which find their controller themselves.
type Commands struct {
	// Text uses text output even if the release supports JSON.
	Text bool
	// Env is added to the environment of the commands, such as SLURM_CONF=FILE.
	Env []string

	noJSON map[string]bool // commands without JSON here, or without reliable JSON
	probed bool            // the release was read
	bare   bool            // sacct does not support all the states
}

// Name implements Source.
func (c *Commands) Name() string { return "squeue, sacct and sinfo" }

// Check returns an error if the commands are not installed.
func (c *Commands) Check() error {
	for _, name := range []string{"squeue", "sinfo"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf(
				"the command %s of Slurm is not found: install slurm-client on this machine, start reckon where it is, or give the "+
					"address of slurmrestd with the setting slurm-url", name)
		}
	}
	return nil
}

// Jobs implements Source.
func (c *Commands) Jobs(ctx context.Context) (jobs []scheduler.Job, got scheduler.Read, err error) {
	err = c.readJSONOrText("squeue", func() error {
		return c.runCommand(ctx, func(r io.Reader) (err error) { jobs, got, err = readJobs(r); return err }, "squeue", "-a", "-t", "all",
			"--json")
	}, func() error {
		m := newMark()
		return c.runCommand(ctx, func(r io.Reader) (err error) { jobs, got, err = readQueueText(r, m); return err },
			"squeue", "-a", "-t", "all", "-h", "-o", strings.Join(queueFields, string(m)))
	})
	return jobs, got, err
}

// Ended implements Source.
func (c *Commands) Ended(ctx context.Context, since, until time.Time) ([]scheduler.Job, scheduler.Read, error) {
	which := []string{"-S", clockArg(since), "-E", clockArg(until)}
	if !c.bare {
		jobs, got, err := c.queryAccounts(ctx, append(which, "-s", finalStatesShort)...)
		if err == nil || !strings.Contains(err.Error(), "state") {
			return jobs, got, err
		}
		c.bare = true // an old sacct: it then also returns running jobs
	}
	return c.queryAccounts(ctx, which...)
}

// ByNumber implements Source.
func (c *Commands) ByNumber(ctx context.Context, numbers []uint64, since time.Time) ([]scheduler.Job, scheduler.Read, error) {
	ids := make([]string, len(numbers))
	for i, n := range numbers {
		ids[i] = strconv.FormatUint(n, 10)
	}
	return c.queryAccounts(ctx, "-j", strings.Join(ids, ","), "-S", clockArg(since))
}

func (c *Commands) queryAccounts(ctx context.Context, which ...string) (jobs []scheduler.Job, got scheduler.Read, err error) {
	if !c.probed {
		c.probeRelease(ctx)
	}
	args := append([]string{"sacct", "-a", "-D"}, which...)
	err = c.readJSONOrText("sacct", func() error {
		return c.runCommand(ctx, func(r io.Reader) (err error) { jobs, got, err = readAccounts(r); return err }, append(args, "--json")...)
	}, func() error {
		m := newMark()
		return c.runCommand(ctx, func(r io.Reader) (err error) { jobs, got, err = readAccountText(r, m); return err },
			append(args, "-n", "-P", "--delimiter="+string(m), "-o", strings.Join(accountFields, ","))...)
	})
	return jobs, got, err
}

// probeRelease determines whether the release of sacct writes usable JSON. Before 23.02, JSON has exit code 0 for every job
// (observed with 22.05.8), so the text output is used for these releases.
func (c *Commands) probeRelease(ctx context.Context) {
	var version []byte
	err := c.runCommand(ctx, func(r io.Reader) (err error) { version, err = io.ReadAll(io.LimitReader(r, 1000)); return err }, "sacct",
		"-V")
	if err != nil {
		return // the query itself will report the error
	}
	c.probed = true
	words := strings.Fields(string(version)) // slurm-wlm 22.05.8
	if len(words) < 2 {
		return
	}
	major, _, _ := strings.Cut(words[1], ".")
	if n, err := strconv.Atoi(major); err == nil && n < 23 {
		c.setNoJSON("sacct")
	}
}

// Nodes implements Source.
func (c *Commands) Nodes(ctx context.Context) (nodes []scheduler.Node, parts []scheduler.Partition, got scheduler.Read, err error) {
	var byText []scheduler.Node
	text := func() error {
		m := newMark()
		return c.runCommand(ctx, func(r io.Reader) (err error) { byText, parts, got, err = readNodesText(r, m); return err },
			"sinfo", "-a", "-N", "-h", "-o", strings.Join(nodeFields, string(m)))
	}
	asJSON := func(r io.Reader) (err error) { nodes, got, err = readNodes(r); return err }
	err = c.readJSONOrText("scontrol", func() error {
		if err := c.runCommand(ctx, asJSON, "scontrol", "-a", "show", "nodes", "--json"); err != nil {
			return err
		}
		return c.runCommand(ctx, func(r io.Reader) (err error) { parts, _, err = readPartitions(r); return err }, "scontrol", "-a", "show",
			"partitions", "--json")
	}, func() error {
		if err := text(); err != nil {
			return err
		}
		nodes = byText
		return c.readJSONOrText("sinfo", func() error { return c.runCommand(ctx, asJSON, "sinfo", "-a", "--json") },
			func() error { return nil })
	})
	if len(nodes) == 0 {
		nodes = byText
	}
	return nodes, parts, got, err
}

// readJSONOrText reads JSON; if the command does not support it, it uses text from then on.
func (c *Commands) readJSONOrText(name string, asJSON, asText func() error) error {
	if !c.Text && !c.noJSON[name] {
		err := asJSON()
		if !withoutJSON(err) {
			return err
		}
		c.setNoJSON(name)
	}
	return asText()
}

func (c *Commands) setNoJSON(name string) {
	if c.noJSON == nil {
		c.noJSON = map[string]bool{}
	}
	c.noJSON[name] = true
}

// withoutJSON reports whether an error means that a release, or its build or package, has no JSON.
func withoutJSON(err error) bool {
	var f *commandFailure
	if err == nil {
		return false
	}
	if errors.As(err, &f) {
		message := strings.ToLower(f.stderr)
		for _, s := range []string{"unrecognized option", "invalid option", "unknown option", "plugin", "serializer", "json",
			"invalid keyword", "too many arguments"} {
			if strings.Contains(message, s) {
				return true
			}
		}
		return false
	}
	return strings.Contains(err.Error(), "no JSON object") || strings.Contains(err.Error(), "has no list")
}

// commandFailure is a command that ended with an error.
type commandFailure struct {
	name, stderr string
	err          error
}

func (f *commandFailure) Error() string {
	if f.stderr != "" {
		return f.name + ": " + f.stderr
	}
	return f.name + ": " + f.err.Error()
}

func (f *commandFailure) Unwrap() error { return f.err }

// runCommand starts a command and parses its output while it is written.
func (c *Commands) runCommand(ctx context.Context, read func(io.Reader) error, args ...string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = c.cleanEnvironment(cmd.Environ())
	cmd.WaitDelay = 5 * time.Second
	stderr := &headWriter{room: 2000}
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	if err := cmd.Start(); err != nil {
		return &commandFailure{name: args[0], err: err}
	}
	readErr := read(out)
	_, _ = io.Copy(io.Discard, out) // the rest of an invalid document, so that the command can exit
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s gave no answer in time: %w", args[0], context.Cause(ctx))
	case err != nil:
		return &commandFailure{args[0], stderr.oneLine(), err}
	case readErr != nil:
		return fmt.Errorf("%s: %w", args[0], readErr)
	}
	return nil
}

// cleanEnvironment removes variables that change the output of these commands.
func (c *Commands) cleanEnvironment(all []string) []string {
	out := make([]string, 0, len(all)+2)
	for _, v := range all {
		if !strings.HasPrefix(v, "SQUEUE_") && !strings.HasPrefix(v, "SACCT_") && !strings.HasPrefix(v, "SINFO_") &&
			!strings.HasPrefix(v, "SCONTROL_") &&
			!strings.HasPrefix(v, "SLURM_TIME_FORMAT=") && !strings.HasPrefix(v, "SLURM_BITSTR_LEN=") {
			out = append(out, v)
		}
	}
	return append(append(out, "SLURM_TIME_FORMAT=%s", "SLURM_BITSTR_LEN=0"), c.Env...)
}

// clockArg formats a time for the commands in local time, because all releases accept it.
func clockArg(t time.Time) string { return t.Local().Format("2006-01-02T15:04:05") }

func newMark() mark { return mark("\x1f" + rand.Text() + "\x1f") }

// headWriter keeps the first bytes that are written to it.
type headWriter struct {
	buf  bytes.Buffer
	room int
}

func (h *headWriter) Write(p []byte) (int, error) {
	h.buf.Write(p[:min(len(p), max(h.room-h.buf.Len(), 0))])
	return len(p), nil
}

// oneLine returns the text as one line.
func (h *headWriter) oneLine() string {
	return strings.Join(strings.Fields(strings.ReplaceAll(h.buf.String(), "\n", "; ")), " ")
}
