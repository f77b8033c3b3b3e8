// Package settings holds the settings of `reckon up`, `reckon serve` and `reckon-agent` that a site
// sets once in a YAML file with lines NAME: VALUE. Frequently used settings are also flags of the
// command line, where `--set NAME=VALUE` sets any of them. Unknown keys are errors. A [Set] is not
// safe for concurrent use.
package settings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Set holds the settings of a command. Each setting is registered once, in Flags or in Keys.
type Set struct {
	Flags *pflag.FlagSet // on the command line and in the file
	Keys  *pflag.FlagSet // in the file, or by --set
	file  string
}

// New returns an empty set.
func New() *Set {
	s := &Set{Flags: pflag.NewFlagSet("", pflag.ContinueOnError), Keys: pflag.NewFlagSet("", pflag.ContinueOnError)}
	s.Flags.SortFlags, s.Keys.SortFlags = false, false
	return s
}

// Add includes the settings of another set. Both sets share their values.
func (s *Set) Add(other *Set) {
	s.Flags.AddFlagSet(other.Flags)
	s.Keys.AddFlagSet(other.Keys)
}

// findSetting returns the setting with a name, or nil.
func (s *Set) findSetting(name string) *pflag.Flag {
	if f := s.Flags.Lookup(name); f != nil {
		return f
	}
	return s.Keys.Lookup(name)
}

// Given reports whether a setting was given, in the file or on the command line.
func (s *Set) Given(name string) bool {
	f := s.findSetting(name)
	return f != nil && f.Changed
}

// Visit calls f with every setting: first the settings of the command line.
func (s *Set) Visit(f func(*pflag.Flag)) {
	s.Flags.VisitAll(f)
	s.Keys.VisitAll(f)
}

// Attach adds the flags to a command, including --config and --set, and makes the command read the settings file before it runs. wrong
// converts an error to a usage error. A flag of an earlier version returns an error that names the new key.
func (s *Set) Attach(cmd *cobra.Command, wrong func(error) error) {
	f := cmd.Flags()
	f.AddFlagSet(s.Flags)
	f.StringVar(&s.file, "config", "", "YAML file with settings, such as 'listen: 0.0.0.0:9870'; the command line wins")
	f.Var((*assignments)(s), "set", "a setting of that file; repeatable. The command check --list lists them")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if s.file != "" {
			if err := s.Read(s.file); err != nil {
				return wrong(fmt.Errorf("--config %s: %w", s.file, err))
			}
		}
		return run(cmd, args)
	}
	explain := cmd.FlagErrorFunc()
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if cmd.HasParent() {
			explain = cmd.Parent().FlagErrorFunc()
		}
		if c == cmd {
			err = s.explainMovedFlag(err)
		}
		return explain(c, err)
	})
}

// explainMovedFlag explains a flag that is a key of the file.
func (s *Set) explainMovedFlag(err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	key := s.Keys.Lookup(unknown.GetSpecifiedName())
	if key == nil {
		return err
	}
	return fmt.Errorf("--%s is a setting: write '%s: VALUE' into the file that --config names, or give --set %s=VALUE", key.Name, key.Name,
		key.Name)
}

// Read reads the file. Values from the command line take precedence.
func (s *Set) Read(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	var doc yaml.Node
	if err := yaml.NewDecoder(f).Decode(&doc); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: write NAME: VALUE, one on each line", top.Line)
	}
	seen := map[string]bool{}
	for i := 0; i < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		flag := s.findSetting(key.Value)
		switch {
		case flag == nil:
			return fmt.Errorf("line %d: %q is no setting%s", key.Line, key.Value, s.suggestSetting(key.Value))
		case seen[key.Value]:
			return fmt.Errorf("line %d: %s occurs twice", key.Line, key.Value)
		}
		seen[key.Value] = true
		if flag.Changed {
			continue
		}
		if err := setFlag(flag, value); err != nil {
			return fmt.Errorf("line %d: %s: %w", value.Line, key.Value, err)
		}
	}
	return nil
}

func setFlag(flag *pflag.Flag, value *yaml.Node) error {
	list, many := flag.Value.(pflag.SliceValue)
	switch {
	case value.Kind == yaml.ScalarNode:
		flag.Changed = true
		return flag.Value.Set(value.Value)
	case value.Kind == yaml.SequenceNode && many:
		var words []string
		for _, n := range value.Content {
			if n.Kind != yaml.ScalarNode {
				return errors.New("give a list of words")
			}
			words = append(words, n.Value)
		}
		flag.Changed = true
		return list.Replace(words)
	case value.Kind == yaml.SequenceNode:
		return errors.New("give one value, not a list")
	}
	return errors.New("give one value")
}

// suggestSetting suggests the setting with the nearest name.
func (s *Set) suggestSetting(word string) string {
	plain := func(s string) string { return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s)) }
	var names []string
	best := ""
	s.Visit(func(f *pflag.Flag) {
		names = append(names, f.Name)
		if p := plain(f.Name); p == plain(word) || strings.HasPrefix(p, plain(word)) || strings.HasPrefix(plain(word), p) {
			best = f.Name
		}
	})
	if best != "" {
		return fmt.Sprintf("; do you mean %s?", best)
	}
	slices.Sort(names)
	return "; there are " + strings.Join(names, ", ")
}

// assignments is the flag --set.
type assignments Set

func (a *assignments) String() string { return "" }
func (a *assignments) Type() string   { return "NAME=VALUE" }
func (a *assignments) Set(text string) error {
	name, value, found := strings.Cut(text, "=")
	flag := (*Set)(a).findSetting(name)
	switch {
	case flag == nil:
		return fmt.Errorf("%q is no setting%s", name, (*Set)(a).suggestSetting(name))
	case !found:
		return fmt.Errorf("write %s=VALUE", name)
	}
	if err := flag.Value.Set(value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	flag.Changed = true
	return nil
}

// List writes every setting as a commented line of the file, with its default.
func (s *Set) List(w io.Writer) error {
	var err error
	s.Visit(func(f *pflag.Flag) {
		_, usage := pflag.UnquoteUsage(f)
		value := f.DefValue
		if f.Value.Type() == "string" && value == "" {
			value = `""`
		}
		if err == nil {
			_, err = fmt.Fprintf(w, "# %s\n#%s: %s\n\n", usage, f.Name, value)
		}
	})
	return err
}
