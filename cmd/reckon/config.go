package main

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

// configFlag adds --config: a YAML file with the flags of the command under their
// names. The command line takes precedence.
func configFlag(cmd *cobra.Command) {
	var file string
	cmd.Flags().StringVar(&file, "config", "", "YAML file with these flags under their names, such as 'listen: 0.0.0.0:9870'; the command line wins")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if file != "" {
			if err := readConfig(cmd.Flags(), file); err != nil {
				return &usageError{fmt.Errorf("--config %s: %w", file, err)}
			}
		}
		return run(cmd, args)
	}
}

func readConfig(flags *pflag.FlagSet, file string) error {
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
		flag := flags.Lookup(key.Value)
		switch {
		case flag == nil || flag.Name == "config" || flag.Name == "help":
			return fmt.Errorf("line %d: %q is no setting%s", key.Line, key.Value, nearest(flags, key.Value))
		case seen[key.Value]:
			return fmt.Errorf("line %d: %s occurs twice", key.Line, key.Value)
		}
		seen[key.Value] = true
		if flag.Changed {
			continue
		}
		if err := setFlag(flags, flag, value); err != nil {
			return fmt.Errorf("line %d: %s: %w", value.Line, key.Value, err)
		}
	}
	return nil
}

func setFlag(flags *pflag.FlagSet, flag *pflag.Flag, value *yaml.Node) error {
	list, many := flag.Value.(pflag.SliceValue)
	switch {
	case value.Kind == yaml.ScalarNode:
		return flags.Set(flag.Name, value.Value)
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

// nearest suggests the setting with the nearest name.
func nearest(flags *pflag.FlagSet, word string) string {
	plain := func(s string) string { return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s)) }
	var names []string
	best := ""
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "config" || f.Name == "help" {
			return
		}
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
