package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"reckon/doc"
	"reckon/internal/term"
)

// mostDocLines is the maximum number of lines that a search in the guides prints.
const mostDocLines = 50

func newDocs(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "docs [TOPIC | WORDS...]", Short: "Read the guides, or search in them",
		Long: `docs lists the guides, prints one or a section of one, or prints the lines that
contain all WORDS. Every server has them as pages at /docs.`,
		Example: `  reckon docs
  reckon docs jobs
  reckon docs power models
  reckon docs memory killed`,
		ValidArgsFunction: firstArg(g, func(context.Context, *globals, string) (names []string, _ cobra.ShellCompDirective) {
			for _, t := range doc.Topics() {
				names = append(names, cobra.CompletionWithDesc(t.Name, t.Title))
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		}),
		RunE: func(_ *cobra.Command, args []string) error { return runDocs(g, strings.Join(args, " ")) },
	}
}

func runDocs(g *globals, words string) error {
	if words == "" {
		t := term.TableOf("TOPIC|TITLE:s30")
		for _, topic := range doc.Topics() {
			t.Add(topic.Name, topic.Title)
		}
		return t.Print(g.screen())
	}
	text, ok := doc.Text(strings.TrimSuffix(words, ".md"))
	if !ok {
		text, ok = doc.Section(words)
	}
	if ok {
		_, err := io.WriteString(g.stdout, text)
		return err
	}
	found := doc.Find(words, mostDocLines)
	if len(found) == 0 {
		return fmt.Errorf("no guide is called %q, and no line contains these words; reckon docs lists the guides", words)
	}
	t := term.TableOf("TOPIC|SECTION:s20|LINE:s40")
	for _, m := range found {
		t.Add(m.Topic.Name, m.Heading, m.Line)
	}
	return t.Print(g.screen())
}
