package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	xterm "golang.org/x/term"

	"reckon/internal/term"
	"reckon/web/client"
)

type topOptions struct {
	sort  *choice
	local bool
}

func newTop(g *globals) *cobra.Command {
	var o topOptions
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show who uses what right now, full-screen",
		Long: `Show who uses what right now on the server's machine: a line for each workload, redrawn
every second. A server of a site measures no machine itself. It is asked every 15
seconds for all of its nodes; figures are then means of two minutes. Without a server,
top measures this machine itself while it is open.

Keys choose the order: c CPU, m memory, i storage, b network, f memory traffic, g GPU,
w wait, p processes, t CPU time, n name; r turns it round. / filters; up and down
select, enter shows one workload; space pauses; ? helps; q quits.

When the output is no terminal it prints one table and ends.`,
		Example: `  reckon top
  reckon top --sort memory
  reckon top --local               measure this machine, ask no server
  reckon top | head -5             one plain table`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runTop(cmd.Context(), g, o) },
	}
	o.sort = &choice{value: "cpu", words: orderNames()}
	cmd.Flags().Var(o.sort, "sort", "order at the start: cpu, memory, io, network, traffic, gpu, wait, processes, time, name")
	completeWords(cmd, "sort", orderNames()...)
	cmd.Flags().BoolVar(&o.local, "local", false, "measure this machine without asking a server")
	return cmd
}

// feedMsg is one tick, or an error.
type feedMsg struct {
	live client.Live
	err  error
	end  bool // no more messages follow
}

func runTop(ctx context.Context, g *globals, o topOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := g.newClient()
	if err != nil {
		return err
	}
	feed, source, err := openFeed(ctx, g, c, o.local)
	if err != nil {
		return err
	}
	if source == sourceLocal {
		c = nil
	}
	s := g.screen()
	m := newTopModel(s, c, source, findOrder(o.sort.value))
	if !s.Terminal || !isTerminal(g.stdin) {
		return printTop(ctx, s, m, feed)
	}
	m.feed = feed
	m.ctx = ctx
	program := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(g.stdin), tea.WithOutput(g.stdout), tea.WithoutSignalHandler())
	final, err := program.Run()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("terminal: %w", err)
	}
	if end, ok := final.(*topModel); ok && end.fatal != nil {
		return end.fatal
	}
	return nil
}

func isTerminal(r any) bool {
	f, ok := r.(*os.File)
	return ok && xterm.IsTerminal(int(f.Fd()))
}

const sourceLocal = "this machine, measured by reckon top itself"

// openFeed opens the stream of the server. It measures locally if there is no server and none was given.
func openFeed(ctx context.Context, g *globals, c *client.Client, local bool) (<-chan feedMsg, string, error) {
	if !local {
		feed := make(chan feedMsg)
		first := make(chan feedMsg, 1)
		go copyStream(ctx, c, first, feed)
		select {
		case <-ctx.Done():
			return nil, "", ctx.Err()
		case f := <-first:
			var absent *client.UnreachableError
			named := g.server != "" || g.getenv("RECKON_SERVER") != ""
			var refused *client.APIError
			if errors.As(f.err, &refused) && refused.Status == http.StatusNotFound {
				l, err := fetchSite(ctx, c)
				if err != nil {
					return nil, "", f.err // nor does it have recent data of nodes
				}
				return pollSite(ctx, c, l, siteEvery), c.Server(), nil
			}
			if f.err == nil || (!f.end && !errors.As(f.err, &absent)) {
				return prependMessage(ctx, f, feed), c.Server(), nil
			}
			if named || !errors.As(f.err, &absent) || g.localLive == nil {
				return nil, "", f.err
			}
		}
	}
	if g.localLive == nil {
		return nil, "", errors.New("top --local: this build cannot measure by itself; start a server with `reckon up`")
	}
	ticks, err := g.localLive(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("measure this machine: %w", err)
	}
	feed := make(chan feedMsg)
	go func() {
		defer close(feed)
		for l := range ticks {
			select {
			case feed <- feedMsg{live: l}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return feed, sourceLocal, nil
}

// copyStream copies the stream to feed, the first message to first, until ctx ends.
func copyStream(ctx context.Context, c *client.Client, first, feed chan<- feedMsg) {
	defer close(feed)
	out, begun := first, false
	for l, err := range c.Live(ctx) {
		f := feedMsg{live: l, err: err}
		var refused *client.APIError
		f.end = errors.As(err, &refused) && refused.Status < 500
		select {
		case out <- f:
		case <-ctx.Done():
			return
		}
		if !begun {
			begun, out = true, feed
		}
	}
}

func prependMessage(ctx context.Context, f feedMsg, rest <-chan feedMsg) <-chan feedMsg {
	out := make(chan feedMsg)
	go func() {
		defer close(out)
		for ok := true; ok; f, ok = <-rest {
			select {
			case out <- f:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// printTop prints the first tick as a table, for pipes.
func printTop(ctx context.Context, s term.Screen, m *topModel, feed <-chan feedMsg) error {
	timeout := time.NewTimer(10 * time.Second)
	defer timeout.Stop()
	var last error
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout.C:
			if last == nil {
				last = errors.New("no tick came within 10 s; is the agent of the server stuck?")
			}
			return last
		case f, ok := <-feed:
			if !ok || f.end {
				return errors.Join(f.err, last)
			}
			if last = f.err; f.err != nil {
				continue
			}
			if m.client == nil && f.live.CoresUsed == nil && len(f.live.Workloads) == 0 {
				continue // the first reading of this machine: rates need two
			}
			m.setTick(f.live)
			if _, err := fmt.Fprintln(s, m.machineLine()); err != nil {
				return err
			}
			return m.workloadTable(m.rows()).Print(s)
		}
	}
}
