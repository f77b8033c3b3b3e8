package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"reckon/answer"
	"reckon/figure/format"
	"reckon/internal/term"
	"reckon/web/client"
)

func newMove(g *globals) *cobra.Command {
	var q client.MoveQuery
	var since, until string
	var columns []string
	var form *choice
	cmd := &cobra.Command{
		Use:   "move [SHAPES]",
		Short: "Show which work should run on another partition or cluster",
		Long: `Show which work should run on another partition or cluster. Such work leaves GPUs idle,
is held up by too few cores, GPUs or too little memory, runs on several nodes on a slow
network, ends at a time limit, or holds whole nodes for little.

A target is named only if it fits, accepts the account, and is not much slower to start.
The source must be busy: on an idle machine nobody has to move. With --owner the work
that stays is listed too, with the reason. The column text is a paragraph for the owner.

Partitions are the batch system's. A file of shapes adds what the batch system does not
report; see reckon docs who should move.`,
		Example: `  reckon move
  reckon move --since 90d shapes.yaml
  reckon move --owner alice               hers, and why the rest stays
  reckon move --owner alice -o text       a paragraph to be sent to her
  reckon move --format json | jq '.moves[] | [.owner, .name, .rule, .to]'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if q.Since, err = parseTime("since", since, g.now()); err != nil {
				return err
			}
			if q.Until, err = parseTime("until", until, g.now()); err != nil {
				return err
			}
			if columns, err = resolveColumns[client.Move](columns, nil); err != nil {
				return err
			}
			if len(args) > 0 {
				text, err := readShapes(args[0])
				if err != nil {
					return err
				}
				q.Shapes = string(text)
			}
			q.All = len(q.Owners) > 0 || form.value == "json"
			return runMove(cmd.Context(), g, q, form.value, columns)
		},
	}
	g.shared.addListFlag(cmd, "owner", &q.Owners)
	g.shared.addListFlag(cmd, "site", &q.Sites)
	g.shared.addFlag(cmd, "since", &since)
	g.shared.addFlag(cmd, "until", &until)
	addColumns[client.Move](g.shared, cmd, &columns)
	form = g.shared.addFormatFlag(cmd, "table", "json", "csv")
	return cmd
}

// readShapes reads a file of shapes, if one is named.
func readShapes(file string) (text []byte, err error) {
	if file == "" {
		return nil, nil
	}
	if text, err = os.ReadFile(file); err == nil {
		_, err = answer.ReadShapes(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; see `reckon docs file of shapes` for its form", file, err)
	}
	return text, nil
}

func runMove(ctx context.Context, g *globals, q client.MoveQuery, format string, columns []string) error {
	return printAnswer(ctx, g, format, func(ctx context.Context, c *client.Client) (output, error) {
		list, err := c.Move(ctx, q)
		paragraphs := slices.Equal(columns, []string{"text"}) && format == "table"
		rows := append(slices.Clone(list.Moves), list.Stays...)
		if paragraphs {
			rows = list.Moves
		}
		empty := fmt.Sprintf("no work should move: %d names of work were compared with %d kinds of nodes", list.Judged, list.Places)
		if list.Judged == 0 {
			empty = "no work can be judged: runs of one name need a count of 10 or 100 core-hours, begun on 3 days of the period"
		}
		return output{json: list, csv: csvOf(rows, columns...), rows: len(rows), missing: list.Missing, empty: empty,
			print: func(s term.Screen) error {
				if paragraphs {
					for i := range list.Moves {
						fmt.Fprintln(g.stdout, list.Moves[i].Text)
					}
					return nil
				}
				return moveTable(rows).Print(s)
			}}, err
	})
}

func moveTable(rows []client.Move) *term.Table {
	t := term.TableOf("OWNER|NAME:s8|SITE:s6o1|FROM:s6|TO:s6|RULE|RUNS:r|CORE-HOURS:r|FREED A MONTH:r|WAIT HERE:r|THERE:r|OF:r|WHY:s16w")
	for i := range rows {
		m := &rows[i]
		freed, to, of := term.Unknown, cmp.Or(m.To, "stays"), term.Unknown
		if m.To != "" {
			freed, of = format.Count(m.FreedCoreHours), fmt.Sprint(m.WaitThereRuns)
			if m.FreedGPUHours > 0 {
				freed += " + " + format.Count(m.FreedGPUHours) + " GPU"
			}
			if m.ToSite != m.Site {
				to = m.ToSite + ":" + to
			}
		}
		t.Add(m.Owner, m.Name, m.Site, m.From, to, cmp.Or(m.Rule, term.Unknown), fmt.Sprint(m.Runs), format.Count(m.Hours), freed,
			term.Seconds(m.WaitHere), term.Seconds(m.WaitThere), of, m.Why)
	}
	return t
}
