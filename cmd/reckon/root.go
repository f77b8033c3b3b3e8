package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/client"
	"reckon/cmd/manpage"
	"reckon/cmd/settings"
	"reckon/internal/buildinfo"
	"reckon/internal/term"
)

// deps are the external dependencies of the program, so that a test can run all of it.
type deps struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	// localLive starts the sensors in this process, for `reckon top` if there is no
	// server; the channel closes with the context. Nil means not supported.
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

// globals holds what all commands share.
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

// newRoot returns the command tree. A new command needs one file and one line here.
func newRoot(d deps) *cobra.Command {
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
	g.connection.flags(root)
	g.registerStages()
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if word := cmd.Flags().Args(); cmd == root && len(word) > 0 { // sacct -j 1: the command is unknown, not the flag
			return usage(cmd, subcommandOnly(cmd, word[:1]))
		}
		return usage(cmd, flagError(err))
	})
	root.AddCommand(
		newUp(g),
		newServe(g),
		newCheck(g),
		newRunCommand(g),
		newStress(g),
		newSimulate(g),
		newPush(g),
		newMe(g),
		newJobs(g),
		newJob(g),
		newScale(g),
		newNodes(g),
		newNode(g),
		newUsage(g),
		newReport(g),
		newFit(g),
		newForecast(g),
		newRank(g),
		newRightsize(g),
		newTop(g),
		newQuery(g),
		newGraph(g),
		newDataset(g),
		newExperiment(g),
		newRuns(g),
		newFindings(g),
		newAnomalies(g),
		newAlerts(g),
		newCorrelate(g),
		newPower(g),
		newImport(g),
		newExport(g),
		newCatalogue(g),
		newBackup(g),
		newVerify(g),
		newRestore(g),
		newMigrate(g),
		newUser(g),
		newToken(g),
		newAudit(g),
		newVersion(g),
		manpage.Command(),
	)
	suggest(root)
	root.InitDefaultCompletionCmd()
	group(root)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages |", ".FlagUsagesWrapped 80 |"))
	prepare(root)
	return root
}

// suggest suggests commands for Slurm's commands, and for the names of figures.
func suggest(root *cobra.Command) {
	words := map[string][]string{
		"jobs": {"sacct", "squeue", "workloads", "ps"}, "job": {"seff", "sstat", "workload"}, "nodes": {"sinfo"}, "usage": {"sreport", "energy", "cost"}, "top": {"htop"}, "me": {"whoami"},
	}
	for _, cmd := range root.Commands() {
		cmd.SuggestFor = append(cmd.SuggestFor, words[cmd.Name()]...)
	}
}

// groups returns the headings of the help text, by purpose, with their commands.
func groups() []struct{ id, title, commands string } {
	return []struct{ id, title, commands string }{
		{"ask", "Ask:", "me top jobs job scale nodes usage report findings alerts fit forecast rank rightsize anomalies correlate query graph"},
		{"run", "Run:", "up run runs push stress simulate experiment dataset"},
		{"operate", "Operate:", "serve check import export power catalogue node verify backup restore migrate"},
		{"administer", "Administer:", "user token audit"},
		{"other", "Other:", "completion help version"},
	}
}

// group assigns the commands of the help text to the headings.
func group(root *cobra.Command) {
	root.SetHelpCommandGroupID("other")
	root.SetCompletionCommandGroupID("other")
	for _, g := range groups() {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, cmd := range root.Commands() {
			if slices.Contains(strings.Fields(g.commands), cmd.Name()) {
				cmd.GroupID = g.id
			}
		}
	}
}

// prepare turns every error in arguments into a usage error, including those that cobra detects.
func prepare(cmd *cobra.Command) {
	if cmd.HasSubCommands() && (!cmd.Runnable() || cmd.Args == nil) {
		cmd.Args = subcommandOnly
		if !cmd.Runnable() {
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return usage(c, err)
			}
			return nil
		}
	}
	cmd.Flags().SortFlags = false
	for _, sub := range cmd.Commands() {
		prepare(sub)
	}
}

// execute runs the program and returns its exit code.
func execute(ctx context.Context, d deps, args []string) int {
	root := newRoot(d)
	root.SetArgs(hyphenID(args))
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
		return 130 // ended by a signal, as in shells
	}
	if text := oneLine(err); text != "" {
		fmt.Fprintln(d.stderr, "reckon: "+text)
	}
	return code
}

// oneLine puts an error on one line without control characters: parts of it
// come from other machines.
func oneLine(err error) string {
	return term.Safe(strings.Join(strings.Fields(err.Error()), " "))
}

// usageError is an error in how the program was called: exit code 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }
func (e *usageError) ExitCode() int { return 2 }

func usage(cmd *cobra.Command, err error) error {
	var already *usageError
	if errors.As(err, &already) {
		return err
	}
	text := strings.TrimSpace(err.Error())
	return &usageError{fmt.Errorf("%s; see `%s --help`", text, cmd.CommandPath())}
}

// client connects to the server given by --server or RECKON_SERVER, otherwise to one on this machine: through a
// Unix socket if one responds, where the kernel authenticates the user.
func (g *globals) client() (*client.Client, error) {
	options, err := g.options()
	if err != nil {
		return nil, err
	}
	address := cmp.Or(g.server, g.getenv("RECKON_SERVER"))
	if address == "" {
		address = answeringSocket(g.getenv)
	}
	c, err := client.New(address, options...)
	if err != nil {
		return nil, &usageError{err}
	}
	return c, nil
}

// screen returns standard output as a terminal, with its width and colour support.
func (g *globals) screen() term.Screen { return term.Open(g.stdout, g.getenv) }
