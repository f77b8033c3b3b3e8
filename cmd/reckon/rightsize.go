package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"reckon/internal/term"
	"reckon/web/client"
)

func newRightsize(g *globals) *cobra.Command {
	var site string
	var format *choice
	cmd := &cobra.Command{
		Use:   "rightsize ID",
		Short: "Recommend a workload's request, and backtest it",
		Long: `Recommend the request of a workload. A service needs two days of history: each container
gets cores and memory from its use day by day. The same rule is tested on the last days:
the share of time above it, and the idle share of the request. A batch job gets the
request of its next run, from earlier runs of its name. A process group gets cores and
memory from its one run, once it has ended.

Nothing is changed. --format resources writes the lines for a pod, a batch script
or a systemd unit; patch and vpa write objects for kubectl.`,
		Example: `  reckon rightsize deployment/shop/cart
  reckon rightsize deployment/shop/cart --format patch > cart.json
  reckon rightsize deployment/shop/cart --format vpa > cart-vpa.json
  reckon rightsize slurm/4711 --format resources`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: firstArg(g, completeIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runRightsize(cmd.Context(), g, args[0], site, format.value)
		},
	}
	g.shared.addFlag(cmd, "site", &site)
	format = g.shared.addFormatFlag(cmd, "table", "json", "resources", "patch", "vpa")
	return cmd
}

func runRightsize(ctx context.Context, g *globals, id, site, format string) error {
	now := g.now()
	id, start, err := parseRunID(id, "", now)
	if err != nil {
		return err
	}
	c, err := g.newClient()
	if err != nil {
		return err
	}
	d, err := c.Workload(ctx, id, client.Range{Site: site, Start: start, By: "total"})
	if err != nil {
		return err
	}
	g.reportMissing(d.Missing)
	a := d.Advice
	if a == nil {
		if d.NoAdvice == nil { // an older server, or one that could not ask
			return errors.New(id + ": no advice")
		}
		return errors.New(id + ": " + d.NoAdvice.Text)
	}
	text := ""
	switch format {
	case "json":
		return writeJSON(g.stdout, a)
	case "table":
		return printRightsize(g, d)
	case "resources":
		text = a.Paste
	case "patch":
		text = a.Patch
	case "vpa":
		text = a.VPA
	}
	if text == "" {
		return fmt.Errorf("%s: a %s has no %s; use --format table for its recommended request", id, d.Kind, format)
	}
	_, err = fmt.Fprintln(g.stdout, text)
	return err
}

func printRightsize(g *globals, detail client.WorkloadDetail) error {
	p := &page{Screen: g.screen()}
	if len(detail.Advice.Containers) > 0 {
		t := term.TableOf("CONTAINER:s8|DAYS:r|CORES:r|P95:r|P99:r|EXCEEDED:r|IDLE:r|IDLE NOW:r|MEMORY:r|PEAK:r|IDLE:r|IDLE NOW:r")
		for _, c := range detail.Advice.Containers {
			name := cmp.Or(c.Container, detail.ID)
			above, idle := formatRequestTest(c.TestedCores)
			_, idleNow := formatRequestTest(c.NowCores)
			_, memoryIdle := formatRequestTest(c.TestedMemory)
			_, memoryNow := formatRequestTest(c.NowMemory)
			t.Add(name, fmt.Sprint(c.Days), term.Cores(c.Cores), term.Cores(c.CoresP95), term.Cores(c.CoresP99), above, idle, idleNow,
				term.Bytes(c.MemoryBytes), term.Bytes(c.MemoryPeak), memoryIdle, memoryNow)
		}
		if err := t.Print(g.screen()); err != nil {
			return err
		}
	}
	p.printAdvice(detail.Advice)
	_, err := fmt.Fprint(g.screen(), p.b.String())
	return err
}

// formatRequestTest formats the share of time that a request was exceeded, and its idle share.
func formatRequestTest(t *client.RequestTest) (above, idle string) {
	if t == nil {
		return term.Unknown, term.Unknown
	}
	return term.Percent(&t.Above), term.Percent(&t.Slack)
}
