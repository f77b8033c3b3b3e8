// Package commandtest checks pages against the command line that they describe: each command
// in a Markdown page must use existing subcommands and flags, with valid flag
// values. Nothing is executed. For tests only; a [Command] is not safe for concurrent use.
package commandtest

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Command is one call of a program in a page.
type Command struct {
	Line int
	Text string
	// Whole is true for a line of a code block, and false for a phrase within a sentence, which may omit arguments.
	Whole bool
	Words []string // the program without its folder, subcommands, flags, arguments
}

// FindCommands returns the calls of program in a Markdown page, in code spans and in code blocks, fenced or indented by
// four spaces. In a code block, a call is a line that starts with the program, or with `$`, sudo or a pipe before it.
// All other lines are output.
func FindCommands(page, program string) (out []Command) {
	fenced := false
	span := regexp.MustCompile("`([^`]+)`")
	for i, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		texts := []string{line}
		block := fenced || strings.HasPrefix(line, "    ")
		if !block {
			texts = nil
			for _, m := range span.FindAllStringSubmatch(line, -1) {
				texts = append(texts, m[1])
			}
		}
		for _, text := range texts {
			for _, words := range splitCommands(text) {
				if words = cutToProgram(words, program); words != nil {
					out = append(out, Command{i + 1, strings.TrimSpace(text), block, words})
				}
			}
		}
	}
	return out
}

// cutToProgram drops the words in front of the program, such as sudo. It returns nil if words call another program.
func cutToProgram(words []string, program string) []string {
	if len(words) > 0 && words[0] == "$" {
		words = words[1:]
	}
	if len(words) > 0 && words[0] == "sudo" {
		words = words[1:]
		for len(words) > 1 && words[0] == "-u" {
			words = words[2:]
		}
	}
	if len(words) == 0 || words[0] != program && !(path.Base(words[0]) == program && strings.Contains(words[0], "bin/")) {
		return nil
	}
	return append([]string{program}, words[1:]...)
}

// splitCommands splits a shell line into simple commands, each a list of words. It handles quotes, comments, pipes, &&
// and ;, and drops redirections. A command substitution stays one word.
func splitCommands(line string) (out [][]string) {
	var words []string
	var word strings.Builder
	inWord, redirect := false, false
	end := func() {
		if inWord && !redirect {
			words = append(words, word.String())
		}
		if inWord {
			redirect = false
		}
		word.Reset()
		inWord = false
	}
	quote := rune(0)
	parens := 0
	for _, r := range line {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == '(':
			parens++
			word.WriteRune(r)
			inWord = true
		case r == ')':
			parens--
			word.WriteRune(r)
		case parens > 0:
			word.WriteRune(r)
		case r == '#' && !inWord:
			return append(out, words)
		case r == ' ' || r == '\t':
			end()
		case r == '|' || r == ';' || r == '&':
			end()
			if words != nil {
				out, words = append(out, words), nil
			}
		case r == '>' || r == '<':
			end()
			redirect = true
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	end()
	if words != nil {
		out = append(out, words)
	}
	return out
}

// Check parses a call with a new command tree. It returns the error that the program would return, or nil.
func Check(root *cobra.Command, c Command) error {
	cmd, rest, err := root.Find(c.Words[1:])
	if err != nil {
		return err
	}
	if cmd.DisableFlagParsing {
		return nil
	}
	switch err := cmd.ParseFlags(rest); {
	case err == pflag.ErrHelp:
		return nil
	case err != nil && c.Whole:
		return fmt.Errorf("%s: %w", cmd.CommandPath(), err)
	case err != nil && !strings.Contains(err.Error(), "needs an argument"):
		return fmt.Errorf("%s: %w", cmd.CommandPath(), err)
	}
	args := cmd.Flags().Args()
	if cmd.HasSubCommands() && len(args) > 0 && !cmd.Runnable() {
		return fmt.Errorf("%s: no subcommand %q", cmd.CommandPath(), args[0])
	}
	if !c.Whole && !cmd.HasSubCommands() {
		return nil
	}
	if err := cmd.ValidateArgs(args); err != nil {
		return fmt.Errorf("%s: %w", cmd.CommandPath(), err)
	}
	return nil
}

// CheckSettings checks that page, the reference of settings, has the table of program's keys under the program's name. If
// update is set, it writes the table.
func CheckSettings(t *testing.T, page, program string, keys *pflag.FlagSet, update bool) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := fmt.Sprintf("<!-- %s -->\n", program), fmt.Sprintf("<!-- end of %s -->\n", program)
	before, rest, found := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the settings of %s", page, program)
	}
	var b strings.Builder
	b.WriteString(before + begin + "\n| key | default | meaning |\n|---|---|---|\n")
	keys.VisitAll(func(f *pflag.Flag) {
		_, usage := pflag.UnquoteUsage(f)
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Name, strings.Trim(f.DefValue, "[]"), strings.ReplaceAll(usage, "|", `\|`))
	})
	b.WriteString("\n" + end + after)
	switch {
	case b.String() == string(text):
	case !update:
		t.Errorf("%s is stale; run the test with -update", page)
	default:
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// CountFlags returns the number of flags that a command tree registers. A flag that commands inherit or share counts
// once.
func CountFlags(root *cobra.Command, others ...*pflag.FlagSet) int {
	seen := map[*pflag.Flag]bool{}
	count := func(f *pflag.Flag) {
		if f.Name != "help" && f.Name != "version" {
			seen[f] = true
		}
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(count)
		cmd.PersistentFlags().VisitAll(count)
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
	for _, f := range others {
		f.VisitAll(count)
	}
	return len(seen)
}

// ReadLimit returns the limit with this name from internal/archtest/gates.txt; file is the path to gates.txt.
func ReadLimit(t *testing.T, file, name string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == name {
			n, err := strconv.Atoi(words[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("%s has no limit %s", file, name)
	return 0
}
