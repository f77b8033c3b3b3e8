// Package measure holds the common code of the areas of test/bench: running programs beside each
// other, their processor time and memory as counted by the kernel, and tables.
package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Env is the environment of an area of the bench.
type Env struct {
	Out io.Writer // Markdown
	Bin string    // folder of reckon and reckon-agent
	Dir string    // a folder of the area's own, removed afterwards
}

// Printf writes text.
func (e *Env) Printf(format string, args ...any) { fmt.Fprintf(e.Out, format, args...) }

// Table writes a title and the heading of a table. It returns a function that writes a row.
func (e *Env) Table(title string, columns ...string) (row func(format string, args ...any)) {
	if title != "" {
		e.Printf("\n%s\n", title)
	}
	e.Printf("\n| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	return func(format string, args ...any) { e.Printf("| "+format+" |\n", args...) }
}

// OwnCPU returns the processor time of this process: other work on the machine does not lengthen it.
func OwnCPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// CPUTime returns the processor time and the wall time of f.
func CPUTime(f func() error) (cpu, clock time.Duration, err error) {
	before, began := OwnCPU(), time.Now()
	err = f()
	return OwnCPU() - before, time.Since(began), err
}

// CPUOf returns the CPU time of a process, including its ended threads. It is exact to the nanosecond, and 0 after the
// process has ended. The clock id is built as in the kernel's include/linux/posix-timers_types.h.
func CPUOf(pid int) time.Duration {
	const schedClock = 2
	var ts unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|schedClock), &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// Status returns the number of a line of /proc/PID/FILE (status in kB, io in bytes); 0 if there is none.
func Status(pid int, file, name string) float64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			v, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				return 0
			}
			return v
		}
	}
	return 0
}

// Resident returns the resident memory of a process in bytes.
func Resident(pid int) float64 { return 1024 * Status(pid, "status", "VmRSS:") }

// BytesOf returns the size of the files of a directory, without the space held in reserve.
func BytesOf(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was removed meanwhile
		}
		if err != nil || d.IsDir() || d.Name() == "ballast" {
			return err
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n, err
}

// Quantile returns a quantile of durations in milliseconds as text.
func Quantile(d []time.Duration, q float64) string {
	if len(d) == 0 {
		return "-"
	}
	d = slices.Sorted(slices.Values(d))
	return fmt.Sprintf("%.1f ms", MS(d[min(int(q*float64(len(d))), len(d)-1)]))
}

// MS returns a duration in milliseconds.
func MS(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// Load returns the load of the machine over the last minute.
func Load() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	first, _, _ := strings.Cut(string(raw), " ")
	return first
}

// Machine describes the machine without naming it.
func Machine() string {
	model, kernel := runtime.GOARCH, "?"
	if raw, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(raw)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				model = strings.TrimSpace(v)
				break
			}
		}
	}
	if raw, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel, _, _ = strings.Cut(strings.TrimSpace(string(raw)), "-")
	}
	return fmt.Sprintf("%d cores of %s, kernel %s, load %s", runtime.NumCPU(), model, kernel, Load())
}

// Pause waits, or returns the error of ctx.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Get returns the body of a page; into is decoded from its JSON unless it is nil.
func Get(ctx context.Context, url string, into any) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4, application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s: %s: %s", url, resp.Status, FirstLine(body))
	}
	if into != nil {
		return body, json.Unmarshal(body, into)
	}
	return body, nil
}

// FirstLine returns the first line of an output, of at most 200 bytes, because the other lines are often a stack trace.
func FirstLine(out []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(out), []byte("\n"))
	return string(line[:min(len(line), 200)])
}
