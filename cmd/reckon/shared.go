package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"reckon/answer/dataset"
	"reckon/web/client"
)

// shared holds the flags that several commands have. Each is registered once and means the same everywhere.
type shared struct {
	lists, words *pflag.FlagSet // with several values, with one
	formats      map[string]*choice
	columns      map[string]func() []string // names of columns, by command
}

func newShared(g *globals) *shared {
	s := &shared{
		lists: pflag.NewFlagSet("", pflag.ContinueOnError), words: pflag.NewFlagSet("", pflag.ContinueOnError),
		formats: map[string]*choice{}, columns: map[string]func() []string{},
	}
	l, w := s.lists, s.words
	l.StringSliceP("owner", "u", nil, "of these owners: users or namespaces")
	l.StringSliceP("node", "N", nil, "of these nodes")
	l.StringSliceP("account", "A", nil, "charged to these accounts")
	l.StringSliceP("partition", "p", nil, "of these partitions")
	l.StringSlice("site", nil, "of these sites or clusters")
	l.StringSlice("kind", nil, "of these kinds: "+strings.Join(kindWords(), ", "))
	l.StringSliceP("columns", "o", nil,
		"these columns of the table or of CSV: keys of the JSON, short words as of --sort, or the words of Slurm's commands")
	w.StringP("owner", "u", "", "of this owner: a user or a namespace")
	w.StringP("node", "N", "", "of this node")
	w.String("site", "", "of this site (cluster), where several gave the same id")
	w.StringP("since", "S", "", "from this time on: 2h, 7d, 2026-11-21, or RFC 3339")
	w.StringP("until", "E", "", "up to this time")
	w.String("name", "", "with a name that matches this shell pattern, such as 'train*'")
	w.String("command", "", "with a program that matches this shell pattern, such as 'python*'")
	w.String("start", "", "which run of an id that was given more than once: its start, or a time in it")
	w.String("data", "", "directory of a server that is stopped, to be used instead of a running server")
	w.StringP("output", "o", "", "write to this file")
	w.String("memory", "", "memory on one node, such as 64G (1024 based)")
	w.String("time", "", "how long it runs, such as 8h")
	w.String("domain", "node", "power domain: "+strings.Join(dataset.PowerDomains(), ", "))
	w.String("password-file", "", "file with the password, - for standard input; never an argument, which others can see")
	lists, words := s.completionCommand(l), s.completionCommand(w)
	completeNames(lists, g, "owner", "account", "partition", "node", "site")
	completeNames(words, g, "owner", "node")
	completeWords(lists, "kind", kindWords()...)
	completeWords(words, "domain", dataset.PowerDomains()...)
	completeFlag(lists, "columns", func(cmd *cobra.Command) []string {
		if of := s.columns[cmd.Name()]; of != nil {
			return of()
		}
		return nil
	})
	return s
}

// completionCommand returns a command for registering completions.
func (s *shared) completionCommand(flags *pflag.FlagSet) *cobra.Command {
	cmd := &cobra.Command{}
	cmd.Flags().AddFlagSet(flags)
	return cmd
}

// addListFlag adds a flag with several values, which are stored in to before the command runs.
func (s *shared) addListFlag(cmd *cobra.Command, name string, to *[]string) {
	flag := s.lists.Lookup(name)
	addShared(cmd, flag, func() { *to = flag.Value.(pflag.SliceValue).GetSlice() })
}

// addFlag adds a flag with one value, which is stored in to before the command runs. Without the flag, to keeps its default.
func (s *shared) addFlag(cmd *cobra.Command, name string, to *string) {
	flag := s.words.Lookup(name)
	addShared(cmd, flag, func() { *to = flag.Value.String() })
}

// addShared adds a shared flag to a command. If the flag was given, store is called with its value before the command runs.
func addShared(cmd *cobra.Command, flag *pflag.Flag, store func()) {
	cmd.Flags().AddFlag(flag)
	before := cmd.PreRun
	cmd.PreRun = func(cmd *cobra.Command, args []string) {
		if before != nil {
			before(cmd, args)
		}
		if flag.Changed {
			store()
		}
	}
}

// addFormatFlag adds --format with the first word as default.
func (s *shared) addFormatFlag(cmd *cobra.Command, words ...string) *choice {
	key := strings.Join(words, ", ")
	c := s.formats[key]
	if c == nil {
		c = &choice{value: words[0], words: words}
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.Var(c, "format", "form of the output: "+key)
		completeWords(s.completionCommand(flags), "format", words...)
		c.flag = flags.Lookup("format")
		s.formats[key] = c
	}
	cmd.Flags().AddFlag(c.flag)
	return c
}

// addColumns adds the flag -o for rows of a type.
func addColumns[R any](s *shared, cmd *cobra.Command, to *[]string) {
	s.addListFlag(cmd, "columns", to)
	s.columns[cmd.Name()] = client.Columns[R]
}

// completeFlag completes the values of a flag in the shell with words that depend on the command.
func completeFlag(cmd *cobra.Command, flag string, words func(*cobra.Command) []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return slices.DeleteFunc(slices.Clone(words(cmd)), func(w string) bool { return !strings.HasPrefix(w, prefix) }),
			cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the flag does not exist: a bug of the program
	}
}
