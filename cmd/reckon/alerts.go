package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/internal/term"
	"reckon/web/client"
)

// digestFlag stores the choice of --digest in the options of the list of alerts.
type digestFlag struct {
	*choice
	to *string
}

func (d *digestFlag) Set(s string) error {
	if err := d.choice.Set(s); err != nil {
		return err
	}
	*d.to = s
	return nil
}

func newAlerts(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "alerts",
		Short: "Show firing alerts and the rules, and test their delivery",
		Long: `Show the alerts that are pending or fire, the rules behind them, and send a test
through the whole path. Rules are evaluated by the server (setting rules); messages
go out by an Alertmanager (alertmanager) or by the one inside (alertmanager-config).`,
		Example: `  reckon alerts                                those that are pending or fire
  reckon alerts rules
  reckon alerts test`,
		Args: cobra.NoArgs,
	}
	list := newAlertsList(g)
	cmd.RunE = list.RunE
	cmd.Flags().AddFlagSet(list.Flags())
	cmd.AddCommand(list, newAlertsRules(g), newAlertsTest(g))
	return cmd
}

func newAlertsList(g *globals) *cobra.Command {
	var format *choice
	cmd := &cobra.Command{
		Use: "list", Short: "List pending and firing alerts", Args: cobra.NoArgs,
		RunE: g.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			list, err := c.Alerts(ctx)
			if err != nil {
				return err
			}
			slices.SortStableFunc(list, func(a, b client.Alert) int {
				return strings.Compare(a.State+a.Labels["severity"]+a.Labels["alertname"],
					b.State+b.Labels["severity"]+b.Labels["alertname"])
			})
			if format.value == "json" {
				return writeJSON(g.stdout, list)
			}
			if len(list) == 0 {
				fmt.Fprintln(g.stdout, "No alert is pending or fires.")
				return nil
			}
			receivers, _ := c.AlertReceivers(ctx) // of an older server: it is not known
			t := term.TableOf("STATE|SEVERITY|ALERT|FOR:r|SENT TO:s10|WHAT:s20w")
			for _, a := range list {
				age := g.now().Sub(a.ActiveAt).Seconds()
				t.Add(a.State, a.Labels["severity"], a.Labels["alertname"], term.Seconds(&age), describeReceivers(&a, &receivers),
					a.Annotations["summary"])
			}
			return t.Print(g.screen())
		}),
	}
	format = g.shared.addFormatFlag(cmd, "table", "json")
	return cmd
}

// describeReceivers describes the receivers of a firing alert.
func describeReceivers(a *client.Alert, r *client.AlertReceivers) string {
	if r.From == "elsewhere" {
		return "another Alertmanager"
	}
	i := slices.IndexFunc(r.Sent, func(s client.AlertSent) bool { return maps.Equal(s.Labels, a.Labels) })
	switch {
	case i < 0:
		return ""
	case len(r.Sent[i].To) == 0:
		return "nobody"
	}
	return strings.Join(r.Sent[i].To, ", ")
}

func newAlertsRules(g *globals) *cobra.Command {
	var format *choice
	cmd := &cobra.Command{
		Use: "rules", Short: "List the rules that are evaluated", Args: cobra.NoArgs,
		RunE: g.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			list, err := c.Rules(ctx)
			if err != nil {
				return err
			}
			if format.value == "json" {
				return writeJSON(g.stdout, list)
			}
			if len(list) == 0 {
				fmt.Fprintln(g.stdout, "No rules are evaluated; start the server without the setting rules: none.")
				return nil
			}
			t := term.TableOf("GROUP|RULE|STATE|HEALTH|TOOK:r|FILE:s10|ERROR:s12o1")
			for _, r := range list {
				t.Add(r.Group, r.Name, r.State, r.Health, term.Seconds(&r.Seconds), r.File, r.LastError)
			}
			return t.Print(g.screen())
		}),
	}
	format = g.shared.addFormatFlag(cmd, "table", "json")
	return cmd
}

func newAlertsTest(g *globals) *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "test", Short: "Send a test alert through the whole path and report where it arrived",
		Long: `Send a test alert through the whole path and report where it arrived. It is marked as
a test and ends by itself after three minutes, and receivers that want resolved alerts
are notified of that too. An Alertmanager waits before it notifies (group_wait, 30 s
unless configured).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runAlertsTest(cmd.Context(), g, wait) },
	}
	cmd.Flags().DurationVar(&wait, "wait", 2*time.Minute, "for how long to wait until it arrives")
	return cmd
}

func runAlertsTest(ctx context.Context, g *globals, wait time.Duration) error {
	c, err := g.newClient()
	if err != nil {
		return err
	}
	test, err := c.TestAlert(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(g.stdout, "Sent test %s.\n", test.ID)
	end := time.After(wait)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for id, waiting := test.ID, true; waiting && !test.Done(); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			waiting = false
		case <-tick.C:
			if test, err = c.AlertTest(ctx, id); err != nil {
				return err
			}
		}
	}
	return printAlertTest(g, &test, wait)
}

func printAlertTest(g *globals, test *client.AlertTest, wait time.Duration) error {
	t := term.TableOf("ALERTMANAGER:s12|RECEIVER:s8|BY|ARRIVED:s20")
	missing := 0
	for _, d := range test.Deliveries {
		result := "yes"
		switch {
		case d.Error != "" && d.Arrived:
			result = "yes; " + d.Error
		case d.Error != "":
			result = "no: " + d.Error
		case !d.Arrived:
			result = "not within " + wait.String()
		}
		if !d.Arrived {
			missing++
		}
		t.Add(d.Alertmanager, d.Receiver, d.Integration, result)
	}
	if err := t.Print(g.screen()); err != nil {
		return err
	}
	if missing > 0 || len(test.Deliveries) == 0 {
		return fmt.Errorf("the test did not arrive at %d of %d places; check the receivers on the page Alerts or in the Alertmanager",
			missing, len(test.Deliveries))
	}
	return nil
}
