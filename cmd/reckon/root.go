package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"reckon/cmd/manpage"
	"reckon/cmd/settings"
	"reckon/internal/buildinfo"
	"reckon/internal/term"
	"reckon/web/client"
)

// deps holds the external dependencies of the program, so that a test can run all of it.
type deps struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	// localLive starts the sensors in this process for `reckon top` without a server. The channel
	// is closed with the context. nil means not supported.
	localLive func(ctx context.Context) (<-chan client.Live, error)
	// clock returns the current time; nil is time.Now. Tests set it.
	clock func() time.Time
}

func (d *deps) now() time.Time {
	if d.clock == nil {
		return time.Now()
	}
	return d.clock()
}

// globals holds the state shared by all commands.
type globals struct {
	deps
	connection
	serverOptions serverOptions
	agent         settings.Agent
	stores        storeFlags
	shared        *shared

	serving   *settings.Set // of serverOptions
	measuring *settings.Set // of agent
}

// registerStages registers the options of the stages, which commands share.
func (g *globals) registerStages() {
	g.serving, g.measuring = settings.New(), settings.New()
	g.shared = newShared(g)
	g.stores.register()
	g.serverOptions.register(g.serving, &g.stores)
	g.agent.Register(g.measuring, g.getenv("NODE_IP")) // status.hostIP of the downward API
}

// newTree returns the command tree or, for a quick start, only the part with one command.
func newTree(d deps, only string) *cobra.Command {
	g := &globals{deps: d}
	root := &cobra.Command{
		Use:   "reckon",
		Short: "Report who used what: CPU, memory, GPU, disk, network and energy, for every job, pod, service and user",
		Long: `reckon reports who used what on a machine or a site: CPU, memory, GPU, disk,
network and energy, for every job, pod, service, login session and user.

To get started, run it on your own machine and query it:

  reckon up              measure this machine and answer queries
  reckon top             who uses what right now
  reckon me              your own work: used, allocated, what failed, what to do
  reckon jobs            who used how much
  reckon job ID          what happened with one job

To measure one command, no server is needed:

  reckon run -- make -j8`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       buildinfo.Get().Version,
	}
	root.SetIn(d.stdin)
	root.SetOut(d.stdout)
	root.SetErr(d.stderr)
	root.SetVersionTemplate(buildinfo.Get().String() + "\n")
	g.connection.addFlags(root)
	g.registerStages()
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if word := cmd.Flags().Args(); cmd == root && len(word) > 0 { // sacct -j 1: the command is unknown, not the flag
			return asUsageError(cmd, requireSubcommand(cmd, word))
		}
		return asUsageError(cmd, describeFlagError(cmd, err))
	})
	for _, part := range commandGroups() {
		root.AddGroup(&cobra.Group{ID: part.id, Title: part.title})
		for _, c := range part.commands {
			if only == "" || only == c.name {
				cmd := c.make(g)
				cmd.GroupID = part.id
				root.AddCommand(cmd)
			}
		}
	}
	root.SetHelpCommandGroupID("other")
	root.SetCompletionCommandGroupID("other")
	if only == "" {
		root.AddCommand(manpage.Command())
		root.InitDefaultCompletionCmd()
		addSuggestions(root)
	}
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages |", ".FlagUsagesWrapped 80 |"))
	wrapUsageErrors(root)
	return root
}

// addSuggestions suggests commands for Slurm's commands, and for the names of figures.
func addSuggestions(root *cobra.Command) {
	words := map[string][]string{
		"jobs": {"sacct", "squeue", "workloads", "ps"}, "job": {"seff", "sstat", "workload"}, "nodes": {"sinfo"},
		"usage": {"sreport", "energy", "cost"}, "top": {"htop"}, "me": {"whoami"},
	}
	for _, cmd := range root.Commands() {
		cmd.SuggestFor = append(cmd.SuggestFor, words[cmd.Name()]...)
	}
}

// command is a command by name, and its constructor.
type command struct {
	name string
	make func(*globals) *cobra.Command
}

// commandGroups returns the headings of the help text with their commands. A new command needs one file and one line here.
func commandGroups() []struct {
	id, title string
	commands  []command
} {
	return []struct {
		id, title string
		commands  []command
	}{
		{"ask", "Ask:", []command{
			{"me", newMe}, {"top", newTop}, {"jobs", newJobs}, {"job", newJob},
			{"scale", newScale}, {"nodes", newNodes}, {"usage", newUsage}, {"report", newReport},
			{"findings", newFindings}, {"alerts", newAlerts}, {"fit", newFit}, {"move", newMove}, {"forecast", newForecast},
			{"rank", newRank}, {"rightsize", newRightsize}, {"anomalies", newAnomalies}, {"correlate", newCorrelate},
			{"query", newQuery}, {"graph", newGraph},
		}},
		{"run", "Run:", []command{
			{"up", newUp}, {"run", newRunCommand}, {"runs", newRuns}, {"push", newPush},
			{"stress", newStress}, {"simulate", newSimulate}, {"experiment", newExperiment}, {"dataset", newDataset},
		}},
		{"operate", "Operate:", []command{
			{"serve", newServe}, {"check", newCheck}, {"import", newImport}, {"export", newExport},
			{"power", newPower}, {"catalogue", newCatalogue}, {"node", newNode}, {"verify", newVerify},
			{"backup", newBackup}, {"restore", newRestore}, {"migrate", newMigrate},
		}},
		{"administer", "Administer:", []command{
			{"user", newUser}, {"token", newToken}, {"audit", newAudit},
		}},
		{"other", "Other:", []command{
			{"docs", newDocs}, {"version", newVersion},
		}},
	}
}

// wrapUsageErrors turns every error in arguments into a usage error, including those that cobra detects.
func wrapUsageErrors(cmd *cobra.Command) {
	if cmd.HasSubCommands() && (!cmd.Runnable() || cmd.Args == nil) {
		cmd.Args = requireSubcommand
		if !cmd.Runnable() {
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return asUsageError(c, describeArgsError(c, args, err))
			}
			return nil
		}
	}
	cmd.Flags().SortFlags = false
	for _, sub := range cmd.Commands() {
		wrapUsageErrors(sub)
	}
}

// findCommand returns the command that the arguments begin with; empty if they do not begin with one.
func findCommand(args []string) string {
	for _, part := range commandGroups() {
		for _, c := range part.commands {
			if len(args) > 0 && args[0] == c.name {
				return c.name
			}
		}
	}
	return ""
}

// execute runs the program and returns its exit code.
func execute(ctx context.Context, d deps, args []string) int {
	root := newTree(d, findCommand(args))
	root.SetArgs(guardHyphenID(args))
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var coded interface{ ExitCode() int }
	var refused *client.APIError
	code := 1
	switch {
	case errors.As(err, &coded):
		code = coded.ExitCode()
	case errors.As(err, &refused) && (refused.Status == http.StatusBadRequest || refused.Status == http.StatusNotFound):
		code = 2 // a wrong parameter, or an unknown name
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		if strings.HasPrefix(context.Cause(ctx).Error(), syscall.SIGTERM.String()) {
			return 143
		}
		return 130 // ended by a signal, as in shells
	}
	if text := toOneLine(err); text != "" {
		fmt.Fprintln(d.stderr, "reckon: "+text)
	}
	return code
}

// toOneLine returns an error as one line without control characters, because parts of it come from other machines.
func toOneLine(err error) string {
	return term.Safe(strings.Join(strings.Fields(err.Error()), " "))
}

// usageError is an error in how the program was called: exit code 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }
func (e *usageError) ExitCode() int { return 2 }

func asUsageError(cmd *cobra.Command, err error) error {
	var already *usageError
	if errors.As(err, &already) {
		return err
	}
	text := strings.TrimSpace(err.Error())
	return &usageError{fmt.Errorf("%s; see `%s --help`", text, cmd.CommandPath())}
}

// serverAddress returns the value of --server or RECKON_SERVER, or else the address of a server on this machine. On
// this machine it prefers a Unix socket that responds, because the kernel authenticates the user there.
func (g *globals) serverAddress() string {
	if named := cmp.Or(g.server, g.getenv("RECKON_SERVER")); named != "" {
		return named
	}
	return cmp.Or(findSocket(g.getenv), client.DefaultServer)
}

// newClient connects to the server at g.address().
func (g *globals) newClient() (*client.Client, error) {
	options, err := g.clientOptions()
	if err != nil {
		return nil, err
	}
	c, err := client.New(g.serverAddress(), options...)
	if err != nil {
		return nil, &usageError{err}
	}
	return c, nil
}

// screen returns standard output as a terminal, with its width and colour support.
func (g *globals) screen() term.Screen { return term.Open(g.stdout, g.getenv) }
