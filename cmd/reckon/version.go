package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"reckon/internal/buildinfo"
)

func newVersion(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return runVersion(g, asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func runVersion(g *globals, asJSON bool) error {
	info := buildinfo.Get()
	if !asJSON {
		_, err := fmt.Fprintln(g.stdout, info)
		return err
	}
	enc := json.NewEncoder(g.stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(info)
}
