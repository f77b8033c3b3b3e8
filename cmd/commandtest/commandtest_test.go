package commandtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func tree() *cobra.Command {
	root := &cobra.Command{Use: "tool", RunE: func(*cobra.Command, []string) error { return nil }, Args: cobra.NoArgs}
	list := &cobra.Command{Use: "list", RunE: root.RunE, Args: cobra.MaximumNArgs(1)}
	list.Flags().Int("limit", 0, "")
	list.Flags().String("name", "", "")
	more := &cobra.Command{Use: "more"}
	more.AddCommand(&cobra.Command{Use: "one", RunE: root.RunE, Args: cobra.ExactArgs(1)})
	root.AddCommand(list, more)
	return root
}

func TestCheck(t *testing.T) {
	page := strings.Join([]string{
		"A page: `tool list`, `tool lost`, `tool list --limit`, `other list --lost`.",
		"",
		"    tool list --limit 3 --name 'a b' x   # a comment --lost",
		"    $ tool list --limit x",
		"    sudo -u alice ./bin/tool list --lost | tool more one > file",
		"    tool list a b",
		"    date && tool more two; tool more one $(date +%s --utc) &",
		"    WORKLOAD  tool  list --lost",
		"```",
		"tool list < file --lost",
		"```",
	}, "\n")
	var got []string
	for _, c := range FindCommands(page, "tool") {
		result := "ok"
		if err := Check(tree(), c); err != nil {
			result = "refused"
		}
		got = append(got, fmt.Sprintf("%d %s %s", c.Line, strings.Join(c.Words[1:], ","), result))
	}
	want := []string{
		"1 list ok", "1 lost refused", "1 list,--limit ok",
		"3 list,--limit,3,--name,a b,x ok", "4 list,--limit,x refused",
		"5 list,--lost refused", "5 more,one refused", "6 list,a,b refused",
		"7 more,two refused", "7 more,one,$(date +%s --utc) ok", "10 list,--lost refused",
	}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		t.Errorf("got\n%s\nwant\n%s", a, b)
	}
}
