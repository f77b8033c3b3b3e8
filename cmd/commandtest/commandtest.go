// Package commandtest holds pages to the command line that they describe: each command
// of a Markdown page names a subcommand and flags that exist, with values that the flags
// take. Nothing is run. For tests only; a [Command] may be used from one goroutine.
package commandtest

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Command is one call of a program in a page.
type Command struct {
	Line int
	Text string
	// Whole is true for a line of a code block, false for a phrase within a sentence,
	// which may leave out arguments.
	Whole bool
	Words []string // the program without its folder, subcommands, flags, arguments
}

// Commands returns the calls of program in a Markdown page: in code blocks, fenced or
// indented by four spaces, and in code spans. Lines that show output are not calls: they
// do not begin with the program, after `$`, sudo or a pipe.
func Commands(page, program string) (out []Command) {
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
			for _, words := range simpleCommands(text) {
				if words = cutPrefix(words, program); words != nil {
					out = append(out, Command{i + 1, strings.TrimSpace(text), block, words})
				}
			}
		}
	}
	return out
}

// cutPrefix cuts what stands before the program; nil if words call another one.
func cutPrefix(words []string, program string) []string {
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

// simpleCommands splits a line of shell into its simple commands, each a list of words.
// It knows quotes, comments, pipes, && and ; and drops redirections. Substitutions stay
// one word, as they are.
func simpleCommands(line string) (out [][]string) {
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

// Check parses a call with a fresh command tree and returns what the program would
// refuse, or nil.
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
