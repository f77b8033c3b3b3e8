package manpage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestPages: each command that is not hidden has a page, which lists its flags and related pages.
func TestPages(t *testing.T) {
	root := &cobra.Command{Use: "tool", Short: "Do things", Long: "tool does things.\n\n  as it stands\n\n.start of a line", Example: "  tool do --fast"}
	do := &cobra.Command{Use: "do NAME", Short: "Do one thing", RunE: func(*cobra.Command, []string) error { return nil }}
	do.Flags().Bool("fast", false, "do not wait")
	do.Flags().Int("times", 3, "`count` of repetitions")
	root.AddCommand(do, Command())
	dir := filepath.Join(t.TempDir(), "man1")
	root.SetArgs([]string{"man", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%v %v", files, err)
	}
	for file, parts := range map[string][]string{
		"tool.1":    {`.TH "TOOL" "1"`, `tool \- Do things`, "\n.nf\n  as it stands\n.fi\n", "\n\\&.start of a line\n", `\fBtool\-do\fR(1)`},
		"tool-do.1": {`\fB\-\-fast\fR` + "\ndo not wait", `\fB\-\-times\fR \fIcount\fR` + "\ncount of repetitions (default 3)", `\fBtool\fR(1)`},
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s has no %q:\n%s", file, part, text)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "tool-man.1")); err == nil {
		t.Error("the hidden command has a page")
	}
}
