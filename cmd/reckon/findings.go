package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/analysis/misuse"
	"reckon/answer/findings"
	"reckon/internal/term"
	"reckon/web/client"
)

type findingsOptions struct {
	filter  client.FindingFilter
	since   string
	explain string
	whatIf  string
	all     bool
	by      *choice
	columns []string
	format  *choice
}

// ruleHelp returns a line for each rule.
func ruleHelp() string {
	var b strings.Builder
	for _, r := range misuse.Rules() {
		fmt.Fprintf(&b, "  %-17s %s\n", r, misuse.Help(r))
	}
	return b.String()
}

// newFindings returns `reckon findings`.
func newFindings(g *globals) *cobra.Command {
	var o findingsOptions
	cmd := &cobra.Command{
		Use:   "findings",
		Short: "Show who holds unused resources, takes too much, or harms own work",
		Long: `Who holds resources without using them, takes too much, or harms their own work:

` + ruleHelp() + `
The server looks every few minutes at the last day. A finding is new at first, open
while it lasts and gone when it is no longer confirmed; --since is of when it was
confirmed, and with --what-if the start of the history, by default a day ago. With
--since the list has what is unused over time in imported time, too: nobody is notified
of that. The thresholds are a policy:
` + "`reckon findings policy`" + ` prints it with comments.`,
		Example: `  reckon findings
  reckon findings --by owner                   who wastes how much
  reckon findings --owner alice --rule over-requested,over-share
  reckon findings --since 365d                 who wasted what in an imported year
  reckon findings --explain 3f2a9c1b04de       how one came about
  reckon findings --explain over-share         what a rule means, and its thresholds
  reckon findings --what-if stricter.yaml --since 7d
  reckon findings mute 3f2a9c1b04de --reason "agreed until the paper" --until 30d`,
		Args: requireSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return runFindings(cmd, g, o) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.filter.Rules, "rule", nil, "of these rules")
	g.shared.addListFlag(cmd, "owner", &o.filter.Owners)
	f.StringSliceVar(&o.filter.Severities, "severity", nil, "of these severities: high, medium, low")
	f.StringSliceVarP(&o.filter.States, "state", "s", nil, "in these states: new, open, gone (default: new and open)")
	f.StringVarP(&o.filter.Workload, "workload", "j", "", "about this workload: slurm/4711, or the number of a batch job")
	g.shared.addFlag(cmd, "node", &o.filter.Node)
	g.shared.addFlag(cmd, "since", &o.since)
	f.BoolVar(&o.all, "all", false, "in every state, those that are muted too")
	f.IntVar(&o.filter.Limit, "limit", 0, "at most this many (default 1000)")
	f.StringVar(&o.explain, "explain", "", "explain a finding by its id, or a rule by its name")
	f.StringVar(&o.whatIf, "what-if", "", "policy file to try: print its findings without storing them")
	o.by = &choice{words: []string{"owner"}}
	f.Var(o.by, "by", "owner: one line for each owner, with what was wasted")
	completeWords(cmd, "by", o.by.words...)
	addColumns[client.Finding](g.shared, cmd, &o.columns)
	o.format = g.shared.addFormatFlag(cmd, "table", "json", "csv")
	completeWords(cmd, "rule", misuse.Rules()...)
	completeWords(cmd, "severity", "high", "medium", "low")
	completeWords(cmd, "state", "new", "open", "gone")
	cmd.AddCommand(newFindingsPolicy(g), newFindingsAck(g), newFindingsMute(g))
	return cmd
}

func runFindings(cmd *cobra.Command, g *globals, o findingsOptions) error {
	if o.explain != "" && o.whatIf != "" {
		return asUsageError(cmd, errors.New("give one of --explain and --what-if"))
	}
	since, err := parseTime("since", o.since, g.now())
	if err != nil {
		return err
	}
	columns, err := resolveColumns[client.Finding](o.columns, findingAliases())
	if err != nil {
		return err
	}
	o.filter.Workload = completeJobID(o.filter.Workload)
	if o.explain != "" {
		if slices.Contains(misuse.Rules(), o.explain) {
			return explainRule(cmd, g, o.explain)
		}
	}
	c, err := g.newClient()
	if err != nil {
		return err
	}
	switch {
	case o.explain != "":
		f, err := o.fetchFinding(cmd.Context(), c, since)
		if err != nil {
			return err
		}
		return explainFinding(cmd, g, c, o, f)
	case o.whatIf != "":
		return runWhatIf(cmd, g, c, o, since)
	}
	o.filter.Since = since
	list, err := o.fetchFindings(cmd.Context(), c, g.now())
	if err != nil {
		return err
	}
	return printFindings(g, o, list, columns)
}

// fetchFinding fetches the finding to explain. With --since it may belong to imported time.
func (o *findingsOptions) fetchFinding(ctx context.Context, c *client.Client, since time.Time) (client.Finding, error) {
	f, err := c.Finding(ctx, o.explain)
	if err == nil || since.IsZero() {
		return f, err
	}
	list, more := c.Findings(ctx, client.FindingFilter{Since: since})
	if i := slices.IndexFunc(list.Findings, func(f client.Finding) bool { return f.ID == o.explain }); more == nil && i >= 0 {
		return list.Findings[i], nil
	}
	return f, err
}

// fetchFindings fetches the findings; if there are none, an unknown name is an error.
func (o *findingsOptions) fetchFindings(ctx context.Context, c *client.Client, now time.Time) (client.FindingList, error) {
	f := o.filter
	if o.all {
		f.Muted = true
		if len(f.States) == 0 {
			f.States = []string{"new", "open", "gone"}
		}
	}
	list, err := c.Findings(ctx, f)
	if err != nil || len(list.Findings) > 0 {
		return list, err
	}
	of := filterValues{"owner": f.Owners}
	if f.Workload != "" {
		of["id"] = []string{f.Workload}
	}
	if f.Node != "" {
		of["node"] = []string{f.Node}
	}
	return list, checkNames(ctx, c, now, of)
}

func printFindings(g *globals, o findingsOptions, list client.FindingList, columns []string) error {
	if o.by.value != "" && len(list.Findings) > 0 {
		return printFindingOwners(g, o.format.value, list)
	}
	switch o.format.value {
	case "json":
		return printJSON(g, list.Findings)
	case "csv":
		return client.WriteCSV(g.stdout, list.Findings, columns...)
	}
	if len(columns) > 0 && len(list.Findings) > 0 {
		return printColumns(g, g.screen(), list.Findings, columns, nil)
	}
	if len(list.Findings) == 0 {
		text := "No findings."
		if list.Looked == nil {
			text = "Not checked yet: the first check runs a few minutes after the server starts."
		}
		fmt.Fprintln(g.stdout, text)
		return nil
	}
	if err := findingsTable(g, list.Findings); err != nil {
		return err
	}
	if n := list.Total - len(list.Findings); n > 0 {
		fmt.Fprintf(g.stdout, "\n%d more; --limit shows them.\n", n)
	}
	since := ""
	if list.Findings[0].State == "imported" {
		since = " --since " + o.since
	}
	fmt.Fprintf(g.stdout, "\n`reckon findings --explain %s%s` explains the first one.\n", list.Findings[0].ID, since)
	return nil
}

// printFindingOwners prints the findings by owner.
func printFindingOwners(g *globals, format string, list client.FindingList) error {
	switch format {
	case "json":
		return printJSON(g, list.Owners)
	case "csv":
		return client.WriteCSV(g.stdout, list.Owners)
	}
	t := term.TableOf("OWNER:s8|FINDINGS:r|SEVERITY|CORE-HOURS:r|GPU-HOURS:r|GiB-HOURS:ro1|RULES:s12")
	for _, o := range list.Owners {
		t.Add(cmp.Or(o.Owner, term.Unknown), strconv.Itoa(o.Findings), o.Severity, term.Hours(o.CoreSeconds), term.Hours(o.GPUSeconds),
			term.Hours(divideBy(o.ByteSeconds, 1<<30)), strings.Join(o.Rules, ", "))
	}
	if err := t.Print(g.screen()); err != nil {
		return err
	}
	fmt.Fprintln(g.stdout, "\nHours that were allocated and not used, where the findings give them.")
	return nil
}

func findingsTable(g *globals, list []client.Finding) error {
	t := term.TableOf("ID|SEVERITY:o1|RULE:o3|OWNER:s8|ABOUT:s12|WHAT:s32w|SINCE:o2|STATE:o4")
	for _, f := range list {
		state := f.State
		if f.MutedUntil != nil && f.MutedUntil.After(g.now()) {
			state = "muted"
		} else if f.AckBy != "" && f.State != "gone" {
			state = "seen by " + f.AckBy
		}
		about := cmp.Or(f.Workload, f.Node)
		t.Add(f.ID, f.Severity, f.Rule, f.Owner, about, f.Text, term.Clock(f.First, g.now()), state)
	}
	return t.Print(g.screen())
}

// explainFinding shows step by step how a finding was derived.
func explainFinding(cmd *cobra.Command, g *globals, c *client.Client, o findingsOptions, finding client.Finding) error {
	var sum *client.FindingSteps
	if finding.Rule == misuse.OverShare {
		s, err := c.FindingSteps(cmd.Context(), finding.ID)
		if err != nil {
			return err
		}
		sum = &s
	}
	switch o.format.value {
	case "json":
		return printJSON(g, struct {
			client.Finding
			Steps *client.FindingSteps `json:"steps,omitempty"`
		}{finding, sum})
	case "csv":
		if sum == nil {
			return asUsageError(cmd, errors.New("--format csv gives the steps of the score of over-share; this finding has none"))
		}
		return client.WriteCSV(g.stdout, sum.Steps)
	}
	about := cmp.Or(finding.Workload, finding.Node, "all work of "+finding.Owner)
	w := g.stdout
	fmt.Fprintf(w, "%s: %s %s\n  %s\n\n", term.Safe(finding.Rule), term.Safe(finding.Owner), term.Safe(about), term.Safe(finding.Text))
	fmt.Fprintf(w, "Severity   %s\nTime       %s to %s\nFound      %s, confirmed %s, %s\n", finding.Severity,
		term.Clock(finding.First, g.now()), term.Clock(finding.Last, g.now()), term.Clock(finding.Found, g.now()),
		term.Ago(finding.Seen, g.now()), finding.State)
	if finding.AckBy != "" {
		fmt.Fprintf(w, "Seen by    %s\n", term.Safe(finding.AckBy))
	}
	if finding.MutedUntil != nil && finding.MutedUntil.After(g.now()) {
		fmt.Fprintf(w, "Muted      until %s: %s\n", term.Clock(*finding.MutedUntil, g.now()), term.Safe(finding.MuteReason))
	}
	fmt.Fprintln(w, "\nThe figures behind it:")
	t := term.TableOf("FIGURE:s30|VALUE:r|LIMIT:r")
	for _, e := range finding.Evidence {
		limit := term.Unknown
		if e.Limit != nil {
			limit = formatEvidence(*e.Limit, e.Unit)
		}
		t.Add(e.Text, formatEvidence(e.Value, e.Unit), limit)
	}
	if err := t.Print(g.screen()); err != nil {
		return err
	}
	if sum != nil {
		if err := printScoreSteps(g, *sum); err != nil {
			return err
		}
	}
	if len(finding.Queries) > 0 {
		fmt.Fprintln(w, "\nThe same in PromQL, over that time:")
		for _, q := range finding.Queries {
			fmt.Fprintf(w, "  # %s\n  %s\n", term.Safe(q.Text), term.Safe(q.Query))
		}
	}
	fmt.Fprintf(w, "\nThe rule: %s.\n", term.Safe(finding.Means))
	if finding.Workload != "" {
		fmt.Fprintf(w, "`reckon job %s` shows the workload.\n", term.Safe(finding.Workload))
	}
	return nil
}

// shownSteps is the maximum number of displayed steps of a score, those with the largest contribution.
const shownSteps = 20

// printScoreSteps shows the steps that add up to the score of over-share.
func printScoreSteps(g *globals, s client.FindingSteps) error {
	w := g.stdout
	if s.Note != "" {
		fmt.Fprintf(w, "\n%s\n", term.Safe(s.Note))
		return nil
	}
	if len(s.Steps) == 0 {
		fmt.Fprintln(w, "\nThe steps behind the score are no longer kept.")
		return nil
	}
	list := slices.Clone(s.Steps)
	slices.SortStableFunc(list, func(a, b client.FindingStep) int { return cmp.Compare(b.Seconds, a.Seconds) })
	list = list[:min(len(list), shownSteps)]
	slices.SortStableFunc(list, func(a, b client.FindingStep) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), a.Start.Compare(b.Start))
	})
	fmt.Fprintln(w, "\nHow the score adds up: (use - fair share) / capacity x time")
	amount := func(v float64) string {
		if s.Unit == "bytes" {
			return term.Bytes(&v)
		}
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	t := term.TableOf("NODE:s8|FROM|FOR:r|USE:r|FAIR:r|OF:r|OWNERS:ro1|CONTENDED BY:o2|SCORE:r")
	shown := 0.0
	for _, x := range list {
		span := x.End.Sub(x.Start).Seconds()
		shown += x.Seconds
		t.Add(x.Node, term.Clock(x.Start, g.now()), term.Seconds(&span), amount(x.Use), amount(x.Fair), amount(x.Capacity),
			strconv.FormatFloat(x.Owners, 'f', 1, 64), contendedBy[x.Why], fmt.Sprintf("%.0f s", x.Seconds))
	}
	if err := t.Print(g.screen()); err != nil {
		return err
	}
	if n := len(s.Steps) - len(list); n > 0 {
		fmt.Fprintf(w, "and %d smaller ones with %.0f s; --format csv shows all.\n", n, s.Total-shown)
	}
	fmt.Fprintf(w, "Together %.0f s of the whole machine.\n", s.Total)
	return nil
}

var contendedBy = map[string]string{
	"full": "90 % in use", "pressure": "tasks that waited", "runnable": "more tasks than cores", "available": "little memory left",
	"waiting": "a waiting request",
}

func formatEvidence(v float64, unit string) string {
	switch unit {
	case "ratio":
		return fmt.Sprintf("%.1f %%", 100*v)
	case "seconds":
		return term.Seconds(&v)
	case "bytes":
		return term.Bytes(&v)
	case "core-seconds":
		return fmt.Sprintf("%.1f core-hours", v/3600)
	case "gpu-seconds":
		return fmt.Sprintf("%.1f GPU-hours", v/3600)
	case "byte-seconds":
		return fmt.Sprintf("%.1f GiB-hours", v/3600/(1<<30))
	case "count":
		return strconv.FormatFloat(math.Round(10*v)/10, 'f', -1, 64)
	}
	return strings.TrimSpace(fmt.Sprintf("%.4g %s", v, unit))
}

// explainRule prints the meaning of a rule and its part of the policy.
func explainRule(cmd *cobra.Command, g *globals, rule string) error {
	text := findings.DefaultPolicy()
	said := "of this program"
	if c, err := g.newClient(); err == nil {
		if mine, err := c.FindingPolicy(cmd.Context()); err == nil {
			text, said = mine, "of "+c.Server()
		}
	}
	fmt.Fprintf(g.stdout, "%s: %s.\n\nThe policy %s:\n", rule, misuse.Meaning(rule), said)
	lines := strings.Split(string(text), "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.TrimSpace(l) == rule+":" })
	if at < 0 {
		fmt.Fprintln(g.stdout, "  (nothing about this rule: the thresholds of the program)")
		return nil
	}
	indent := len(lines[at]) - len(strings.TrimLeft(lines[at], " "))
	fmt.Fprintln(g.stdout, lines[at])
	for _, l := range lines[at+1:] {
		if strings.TrimSpace(l) == "" || len(l)-len(strings.TrimLeft(l, " ")) <= indent {
			break
		}
		fmt.Fprintln(g.stdout, l)
	}
	return nil
}

func runWhatIf(cmd *cobra.Command, g *globals, c *client.Client, o findingsOptions, since time.Time) error {
	text, err := os.ReadFile(o.whatIf)
	if err != nil {
		return fmt.Errorf("--what-if: %w", err)
	}
	if _, err := findings.ReadPolicy(text); err != nil {
		return asUsageError(cmd, fmt.Errorf("--what-if %s: %w", o.whatIf, err))
	}
	d, err := c.WhatIf(cmd.Context(), text, since)
	if err != nil {
		return err
	}
	if o.format.value == "json" {
		return printJSON(g, d)
	}
	fmt.Fprintf(g.stdout, "Since %s the present policy finds %d, this one %d.\n", term.Clock(d.Since, g.now()), d.Now, d.Then)
	for _, part := range []struct {
		title string
		list  []client.Finding
	}{{"Only by this one", d.Added}, {"Only by the present one", d.Removed}} {
		fmt.Fprintf(g.stdout, "\n%s: %d\n", part.title, len(part.list))
		if len(part.list) > 0 {
			if err := findingsTable(g, part.list); err != nil {
				return err
			}
		}
	}
	return nil
}

func newFindingsPolicy(g *globals) *cobra.Command {
	var own bool
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Print the thresholds of the rules, with comments, as a starting point for your own policy",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text := findings.DefaultPolicy()
			if own {
				c, err := g.newClient()
				if err != nil {
					return err
				}
				if text, err = c.FindingPolicy(cmd.Context()); err != nil {
					return err
				}
			}
			_, err := g.stdout.Write(text)
			return err
		},
	}
	cmd.Flags().BoolVar(&own, "of-server", false, "that of the server, not that of the program")
	return cmd
}

func newFindingsAck(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "ack ID",
		Short: "Acknowledge a finding",
		Args:  cobra.ExactArgs(1),
		RunE: g.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			f, err := c.AcknowledgeFinding(ctx, args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(g.stdout, "%s is seen by %s.\n", f.ID, term.Safe(f.AckBy))
			return nil
		}),
	}
}

func newFindingsMute(g *globals) *cobra.Command {
	var reason, until string
	cmd := &cobra.Command{
		Use:   "mute ID",
		Short: "Keep a finding out of lists and alerts for some time",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" || until == "" {
				return asUsageError(cmd, errors.New("give --reason and --until"))
			}
			// Here 30d is a time in the future, not in the past.
			d, err := client.ParseDuration(until)
			at := g.now().Add(d)
			if err != nil {
				if at, err = parseTime("until", until, g.now()); err != nil {
					return err
				}
			}
			c, err := g.newClient()
			if err != nil {
				return err
			}
			f, err := c.MuteFinding(cmd.Context(), args[0], reason, at)
			if err != nil {
				return err
			}
			fmt.Fprintf(g.stdout, "%s is muted until %s.\n", f.ID, term.Clock(*f.MutedUntil, g.now()))
			return nil
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	cmd.Flags().StringVar(&until, "until", "", "for how long, such as 30d, or until when")
	return cmd
}

// readPolicy reads the policy file of a server, if there is one.
func readPolicy(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if _, err := findings.ReadPolicy(text); err != nil {
		return nil, fmt.Errorf("policy %s: %w", file, err)
	}
	return text, nil
}
