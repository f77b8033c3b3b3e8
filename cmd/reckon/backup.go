package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"reckon/figure/format"
	"reckon/internal/term"
	"reckon/server"
	"reckon/server/backup"
)

func newBackup(g *globals) *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "backup [FILE]",
		Short: "Copy everything that a server keeps into one file, while it runs",
		Long: `backup writes a consistent copy of the running server to FILE: its series, its
catalogue, its users and tokens, and its state. Without FILE the name is
reckon-TIME.tar.zst; "-" is standard output. The file appears under its name when it
is whole and checked.

Data kept elsewhere (--store, --catalogue) is not included; the output names it. For a
stopped server give its directory with --data. The file holds hashes of passwords and
tokens: protect it as you protect those.`,
		Example: `  reckon backup
  reckon backup /backup/reckon.tar.zst
  reckon backup --data /var/lib/reckon - | ssh elsewhere 'cat > reckon.tar.zst'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := "reckon-" + g.now().UTC().Format("20060102T150405Z") + ".tar.zst"
			if len(args) > 0 {
				file = args[0]
			}
			return runBackup(cmd.Context(), g, data, file)
		},
	}
	g.shared.addFlag(cmd, "data", &data)
	return cmd
}

func runBackup(ctx context.Context, g *globals, dataDir, file string) error {
	if file == "-" {
		return writeBackup(ctx, g, dataDir, g.stdout)
	}
	partial, err := os.OpenFile(file+".partial", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer partial.Close()
	m, err := writeVerified(ctx, g, dataDir, partial)
	if err != nil {
		return errors.Join(err, os.Remove(partial.Name()))
	}
	if err := os.Rename(partial.Name(), file); err != nil {
		return err
	}
	st, err := os.Stat(file)
	if err != nil {
		return err
	}
	fmt.Fprintf(g.stdout, "%s: %s, %d files, checked\n", file, format.Bytes(float64(st.Size())), m.Files)
	for _, what := range m.LeftOut {
		fmt.Fprintf(g.stdout, "not in it: %s\n", term.Safe(what))
	}
	return nil
}

func writeVerified(ctx context.Context, g *globals, dataDir string, f *os.File) (m backup.Manifest, err error) {
	if err := writeBackup(ctx, g, dataDir, f); err != nil {
		return m, err
	}
	if err := f.Sync(); err != nil {
		return m, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return m, err
	}
	return backup.Check(f)
}

func writeBackup(ctx context.Context, g *globals, dataDir string, w io.Writer) error {
	if dataDir != "" {
		return server.BackupFiles(ctx, dataDir, slog.New(slog.NewTextHandler(g.stderr, &slog.HandlerOptions{Level: slog.LevelError})), w)
	}
	c, err := g.newClient()
	if err != nil {
		return err
	}
	return c.Backup(ctx, w)
}

func newRestore(g *globals) *cobra.Command {
	var replace, check bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a data directory from a backup",
		Long: `restore makes the directory of a server from a file of backup. Every file is checked
first, and the directory appears whole or not at all. A directory that is not empty is
left alone; with --replace it is moved aside, and its new name is printed.

The server of the directory must be stopped. "-" is standard input.`,
		Example: `  reckon restore reckon-20261121T090000Z.tar.zst --data /var/lib/reckon
  reckon restore reckon.tar.zst --check`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return runRestore(g, args[0], g.serverOptions.Data, replace, check)
		},
	}
	cmd.Flags().AddFlag(g.serving.Flags.Lookup("data"))
	cmd.Flags().BoolVar(&replace, "replace", false, "move a directory that is there aside")
	cmd.Flags().BoolVar(&check, "check", false, "only check whether the backup is complete")
	return cmd
}

func runRestore(g *globals, file, dataDir string, replace, check bool) error {
	in := g.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	if check {
		m, err := backup.Check(in)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		_, err = fmt.Fprintf(g.stdout, "%s is whole: %d files, %s, made at %s by reckon %s\n", file, m.Files,
			format.Bytes(float64(m.Bytes)), m.Time.Format("2006-01-02 15:04:05Z"), term.Safe(m.Version))
		return err
	}
	if err := server.Unused(dataDir); err != nil {
		return fmt.Errorf("%w; stop the server first", err)
	}
	m, aside, err := backup.Restore(in, dataDir, replace, g.now())
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if aside != "" {
		fmt.Fprintf(g.stdout, "the previous contents of %s are in %s\n", dataDir, aside)
	}
	full, err := filepath.Abs(dataDir)
	if err != nil {
		full = dataDir
	}
	fmt.Fprintf(g.stdout, "%s now holds the state of %s; start `reckon up` or `reckon serve` with --data %s\n", dataDir,
		m.Time.Format("2006-01-02 15:04:05Z"), full)
	for _, what := range m.LeftOut {
		fmt.Fprintf(g.stdout, "not in it: %s\n", term.Safe(what))
	}
	return nil
}
