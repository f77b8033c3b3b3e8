package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	xterm "golang.org/x/term"

	"reckon/access"
	"reckon/access/auth"
	"reckon/internal/term"
	"reckon/server"
	"reckon/web/client"
)

// userSource locates the users and tokens of a server, in its directory or in a shared database.
type userSource struct{ *globals }

func (at *userSource) register(cmd *cobra.Command) {
	cmd.PersistentFlags().AddFlag(at.serving.Flags.Lookup("data"))
	cmd.PersistentFlags().AddFlag(at.stores.flags.Lookup("catalogue"))
}

// open opens the store, possibly while the server runs. It creates the directory if create is true.
func (at *userSource) open(ctx context.Context, create bool) (*auth.Users, error) {
	if at.stores.catalogue == "" && create {
		if err := os.MkdirAll(at.serverOptions.Data, 0o750); err != nil {
			return nil, err
		}
	}
	if at.stores.catalogue == "" {
		if _, err := os.Stat(at.serverOptions.Data); err != nil {
			return nil, fmt.Errorf("there is no server's directory at %s: %w; name it with --data", at.serverOptions.Data, err)
		}
	}
	return server.Users(ctx, at.serverOptions.Data, at.stores.catalogue)
}

// withUsers returns the function of a command that opens the users and calls f with them.
func (at *userSource) withUsers(create bool, f func(context.Context, *auth.Users, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		k, err := at.open(cmd.Context(), create)
		if err != nil {
			return err
		}
		defer k.Close()
		return f(cmd.Context(), k, args)
	}
}

// newUser returns `reckon user`.
func newUser(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "user",
		Short: "Manage the users who may sign in to a server, and what they see",
		Long: `Manage the users who may sign in to a server, and what they see:

  admin    everything, and may change things
  support  everything that was measured, of everybody
  user     own work in full, that of others only as totals without names

The commands work on the directory of the server, whether it runs or not. As soon as
there is a user, everybody must sign in, except users of this machine by its socket.`,
		Example: `  reckon user add root --role admin --data /var/lib/reckon
  reckon user add alice --data /var/lib/reckon
  reckon user add carol --owner shop --owner carol`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	at := userSource{g}
	at.register(cmd)
	cmd.AddCommand(newUserAdd(g, &at), newUserList(g, &at), newUserPassword(g, &at), newUserRemove(g, &at))
	return cmd
}

func newUserAdd(g *globals, at *userSource) *cobra.Command {
	var role string
	var owners []string
	var file string
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a user; prompts for the password, or reads it from --password-file",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := access.ParseRole(role)
			if err != nil || r < access.User {
				return asUsageError(cmd, fmt.Errorf("--role %q: give admin, support or user", role))
			}
			if err := auth.CheckName(args[0]); err != nil {
				return asUsageError(cmd, err)
			}
			k, err := at.open(cmd.Context(), true)
			if err != nil {
				return err
			}
			defer k.Close()
			password, err := g.readPassword(file)
			if err != nil {
				return err
			}
			if err := k.AddUser(cmd.Context(), auth.User{Name: args[0], Role: r, Owners: owners}, password); err != nil {
				return err
			}
			fmt.Fprintf(g.stdout, "%s may sign in as %s.\n", args[0], r)
			return nil
		},
	}
	cmd.Flags().StringVar(&role, "role", "user", "admin, support or user")
	cmd.Flags().StringArrayVar(&owners, "owner", nil,
		"an owner with work that is this user's own, repeatable (default: the owner of the same name)")
	g.shared.addFlag(cmd, "password-file", &file)
	completeWords(cmd, "role", "admin", "support", "user")
	return cmd
}

func newUserPassword(g *globals, at *userSource) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "passwd NAME",
		Short: "Give a user another password and end the user's sessions",
		Args:  cobra.ExactArgs(1),
		RunE: at.withUsers(false, func(ctx context.Context, k *auth.Users, args []string) error {
			password, err := g.readPassword(file)
			if err != nil {
				return err
			}
			return k.SetPassword(ctx, args[0], password)
		}),
	}
	g.shared.addFlag(cmd, "password-file", &file)
	return cmd
}

func newUserRemove(g *globals, at *userSource) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a user, with the user's sessions and tokens",
		Args:  cobra.ExactArgs(1),
		RunE: at.withUsers(false, func(ctx context.Context, k *auth.Users, args []string) error {
			if err := k.RemoveUser(ctx, args[0]); err != nil {
				return err
			}
			fmt.Fprintf(g.stdout, "%s can no longer sign in.\n", term.Safe(args[0]))
			return nil
		}),
	}
}

func newUserList(g *globals, at *userSource) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the users",
		Args:  cobra.NoArgs,
		RunE: at.withUsers(false, func(ctx context.Context, k *auth.Users, _ []string) error {
			users, err := k.List(ctx)
			if err != nil {
				return err
			}
			if len(users) == 0 {
				fmt.Fprintln(
					g.stdout, "There are no users: on this machine root is admin and others see their own work; nobody signs in from "+
						"elsewhere. `reckon user add NAME --role admin` creates the first.")
				return nil
			}
			t := term.TableOf("NAME:s10|ROLE|SEES THE WORK OF:s12|SINCE")
			for _, u := range users {
				sees := strings.Join(access.Viewer{Role: u.Role, Name: u.Name, Owners: u.Owners}.Own(), ", ")
				if u.Role > access.User {
					sees = "everybody"
				}
				t.Add(u.Name, u.Role.String(), sees, term.Clock(u.Created, g.now()))
			}
			return t.Print(g.screen())
		}),
	}
}

// readPassword reads a password from a file, from standard input, or twice from the terminal without echo.
func (g *globals) readPassword(file string) (string, error) {
	if file == "" {
		in, ok := g.stdin.(*os.File)
		if !ok || !xterm.IsTerminal(int(in.Fd())) {
			return "", &usageError{
				errors.New("standard input is no terminal; give the password with --password-file FILE, or - for standard input")}
		}
		var typed [2]string
		for i, ask := range []string{"Password: ", "Again: "} {
			fmt.Fprint(g.stderr, ask)
			raw, err := xterm.ReadPassword(int(in.Fd()))
			fmt.Fprintln(g.stderr)
			if err != nil {
				return "", fmt.Errorf("read the password: %w", err)
			}
			typed[i] = string(raw)
		}
		if typed[0] != typed[1] {
			return "", errors.New("the two passwords differ; nothing was changed")
		}
		return typed[0], nil
	}
	in := g.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", fmt.Errorf("--password-file: %w", err)
		}
		defer f.Close()
		in = f
	}
	line, err := bufio.NewReader(io.LimitReader(in, 4096)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("--password-file: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// newToken returns `reckon token`.
func newToken(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make and revoke tokens for agents, scripts, Grafana and scrapes",
		Long: `Make and revoke tokens. A token of an agent sends samples of its own nodes and sees
nothing. A token of a person or program sees what its role sees.

A token is shown once, when it is made. Revoked, it is useless at once, also to a
server that runs.`,
		Example: `  reckon token create --agent --site lab --node 'gpu*' --note "rack 3"
  reckon token create --role support --note grafana --expires 365d
  reckon token create --role user --name alice
  reckon token revoke dm9pZA4x`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	at := userSource{g}
	at.register(cmd)
	cmd.AddCommand(newTokenCreate(g, &at), newTokenList(g, &at), newTokenRevoke(g, &at))
	return cmd
}

func newTokenCreate(g *globals, at *userSource) *cobra.Command {
	var agent bool
	var role, expires string
	var t auth.Token
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a token and print it, this one time",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case agent == (role != ""):
				return asUsageError(cmd, errors.New("no purpose given: use --agent, or --role admin, support, user or public"))
			case agent && (t.Name != "" || len(t.Owners) > 0):
				return asUsageError(cmd, errors.New("--name and --owner go with --role"))
			case !agent && t.Bound != access.Bound{}:
				return asUsageError(
					cmd, errors.New(
						"--max-series and --max-samples-per-second go with --agent; queries are bounded by role, see the setting limits "+
							"of `reckon serve`"))
			case !agent && (t.Scope.Site != "" || len(t.Scope.Nodes) > 0):
				return asUsageError(cmd, errors.New("--site and --node go with --agent"))
			}
			t.Kind = auth.Agent
			if role != "" {
				r, err := access.ParseRole(role)
				if err != nil {
					return asUsageError(cmd, fmt.Errorf("--role: %w", err))
				}
				t.Kind, t.Role = auth.Person, r
			}
			life, err := parseSpan("expires", expires)
			if err != nil {
				return err
			}
			if life > 0 {
				at := g.now().Add(life)
				t.Expires = &at
			}
			k, err := at.open(cmd.Context(), true)
			if err != nil {
				return err
			}
			defer k.Close()
			text, err := k.AddToken(cmd.Context(), t)
			if err != nil {
				return asUsageError(cmd, err)
			}
			fmt.Fprintln(g.stdout, text)
			hint := "give its file to --token-file or name it in RECKON_TOKEN_FILE"
			if agent {
				hint = "write it into a file and give that to `reckon-agent --push-token-file`"
			}
			fmt.Fprintf(g.stderr, "reckon: this is the only time it is shown; %s\n", hint)
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&agent, "agent", false, "for an agent: sends samples, sees nothing")
	f.StringVar(&t.Scope.Site, "site", "", "of an agent: the site it speaks for (default: any)")
	f.StringArrayVar(&t.Scope.Nodes, "node", nil, "of an agent: pattern of names of nodes it speaks for, repeatable (default: any)")
	f.IntVar(&t.Bound.Series, "max-series", 0, "of an agent: most series that it keeps going (default: the server's limits)")
	f.Float64Var(&t.Bound.SamplesPerSecond, "max-samples-per-second", 0,
		"of an agent: most samples that it sends (default: the server's limits)")
	f.StringVar(&role, "role", "", "for a person or program: admin, support, user or public")
	f.StringVar(&t.Name, "name", "", "of a role: its name in the audit log, and for user the owner")
	f.StringArrayVar(&t.Owners, "owner", nil, "of role user: an owner with work that it sees, repeatable (default: --name)")
	f.StringVar(&t.Note, "note", "", "what it is for")
	f.StringVar(&expires, "expires", "", "time until it expires, such as 90d (default: never)")
	completeWords(cmd, "role", "admin", "support", "user", "public")
	return cmd
}

func newTokenList(g *globals, at *userSource) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the tokens, without their secrets",
		Args:  cobra.NoArgs,
		RunE: at.withUsers(false, func(ctx context.Context, k *auth.Users, _ []string) error {
			tokens, err := k.Tokens(ctx)
			if err != nil {
				return err
			}
			if len(tokens) == 0 {
				fmt.Fprintln(g.stdout, "There are no tokens; `reckon token create --agent` makes one.")
				return nil
			}
			t := term.TableOf("ID|FOR|MAY:s16|STATE|USED|NOTE:s8o1")
			for _, x := range tokens {
				t.Add(x.ID, string(x.Kind), describeRights(x), formatTokenState(x, g.now()), formatLastUse(x.Used, g.now()), x.Note)
			}
			return t.Print(g.screen())
		}),
	}
}

func describeRights(t auth.Token) string {
	if t.Kind == auth.Agent {
		may := "send for " + t.Scope.String()
		if t.Bound.Series > 0 {
			may += fmt.Sprintf(", %d series", t.Bound.Series)
		}
		if t.Bound.SamplesPerSecond > 0 {
			may += fmt.Sprintf(", %g samples/s", t.Bound.SamplesPerSecond)
		}
		return may
	}
	own := strings.Join(access.Viewer{Role: t.Role, Name: t.Name, Owners: t.Owners}.Own(), ", ")
	if t.Role == access.User {
		return "see the work of " + own
	}
	return "see as " + t.Role.String()
}

func formatTokenState(t auth.Token, now time.Time) string {
	switch {
	case t.Revoked != nil:
		return "revoked"
	case t.Expires == nil:
		return "valid"
	case !now.Before(*t.Expires):
		return "expired"
	}
	return "until " + term.Clock(*t.Expires, now)
}

func formatLastUse(t *time.Time, now time.Time) string {
	if t == nil {
		return "never"
	}
	return term.Ago(*t, now)
}

func newTokenRevoke(g *globals, at *userSource) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a token",
		Args:  cobra.ExactArgs(1),
		RunE: at.withUsers(false, func(ctx context.Context, k *auth.Users, args []string) error {
			if err := k.Revoke(ctx, args[0]); err != nil {
				return fmt.Errorf("%w; `reckon token list` shows the ids", err)
			}
			fmt.Fprintln(g.stdout, "The token is useless from now on.")
			return nil
		}),
	}
}

// newAudit returns `reckon audit`.
func newAudit(g *globals) *cobra.Command {
	at := userSource{g}
	var owner, viewer, since string
	var limit int
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who looked at other people's work, and who signed in",
		Long: `Show who looked at other people's work, and who signed in. Recorded are queries about
others by people and programs with a role that sees all; the same query within ten
minutes is recorded once. The table has one row for what one viewer asked of one
owner within a minute, and cuts long queries; JSON and CSV have all in full. FROM is
an address, or socket for the server's Unix socket. Without --since it covers a week.
Entries are kept for 400 days.`,
		Example: `  reckon audit --owner alice --since 30d
  reckon audit --viewer sue --format csv`,
		Args: cobra.NoArgs,
	}
	since = "7d"
	f := cmd.Flags()
	at.register(cmd)
	g.shared.addFlag(cmd, "owner", &owner)
	f.StringVar(&viewer, "viewer", "", "by this viewer")
	g.shared.addFlag(cmd, "since", &since)
	f.IntVar(&limit, "limit", 1000, "at most this many, the newest")
	format := g.shared.addFormatFlag(cmd, "table", "json", "csv")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		from, err := parseTime("since", since, g.now())
		if err != nil {
			return err
		}
		if limit < 1 {
			return asUsageError(cmd, errors.New("--limit: give 1 or more"))
		}
		k, err := at.open(cmd.Context(), false)
		if err != nil {
			return err
		}
		defer k.Close()
		entries, err := k.Entries(cmd.Context(), owner, viewer, from, limit)
		if err != nil {
			return err
		}
		return printAudit(g, entries, format.value)
	}
	return cmd
}

func printAudit(g *globals, entries []auth.Entry, format string) error {
	switch format {
	case "json":
		return printJSON(g, entries)
	case "csv":
		return client.WriteCSV(g.stdout, entries)
	}
	if len(entries) == 0 {
		fmt.Fprintln(g.stdout, "Nobody looked at the work of others in that time.")
		return nil
	}
	t := term.TableOf("TIME|WHO:s8|ROLE:o2|DID|WHAT:s16|OF:s6|FROM:o1")
	// The requests of one page view differ in their object only: they are one row.
	var order []auth.Entry
	more := map[auth.Entry]int{}
	object := map[auth.Entry]string{}
	for _, e := range entries {
		of := e
		of.Object, of.Time = "", e.Time.Truncate(time.Minute)
		if _, ok := object[of]; !ok {
			order, object[of] = append(order, of), e.Object
		} else {
			more[of]++
		}
	}
	screen := g.screen()
	for _, e := range order {
		what := term.Cut(object[e], 72, screen.ASCII)
		if n := more[e]; n > 0 {
			what = fmt.Sprintf("%d, such as %s", n+1, what)
		}
		t.Add(term.Clock(e.Time, g.now()), cmp.Or(e.Viewer, "without login"), e.Role, e.Action, what, e.Owner, e.Source)
	}
	return t.Print(screen)
}
