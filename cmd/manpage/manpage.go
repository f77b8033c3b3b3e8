// Package manpage writes the manual pages of a command tree, in the format of man(7). The
// `man` commands of both programs are hidden: they are used for packaging.
package manpage

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"reckon/internal/buildinfo"
)

// Command returns the hidden command that writes the pages of its root and of all commands below it.
func Command() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual pages of all commands into a directory",
		Example: "  reckon man /usr/share/man/man1",
		Hidden:  true,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("write the manual pages: %w", err)
			}
			return writePages(cmd.Root(), args[0])
		},
	}
}

// writePages writes the pages of a command and those below it, in the format of man(7).
func writePages(cmd *cobra.Command, dir string) error {
	if cmd.Hidden || cmd.IsAdditionalHelpTopicCommand() {
		return nil
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	if err := os.WriteFile(filepath.Join(dir, name+".1"), []byte(formatPage(cmd, name)), 0o644); err != nil {
		return fmt.Errorf("write the manual page: %w", err)
	}
	for _, sub := range cmd.Commands() {
		if err := writePages(sub, dir); err != nil {
			return err
		}
	}
	return nil
}

func formatPage(cmd *cobra.Command, name string) string {
	var b strings.Builder
	put := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	put(`.TH "%s" "1" "" "reckon %s" "reckon"`, strings.ToUpper(name), escapeRoff(buildinfo.Get().Version))
	put(".SH NAME\n%s \\- %s", escapeRoff(name), escapeRoff(cmd.Short))
	put(".SH SYNOPSIS\n.B %s", escapeRoff(cmd.UseLine()))
	long := cmp.Or(cmd.Long, cmd.Short)
	put(".SH DESCRIPTION")
	writeParagraphs(&b, long)
	writeFlags(&b, "OPTIONS", cmd.NonInheritedFlags())
	writeFlags(&b, "OPTIONS OF ALL COMMANDS", cmd.InheritedFlags())
	if cmd.Example != "" {
		put(".SH EXAMPLES\n.nf\n%s\n.fi", escapeRoff(strings.TrimRight(cmd.Example, "\n")))
	}
	put(".SH EXIT STATUS\n0 on success, 1 on failure, 2 on a usage error or an unknown name.")
	var also []string
	if cmd.HasParent() {
		also = append(also, formatLink(cmd.Parent()))
	}
	for _, sub := range cmd.Commands() {
		if !sub.Hidden && sub.IsAvailableCommand() {
			also = append(also, formatLink(sub))
		}
	}
	if len(also) > 0 {
		put(".SH SEE ALSO\n%s", strings.Join(also, ",\n"))
	}
	return b.String()
}

func formatLink(cmd *cobra.Command) string {
	return `\fB` + escapeRoff(strings.ReplaceAll(cmd.CommandPath(), " ", "-")) + `\fR(1)`
}

// writeParagraphs writes text with its layout: indented paragraphs stay unchanged.
func writeParagraphs(b *strings.Builder, text string) {
	for _, part := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if strings.HasPrefix(part, "  ") {
			fmt.Fprintf(b, ".PP\n.nf\n%s\n.fi\n", escapeRoff(part))
			continue
		}
		fmt.Fprintf(b, ".PP\n%s\n", escapeRoff(part))
	}
}

func writeFlags(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		word, usage := pflag.UnquoteUsage(f)
		names := `\fB\-\-` + escapeRoff(f.Name) + `\fR`
		if f.Shorthand != "" {
			names = `\fB\-` + f.Shorthand + `\fR, ` + names
		}
		if word != "" {
			names += ` \fI` + escapeRoff(word) + `\fR`
		}
		if d := f.DefValue; d != "" && d != "false" && d != "[]" && d != "0" && !strings.Contains(usage, "(default") {
			usage += " (default " + d + ")"
		}
		fmt.Fprintf(b, ".TP\n%s\n%s\n", names, escapeRoff(usage))
	})
}

// escapeRoff returns s escaped for roff: backslashes, hyphens that a reader must be able to copy, and dots and quotes at
// the start of a line.
func escapeRoff(s string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
