package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"reckon/web/client"
)

// choice is a flag that takes one of a few words.
type choice struct {
	value string
	words []string
	flag  *pflag.Flag // set for a shared one
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return "word" }
func (c *choice) Set(s string) error {
	if !slices.Contains(c.words, s) {
		return fmt.Errorf("give one of %s", strings.Join(c.words, ", "))
	}
	c.value = s
	return nil
}

// completeWords completes the values of a flag in the shell.
func completeWords(cmd *cobra.Command, flag string, words ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag does not exist: a bug of the program
	}
}

// parseTime parses a time from a flag.
func parseTime(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := client.ParseTime(text, now)
	if err != nil {
		return time.Time{}, &usageError{fmt.Errorf("--%s: %w", flag, err)}
	}
	return t, nil
}

// parseSpan parses a duration from a flag.
func parseSpan(flag, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := client.ParseDuration(text)
	if err == nil && d <= 0 {
		err = fmt.Errorf("%q is not above 0", text)
	}
	if err != nil {
		return 0, &usageError{fmt.Errorf("--%s: %w", flag, err)}
	}
	return d, nil
}
