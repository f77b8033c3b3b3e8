package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"reckon/internal/term"
)

// TestScreensInTerminal: output fits real terminals of every size, uses ASCII instead of block characters
// if the locale is not UTF-8, and has no colour if none is wanted.
func TestScreensInTerminal(t *testing.T) {
	server := site(t)
	looks := map[string][]string{
		"colour": nil,
		"plain":  {"NO_COLOR=1"},
		"ascii":  {"LANG=C", "LC_ALL=C"},
	}
	commands := []struct {
		name, line, end string
		want            []string // in 80 columns and more
	}{
		{"top", "reckon top", "slurm/4711", []string{"CPU    [", "? help"}},
		{"job", "reckon job slurm/4711", "\nexit code 0", []string{"Cores over time", "Memory over time"}},
		{"run", "reckon run --exits none --plot -- sh -c 'i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done'", "\nexit code 0", []string{"cores in use", "resident memory"}},
	}
	for _, size := range [][2]int{{80, 24}, {40, 10}, {200, 60}} {
		for look, env := range looks {
			for _, c := range commands {
				t.Run(fmt.Sprintf("%s %dx%d %s", c.name, size[0], size[1], look), func(t *testing.T) {
					t.Parallel()
					x := startTmux(t, size[0], size[1], append(env, "RECKON_SERVER="+server.URL), c.line)
					x.until(c.end)
					if c.name == "top" && size[0] >= 80 {
						x.until("? help") // the last line that is drawn
					}
					// Including the scrollback, colours, and wrapped lines joined.
					screen := x.run("capture-pane", "-p", "-e", "-J", "-S", "-300")
					if dir := os.Getenv("RECKON_CAPTURES"); dir != "" {
						name := strings.NewReplacer("/", "_", " ", "_").Replace(t.Name())
						_ = os.WriteFile(filepath.Join(dir, name+".txt"), []byte(screen), 0o644)
					}
					bare := term.Strip(screen)
					for _, l := range strings.Split(bare, "\n") {
						if n := utf8.RuneCountInString(strings.TrimRight(l, " ")); n > size[0] {
							t.Errorf("%d columns in %d: %q", n, size[0], l)
						}
						if strings.IndexFunc(l, func(r rune) bool { return r > 126 }) >= 0 && look == "ascii" {
							t.Errorf("no ASCII: %q", l)
						}
					}
					coloured := regexp.MustCompile(`\x1b\[[0-9;]*3[0-9]m`).MatchString(screen)
					if coloured != (look != "plain") {
						t.Errorf("colours: %t", coloured)
					}
					for _, w := range c.want {
						if size[0] >= 80 && !strings.Contains(bare, w) {
							t.Errorf("the screen lacks %q:\n%s", w, bare)
						}
					}
				})
			}
		}
	}
}
