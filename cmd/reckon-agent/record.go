package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"reckon/agent"
	"reckon/internal/buildinfo"
	"reckon/sensor/replay/recording"
)

type recordOptions struct {
	output   string
	passes   int
	interval time.Duration
	keep     bool
	noFiles  bool
	agent    agent.Config
}

func newRecord(shared *options) *cobra.Command {
	var o recordOptions
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Record this machine into a file, to play it back elsewhere",
		Long: `record reads this machine as the agent does and writes the raw files and the readings
of some passes into one file. It is what a bug report needs: "reckon-agent --replay FILE"
and "reckon up --replay FILE" play it back.

Command lines and environments are never read; names of users and hosts are replaced by
pseudonyms unless --keep-names is given. Names of programs are kept.`,
		Example: `  reckon-agent record -o node.rec
  reckon-agent record -o node.rec --passes 600 --interval 1s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.agent = agent.Config{Source: shared.Source, Root: shared.Root}
			return runRecord(cmd.Context(), cmd.ErrOrStderr(), o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&o.output, "output", "o", "", "the file to write, which must not exist (required)")
	f.IntVar(&o.passes, "passes", 30, "how many passes")
	f.DurationVar(&o.interval, "interval", time.Second, "time between two passes")
	f.BoolVar(&o.keep, "keep-names", false, "keep the names of users and hosts")
	f.BoolVar(&o.noFiles, "no-files", false, "record readings only, without the raw files")
	f.AddFlag(shared.set.Flags.Lookup("source"))
	f.AddFlag(shared.set.Flags.Lookup("root"))
	return cmd
}

func runRecord(ctx context.Context, stderr io.Writer, o recordOptions) (err error) {
	switch {
	case o.output == "":
		return &usageError{errors.New("name the file to write with --output FILE")}
	case o.passes < 1:
		return &usageError{fmt.Errorf("--passes %d: at least one is needed", o.passes)}
	case o.interval < 10*time.Millisecond:
		return &usageError{fmt.Errorf("--interval %v: at least 10ms", o.interval)}
	}
	o.agent.Version, o.agent.Logger = buildinfo.Get().Version, slog.New(slog.DiscardHandler)
	a, _, err := agent.Open(o.agent)
	if err != nil {
		return err
	}
	defer a.Close()
	file, err := os.OpenFile(o.output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make the recording: %w", err)
	}
	defer func() {
		err = errors.Join(err, file.Close())
		if err != nil {
			_ = os.Remove(o.output) // an incomplete recording is useless
		}
	}()
	var scrub *recording.Scrubber
	if !o.keep {
		scrub = recording.NewScrubber(a.Node())
	}
	r, meta := a.Recorder(!o.noFiles, scrub, o.interval)
	if scrub != nil {
		scrub.Meta(&meta)
	}
	w, err := recording.NewWriter(file, meta)
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "reckon-agent: recording %d passes, one every %v; Ctrl-C ends it early\n", o.passes, o.interval)
	if err := r.Record(ctx, w, o.passes, o.interval); err != nil {
		return err
	}
	if info, err := file.Stat(); err == nil {
		fmt.Fprintf(stderr, "reckon-agent: wrote %s, %.1f MB\n", o.output, float64(info.Size())/1e6)
	}
	return nil
}
