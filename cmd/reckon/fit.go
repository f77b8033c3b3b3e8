package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"reckon/internal/term"
	"reckon/web/client"
)

func newFit(g *globals) *cobra.Command {
	var q client.FitQuery
	var memory, gpuMemory, length string
	var ranked bool
	var format *choice
	cmd := &cobra.Command{
		Use:   "fit",
		Short: "Show where a job would fit, and how long jobs like it waited there",
		Long: `Show which machines or partitions fit a job and which have room now. WAIT P50 is the
median wait of jobs with similar requests (half to twice) there in the last 30 days;
only a batch system reports it. Amounts are of one node.

With a part of a GPU (--gpus 0.4) or an amount of its memory the answer lists the GPUs
to share: their users, the room beside the peaks of the last day, the least slow-down of
all users, and the partition to take.`,
		Example: `  reckon fit --cores 16 --memory 64G --time 8h
  reckon fit --gpus 1
  reckon fit --gpus 0.4 --gpu-memory 3GiB
  reckon fit --cores 16 --memory 64G --rank
  reckon fit --cores 4 --format json | jq '.places[0]'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if q.MemoryBytes, err = parseByteFlag("memory", memory); err != nil {
				return err
			}
			if q.GPUMemoryBytes, err = parseByteFlag("gpu-memory", gpuMemory); err != nil {
				return err
			}
			if q.Time, err = parseSpan("time", length); err != nil {
				return err
			}
			if q.Cores < 0 || q.GPUs < 0 {
				return &usageError{fmt.Errorf("--cores %g, --gpus %g: give 0 or more", q.Cores, q.GPUs)}
			}
			if ranked {
				r := client.RankQuery{Cores: q.Cores, MemoryBytes: q.MemoryBytes, GPUs: q.GPUs, Hours: q.Time.Hours()}
				return runRank(cmd.Context(), g, r, true, format.value)
			}
			return runFit(cmd.Context(), g, q, format.value)
		},
	}
	f := cmd.Flags()
	f.Float64Var(&q.Cores, "cores", 0, "cores on one node")
	g.shared.addFlag(cmd, "memory", &memory)
	f.Float64Var(&q.GPUs, "gpus", 0, "GPUs on one node; below 1 a part of the time of one")
	f.StringVar(&gpuMemory, "gpu-memory", "", "memory of one GPU, such as 3G (1024 based)")
	g.shared.addFlag(cmd, "time", &length)
	f.BoolVar(&ranked, "rank", false, "order the nodes by the watts that it adds there, as `reckon rank --explain`")
	format = g.shared.addFormatFlag(cmd, "table", "json", "csv")
	return cmd
}

// parseByteFlag parses bytes: a number with the suffix K, M, G or T, 1024 based.
func parseByteFlag(flag, text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	s := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(strings.TrimSpace(text)), "B"), "I")
	factor := 1.0
	if at := strings.IndexAny("KMGT", s[max(len(s)-1, 0):]); at >= 0 && s != "" {
		s = s[:len(s)-1]
		for range at + 1 {
			factor *= 1024
		}
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0) || v > 1e15 {
		return 0, &usageError{fmt.Errorf("--%s: %q is no amount of memory; give a number with K, M, G or T, such as 64G", flag, text)}
	}
	return v * factor, nil
}

func runFit(ctx context.Context, g *globals, q client.FitQuery, format string) error {
	return printAnswer(ctx, g, format, func(ctx context.Context, c *client.Client) (output, error) {
		list, err := c.Fit(ctx, q)
		return output{json: list, csv: csvOf(list.Places), rows: len(list.Places), missing: list.Missing,
			empty: "no node has reported within the last day; start an agent with `reckon up` or reckon-agent",
			print: func(s term.Screen) error {
				if err := fitTable(list.Places).Print(s); err != nil {
					return err
				}
				if q.Shares() {
					if err := printSharing(g, list.Sharing); err != nil {
						return err
					}
				}
				return printAsOf(g, s, list.AsOf)
			}}, err
	})
}

func fitTable(places []client.Place) *term.Table {
	t := term.TableOf("FITS|SITE:s6o1|PARTITIONS:s8|NODES UP:r|ROOM NOW:r|CORES:ro2|MEMORY:ro3|GPUS:ro4|COMPARABLE:ro6|WAIT P50:r" +
		"|P90:ro5|WHY:s24w")
	for i := range places {
		p := &places[i]
		fits := "unknown"
		if p.Fits != nil {
			fits = map[bool]string{true: "yes", false: "no"}[*p.Fits]
		}
		t.Add(fits, p.Site, cmp.Or(strings.Join(p.Partitions, ","), term.Unknown), formatCount(p.Up)+fmt.Sprintf(" of %d", p.Nodes),
			formatCount(p.FreeNow), term.Cores(p.Cores), term.Bytes(p.MemoryBytes),
			term.Number(p.GPUs), fmt.Sprint(p.Comparable), term.Seconds(p.WaitP50), term.Seconds(p.WaitP90), p.Why)
	}
	return t
}

// printSharing shows which GPUs the job could share.
func printSharing(g *globals, list []client.GPUShare) error {
	if len(list) == 0 {
		fmt.Fprintln(g.stderr, "reckon: note: no GPU has reported in the last minutes: GPUs that can be shared are unknown")
		return nil
	}
	fmt.Fprintln(g.stdout)
	t := term.TableOf("SHARES|NODE:s8|GPU|MODEL:s10o1|WITH:s12|MEMORY LEFT:r|TIME LEFT:r|SLOWDOWN:r|PROFILE:o2|WHY:s24w")
	for i := range list {
		s := &list[i]
		fits := "unknown"
		if s.Fits != nil {
			fits = map[bool]string{true: "yes", false: "no"}[*s.Fits]
		}
		var with []string
		for _, tenant := range s.Tenants {
			if len(with) == 3 && len(s.Tenants) > 4 {
				with = append(with, fmt.Sprintf("%d more", len(s.Tenants)-3))
				break
			}
			name := tenant.Workload
			if tenant.Estimated {
				name = "~" + name
			}
			with = append(with, name)
		}
		slow := term.Unknown
		if s.SlowdownAtLeast != nil {
			slow = fmt.Sprintf(">= %.2f", *s.SlowdownAtLeast)
		}
		t.Add(fits, s.Node, s.Index, s.Model, cmp.Or(strings.Join(with, ", "), "nobody"), term.Bytes(s.MemoryLeft),
			term.Percent(s.BusyLeft), slow, s.Profile, s.Why)
	}
	return t.Print(g.screen())
}

// formatCount formats a number that may be unknown.
func formatCount(n *int) string {
	if n == nil {
		return term.Unknown
	}
	return fmt.Sprint(*n)
}
