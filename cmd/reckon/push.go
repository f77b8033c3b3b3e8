package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/agent"
	"reckon/agent/external/promtext"
	"reckon/web/client"
)

type pushOptions struct {
	add     bool
	keep    string
	socket  string
	verbose bool
}

func newPush(g *globals) *cobra.Command {
	var o pushOptions
	cmd := &cobra.Command{
		Use:   "push NAME[{label=\"value\",...}] VALUE ...",
		Short: "Send a figure of your own from a script",
		Long: `push gives a number to the agent of this machine. The agent stores it with the labels of
the script's workload: the Slurm job, the service, the login session. Sending on behalf
of others is impossible, and no password is needed.

A figure is valid until the next one with the same name and labels, until its workload
ends, or for the time of --for. With - lines are read from standard input, in the
Prometheus text format; HELP and TYPE lines are welcome.

Put names with labels into single quotes: shells take braces for themselves.
Without it: curl --unix-socket /run/reckon-push/push.sock -d 'loss 0.3' http://x/`,
		Example: `  reckon push loss 0.31
  reckon push 'loss{phase="train"}' 0.31 epoch 4
  reckon push --add files_done_total 1
  ./measure.sh | reckon push -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runPush(cmd, g, o, args) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.add, "add", false, "add to the value sent before: the figure is a counter")
	f.StringVar(&o.keep, "for", "1h", "how long the figure is valid if no newer one arrives")
	f.StringVar(&o.socket, "socket", "",
		"where the agent listens (default RECKON_SOCKET, else "+agent.SystemSocket+", else your own agent's)")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print the workload it was assigned to")
	return cmd
}

func runPush(cmd *cobra.Command, g *globals, o pushOptions, args []string) error {
	keep, err := parseSpan("for", o.keep)
	if err != nil {
		return err
	}
	text, err := readPushText(args, g.stdin)
	if err != nil {
		return asUsageError(cmd, err)
	}
	answer, err := client.PushOwn(cmd.Context(), client.Pushing{Socket: g.agentSocket(o.socket), Add: o.add,
		Keep: keep.Round(time.Millisecond)},
		text)
	if err != nil {
		return err
	}
	if o.verbose {
		fmt.Fprintln(g.stdout, answer)
	}
	return nil
}

// agentSocket returns the agent's socket: the given one, else the socket of root's agent, else the user's.
func (g *globals) agentSocket(given string) string {
	given = cmp.Or(given, g.getenv("RECKON_SOCKET"))
	if given != "" {
		return given
	}
	if own := agent.DefaultSocket(g.getenv); own != "" {
		if _, err := os.Stat(agent.SystemSocket); err != nil {
			return own
		}
	}
	return agent.SystemSocket
}

// readPushText builds lines from the arguments, or reads them from in.
func readPushText(args []string, in io.Reader) ([]byte, error) {
	if len(args) == 1 && args[0] == "-" {
		text, err := io.ReadAll(io.LimitReader(in, 1<<20))
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		return text, checkPush(text)
	}
	var lines bytes.Buffer
	switch {
	case len(args) == 1 && strings.ContainsAny(args[0], " \t"): // everything in one pair of quotes
		lines.WriteString(args[0] + "\n")
	case len(args)%2 != 0:
		return nil, errors.New("give NAME and VALUE in pairs, names with labels in single quotes: reckon push 'loss{phase=\"train\"}' 0.31")
	default:
		for i := 0; i < len(args); i += 2 {
			lines.WriteString(restoreQuotes(args[i]) + " " + args[i+1] + "\n")
		}
	}
	return lines.Bytes(), checkPush(lines.Bytes())
}

// checkPush returns the errors in a text of figures before it is sent.
func checkPush(text []byte) error {
	figures, err := promtext.NewPage(promtext.Rules{Strict: true}).Read(text)
	if err != nil && bytes.Count(text, []byte{'\n'}) < 2 {
		return errors.New(strings.TrimPrefix(err.Error(), "line 1: "))
	}
	if err == nil && len(figures) == 0 {
		return errors.New("there is no number to send")
	}
	return err
}

// restoreQuotes restores the quotes that a shell has removed: loss{phase=train}.
func restoreQuotes(series string) string {
	name, labels, ok := strings.Cut(series, "{")
	if !ok || strings.Contains(labels, `"`) || !strings.HasSuffix(labels, "}") {
		return series
	}
	var out []string
	for l := range strings.SplitSeq(strings.TrimSuffix(labels, "}"), ",") {
		k, v, ok := strings.Cut(l, "=")
		if !ok {
			return series
		}
		out = append(out, k+"="+promtext.Quote(v))
	}
	return name + "{" + strings.Join(out, ",") + "}"
}
