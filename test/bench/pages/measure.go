package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// serve starts the program and returns its address, its process and what ends it.
func serve(ctx context.Context, o options, with bool) (base string, pid int, stop func() error, err error) {
	args := []string{"serve", "--data", o.dir, "--listen", "127.0.0.1:0"}
	if !with {
		args = append(args, "--set", "retention-hourly=0")
	}
	cmd := exec.CommandContext(ctx, o.bin, args...)
	cmd.Stderr = os.Stderr
	said, err := cmd.StdoutPipe()
	if err != nil {
		return "", 0, nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", 0, nil, fmt.Errorf("%w; make build makes it, -bin names another", err)
	}
	stop = func() error {
		return errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
	}
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if at := regexp.MustCompile(`http://[0-9.]+:[0-9]+`).FindString(lines.Text()); at != "" {
			go func() { _, _ = io.Copy(io.Discard, said) }()
			return at, cmd.Process.Pid, stop, nil
		}
	}
	return "", 0, nil, errors.Join(errors.New("the server ended before it said where it listens"), stop())
}

// question is one that the page of a node asks.
type question struct {
	name, text string
	instant    bool
	path       string // not PromQL, but this
}

// questions are those of web/ui/src/pages/node.tsx for a span, in seconds, and its step.
func questions(node string, span, step int) []question {
	sel, r, w := fmt.Sprintf("node=%q", node), fmt.Sprintf("[%ds]", step), fmt.Sprintf("[%ds]", span)
	list := []question{
		{"who used most", "topk(9, sum by (workload) (rate(reckon_workload_cpu_seconds_total{" + sel + "}" + w + ")))", true, ""},
		{"cores of all workloads", "sum(rate(reckon_workload_cpu_seconds_total{" + sel + "}" + r + "))", false, ""},
		{"cores of the node", "sum(rate(node_cpu_seconds_total{" + sel + `,mode!~"idle|iowait"}` + r + "))", false, ""},
		{"number of cores", "count(node_cpu_seconds_total{" + sel + `,mode="idle"})`, false, ""},
		{"pressure", "rate(node_pressure_cpu_waiting_seconds_total{" + sel + "}" + r + ")", false, ""},
		{"disks", "rate(node_disk_read_bytes_total{" + sel + `,device!~"loop.*|ram.*"}` + r + ") > 0", false, ""},
		{"network", "rate(node_network_receive_bytes_total{" + sel + `,device!="lo"}` + r + ")", false, ""},
		{"power by meter", "rate(reckon_node_energy_joules_total{" + sel + "}" + r + ")", false, ""},
	}
	if step == 86400 { // the page asks the roll-ups then
		end := time.Now().Unix() / 86400 * 86400
		v := url.Values{"by": {"node"}, "node": {node}, "span": {"day"}, "since": {stamp(end - int64(span) - 86400)}, "until": {stamp(end)}}
		list[1].path = "/api/reckon/v1/usage?" + v.Encode()
	}
	return list
}

func stamp(t int64) string { return time.Unix(t, 0).UTC().Format(time.RFC3339) }

func measure(ctx context.Context, o options, with bool, out io.Writer) (err error) {
	base, pid, stop, err := serve(ctx, o, with)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	what := "all samples"
	if with {
		what = "the hours"
	}
	node, err := theNode(ctx, base)
	if err != nil {
		return err
	}
	for _, span := range []struct {
		name          string
		seconds, step int
	}{{"a year", 31536000, 86400}, {"30 days", 2592000, 14400}} {
		fmt.Fprintf(out, "\n%s of one node from %s, one question at a time:\n", span.name, what)
		total, cpu := time.Duration(0), time.Duration(0)
		for _, q := range questions(node, span.seconds, span.step) {
			before, err := used(pid)
			if err != nil {
				return err
			}
			took, n, err := ask(ctx, base, q, span.seconds, span.step, o.rounds)
			if err != nil {
				return err
			}
			after, err := used(pid)
			if err != nil {
				return err
			}
			own := (after - before) / time.Duration(o.rounds)
			total, cpu = total+took, cpu+own
			fmt.Fprintf(out, "  %-24s %8.1f ms, %6.1f ms of CPU time, %d series\n", q.name, ms(took), ms(own), n)
		}
		fmt.Fprintf(out, "  %-24s %8.1f ms, %6.1f ms of CPU time\n", "together", ms(total), ms(cpu))
	}
	return inBrowser(ctx, base, node, what, o.rounds, out)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// used is the CPU time of a process: fields 14 and 15 of proc_pid_stat(5), of 10 ms each.
func used(pid int) (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// theNode is the name of the first node that has samples.
func theNode(ctx context.Context, base string) (string, error) {
	var got struct{ Data []string }
	if err := get(ctx, base+"/api/v1/label/node/values?start=0&end="+strconv.FormatInt(time.Now().Unix(), 10), &got); err != nil {
		return "", err
	}
	if len(got.Data) == 0 {
		return "", errors.New("the store has no node")
	}
	return got.Data[0], nil
}

func ask(ctx context.Context, base string, q question, span, step, rounds int) (median time.Duration, n int, err error) {
	end := time.Now().Unix() / int64(step) * int64(step)
	v := url.Values{"query": {q.text}}
	path := "/api/v1/query?"
	if q.path != "" {
		path = q.path
	} else if q.instant {
		v.Set("time", strconv.FormatInt(end, 10))
	} else {
		path = "/api/v1/query_range?"
		v.Set("start", strconv.FormatInt(end-int64(span), 10))
		v.Set("end", strconv.FormatInt(end, 10))
		v.Set("step", strconv.Itoa(step))
	}
	if q.path == "" {
		path += v.Encode()
	}
	took := make([]time.Duration, rounds)
	for i := range took {
		var got struct {
			Data struct{ Result []json.RawMessage }
		}
		began := time.Now()
		if err := get(ctx, base+path, &got); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", q.name, err)
		}
		took[i], n = time.Since(began), len(got.Data.Result)
	}
	slices.Sort(took)
	return took[rounds/2], n, nil
}

func get(ctx context.Context, address string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(r.Body, 1000))
		return fmt.Errorf("%s: %s", r.Status, strings.TrimSpace(string(text)))
	}
	return json.NewDecoder(r.Body).Decode(into)
}

// inBrowser opens the page in Chromium, where Node and the packages of the pages are.
func inBrowser(ctx context.Context, base, node, what string, rounds int, out io.Writer) error {
	script := filepath.Join("web", "ui", "e2e", "year.mjs")
	if _, err := os.Stat(filepath.Join("web", "ui", "node_modules", "playwright-core")); err != nil {
		fmt.Fprintln(out, "\nThe page was not opened: script/ui build fetches what drives a browser.")
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	fmt.Fprintf(out, "\nThe page in Chromium, from %s:\n", what)
	cmd := exec.CommandContext(ctx, "node", script, base, node, strconv.Itoa(rounds))
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	return cmd.Run()
}
