package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"reckon/figure/format"
	"reckon/server"
	"reckon/web/client"
)

func newImport(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Import the history that sonar, a batch system or Waggle wrote",
		Long: `import takes what other programs have written about the past, so that jobs, job, usage
and everything else answer about it too. Imported data is kept regardless of the
retention.

Input that was imported before adds nothing, also in part: a file that has grown is
imported again as a whole. What reckon itself measured is not counted twice. Lines that
cannot be parsed are counted and listed; the rest is imported.`,
		Example: `  reckon import sonar /var/log/sonar
  sacct -aP -S 2023-01-01 -o ALL > jobs.txt; reckon import sacct jobs.txt`,
		Args: cobra.NoArgs,
	}
	site := pflag.NewFlagSet("", pflag.ContinueOnError) // flags that all imports take
	site.String("site", "", "site (cluster) of input that names none")
	site.Bool("force-site", false, "use --site for all input, even where it names a cluster")
	cmd.AddCommand(newImportSonar(g, site), newImportSacct(g, site), newImportWaggle(g, site), newImportMetricSet(g))
	return cmd
}

type importFlags struct {
	client.ImportOptions
	data   string
	format *choice
}

// addImportFlags completes the command of a format. site and force are set by flags that all formats share.
func addImportFlags(g *globals, shared *pflag.FlagSet, name string, cmd *cobra.Command) (*cobra.Command, *importFlags) {
	f := &importFlags{ImportOptions: client.ImportOptions{Format: name}}
	cmd.Args = cobra.MinimumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runImport(cmd.Context(), g, f, args) }
	shared.VisitAll(func(flag *pflag.Flag) {
		addShared(cmd, flag, func() {
			f.Site, f.Force = shared.Lookup("site").Value.String(), shared.Lookup("force-site").Value.String() == "true"
		})
	})
	g.shared.addFlag(cmd, "data", &f.data)
	f.format = g.shared.addFormatFlag(cmd, "text", "json")
	return cmd, f
}

func newImportSonar(g *globals, site *pflag.FlagSet) *cobra.Command {
	cmd, f := addImportFlags(g, site, "sonar", &cobra.Command{
		Use:   "sonar PATH...",
		Short: "Import data of sonar: CSV of every release, JSON, or trees of both",
		Long: `sonar takes files and directories of sonar, plain or gzip: CSV, tagged or untagged as of
the first releases, and JSON of types sample, sysinfo, job and cluster. "-" is standard
input. Files are taken in the order of their names.

Jobs with epoch 0 are the batch system's, others are process groups of one node.
Older CSV names no epoch: with --batch its jobs are the batch system's.`,
		Example: `  reckon import sonar /data/sonar/fox.educloud.no
  reckon import sonar --site ml --data /var/lib/reckon 2023/
  reckon import sonar --batch --site saga saga-2023.csv.gz`,
	})
	cmd.Flags().BoolVar(&f.Batch, "batch", false, "jobs of CSV without an epoch are the batch system's")
	return cmd
}

func newImportSacct(g *globals, site *pflag.FlagSet) *cobra.Command {
	cmd, f := addImportFlags(g, site, "sacct", &cobra.Command{
		Use:     "sacct PATH...",
		Aliases: []string{"accounting", "pbs", "sge", "lsf"},
		Short:   "Import the accounting of Slurm, PBS, Grid Engine or LSF",
		Long: `sacct takes the output of sacct --parsable or --parsable2, with | or ^ between the
fields, or the JSON of sacct --json. Without a first line of field names --fields names
them; the default is the list of sonar. "-" is standard input. The accounting logs of
PBS Professional, OpenPBS and Torque, of Grid Engine and of LSF (lsb.acct) are
recognised by content.

Usage from accounting is taken for jobs that no agent measured.`,
		Example: `  sacct -aP -S 2023-01-01 -o ALL | reckon import sacct -
  reckon import sacct --zone Europe/Oslo jobs.txt
  reckon import pbs --site cedar /var/spool/pbs/server_priv/accounting
  reckon import sacct --fields JobID,JobIDRaw,User,State,Submit,Start,End old.txt`,
	})
	cmd.Flags().StringVar(&f.Fields, "fields", "", "names of the columns, for an export without them")
	cmd.Flags().StringVar(&f.Zone, "zone", "", "time zone of the times in it, such as Europe/Oslo (default: the server's)")
	return cmd
}

func newImportWaggle(g *globals, site *pflag.FlagSet) *cobra.Command {
	cmd, _ := addImportFlags(g, site, "waggle", &cobra.Command{
		Use:   "waggle PATH...",
		Short: "Import measurements from the data API of Waggle and Sage",
		Long: `waggle imports responses of the Waggle data API: one measurement in JSON on each line,
plain or gzip. "-" is standard input. env.temperature becomes the series env_temperature with
source="waggle", the node is its vsn, and the meta of the measurement are labels. Values that
are texts, such as names of files, are passed over.`,
		Example: `  curl -s https://data.sagecontinuum.org/api/v1/query -d '{"start":"-1h","filter":{"name":"sys.*","vsn":"W023"}}' | reckon import waggle -
  reckon import waggle --site sage data.json`,
	})
	return cmd
}

func runImport(ctx context.Context, g *globals, f *importFlags, paths []string) error {
	if f.Force && f.Site == "" {
		return &usageError{errors.New("--force-site needs --site")}
	}
	files, err := listFiles(g, paths)
	if err != nil {
		return err
	}
	began := time.Now()
	endProgress := f.showProgress(g.stderr, files)
	var r client.ImportResult
	if f.data != "" {
		log := slog.New(slog.NewTextHandler(g.stderr, &slog.HandlerOptions{Level: slog.LevelError}))
		r, err = server.ImportFiles(ctx, f.data, log, f.ImportOptions, files)
	} else {
		var c *client.Client
		if c, err = g.newClient(); err != nil {
			return err
		}
		r, err = c.Import(ctx, f.ImportOptions, files)
	}
	endProgress()
	switch {
	case err != nil && ctx.Err() != nil && f.data == "":
		fmt.Fprintln(g.stderr, "interrupted: the server finishes what it was sent; give the same files again for the rest")
		return err
	case err != nil && ctx.Err() != nil:
		fmt.Fprintln(g.stderr, "interrupted: give the same files again, and the import goes on")
		return err
	case err != nil:
		return err
	}
	if f.format.value == "json" {
		enc := json.NewEncoder(g.stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(r)
	} else {
		err = printImport(g, r, time.Since(began))
	}
	switch {
	case err != nil:
	case r.Useless():
		err = fmt.Errorf("nothing was imported: the input has no record of %s that can be read", f.Format)
	case r.Unread > 0:
		err = fmt.Errorf("no record can be read in %d of %s", r.Unread, plural(r.Files, "file"))
	}
	return err
}

// progressEvery is the interval at which an import reports its progress.
const progressEvery = 10 * time.Second

// showProgress prints the progress of the import from time to time until the returned function is called.
func (f *importFlags) showProgress(w io.Writer, files []client.ImportFile) (stop func()) {
	var now atomic.Value
	var read atomic.Int64
	f.Progress = func(text string) { now.Store(text) }
	for i, file := range files {
		files[i].Open = func() (io.ReadCloser, error) {
			in, err := file.Open()
			return countedFile{in, func(n int) {
				f.Progress(fmt.Sprintf("%s read, file %d of %d: %s", format.Bytes(float64(read.Add(int64(n)))), i+1, len(files), file.Name))
			}}, err
		}
	}
	began, tick, done := time.Now(), time.NewTicker(progressEvery), make(chan struct{})
	go func() {
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				fmt.Fprintf(w, "%.0f s: %v\n", time.Since(began).Seconds(), cmp.Or(now.Load(), any("it waits for its input")))
			}
		}
	}()
	return func() { close(done) }
}

// countedFile reports the bytes read.
type countedFile struct {
	io.ReadCloser
	report func(n int)
}

func (c countedFile) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.report(n)
	return n, err
}

// plural formats a number of things; several is an irregular plural.
func plural(n int, thing string, several ...string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case len(several) > 0:
		thing = several[0]
	default:
		thing += "s"
	}
	return format.Count(float64(n)) + " " + thing
}

// printImport prints the result of an import.
func printImport(g *globals, r client.ImportResult, took time.Duration) error {
	listed := 0
	for _, b := range r.Bad {
		where := b.File
		if b.Line > 0 {
			where = fmt.Sprintf("%s:%d", b.File, b.Line)
		}
		text := b.Error
		if b.Count > 1 {
			text += fmt.Sprintf(" (and %d more of this kind)", b.Count-1)
		}
		fmt.Fprintln(g.stderr, toOneLine(fmt.Errorf("%s: %s", where, text)))
		listed += b.Count
	}
	if more := r.BadCount + r.BadFields - listed; more > 0 {
		fmt.Fprintf(g.stderr, "and %d more that cannot be parsed\n", more)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s: %s new, %s known", plural(r.Files, "file"), plural(r.Records, "record"),
		format.Count(float64(r.Taken)), format.Count(float64(r.Known)))
	for _, c := range []struct {
		n    int
		text string
	}{
		{r.Refused, "refused"}, {r.Waiting, "had not started"}, {r.Measured, "of times that reckon measured itself"},
		{r.Heartbeats, "signs of life of idle nodes"},
	} {
		if c.n > 0 {
			fmt.Fprintf(&b, ", %s %s", format.Count(float64(c.n)), c.text)
		}
	}
	if n := r.BadCount - r.Refused; n > 0 {
		fmt.Fprintf(&b, "; %s could not be read", plural(n, "line or document", "lines or documents"))
	}
	if r.BadFields > 0 {
		fmt.Fprintf(&b, "; %s could not be read", plural(r.BadFields, "field"))
	}
	fmt.Fprintf(&b, "\n%s, %s in %.1f s", plural(r.Workloads, "workload"), plural(r.Samples, "sample"), took.Seconds())
	if r.From != nil && r.To != nil {
		fmt.Fprintf(&b, ", from %s to %s UTC\nsee them: reckon jobs --since %s", r.From.Format("2006-01-02 15:04"),
			r.To.Format("2006-01-02 15:04"), r.From.Format("2006-01-02"))
	}
	b.WriteByte('\n')
	if r.Resumed {
		b.WriteString("an earlier import that had been cut off is finished with it\n")
	}
	_, err := io.WriteString(g.stdout, b.String())
	return err
}

// listFiles lists the files of the paths in the order of their names, because most names begin with a date.
func listFiles(g *globals, paths []string) ([]client.ImportFile, error) {
	var list []client.ImportFile
	for _, path := range paths {
		if path == "-" {
			list = append(list, client.ImportFile{Name: "stdin", Open: func() (io.ReadCloser, error) { return io.NopCloser(g.stdin), nil }})
			continue
		}
		err := filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && (name == path || !strings.HasPrefix(e.Name(), ".") && e.Type().IsRegular()) {
				list = append(list, client.ImportFile{Name: name, Open: func() (io.ReadCloser, error) { return os.Open(name) }})
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("look for input: %w", err)
		}
	}
	if len(list) == 0 {
		return nil, &usageError{fmt.Errorf("there is no file in %s", strings.Join(paths, ", "))}
	}
	slices.SortStableFunc(list, func(a, b client.ImportFile) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}
