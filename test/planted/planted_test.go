package planted

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"reckon/store/storetest"
)

// site is a server that has the planted site.
type site struct {
	t    *testing.T
	dir  string
	base string
	bin  string
}

func (s *site) env() []string {
	return append(os.Environ(), "TZ=UTC", "LC_ALL=C", "XDG_CONFIG_HOME="+filepath.Join(s.dir, "config"), "RECKON_SERVER="+s.base, "COLUMNS=400")
}

// serve builds the program, starts it over the data and waits until it has looked for forecasts and anomalies.
func serve(t *testing.T, p *plan) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), bin: os.Getenv("RECKON_PROGRAM")}
	if s.bin == "" {
		s.bin = filepath.Join(s.dir, "reckon")
		if out, err := exec.Command("go", "build", "-o", s.bin, "reckon/cmd/reckon").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	data := filepath.Join(s.dir, "data")
	check(t, os.MkdirAll(data, 0o750))
	f := p.fill(t, data)
	addr := storetest.FreeAddress(t)
	s.base = "http://" + addr
	cmd := exec.Command(s.bin, "serve", "--listen", addr, "--data", data)
	cmd.Env = s.env()
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	check(t, cmd.Start())
	ctx, cancel := context.WithCancel(context.Background())
	var live sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		live.Wait()
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	s.until("it is ready", func() bool { status, _ := s.get("/readyz"); return status == http.StatusOK })
	live.Go(func() { f.live(ctx, s.base, filepath.Join(s.dir, "queues")) })
	s.until("it has looked for anomalies", func() bool { return !strings.Contains(s.ask("anomalies"), "Not checked yet") })
	s.until("it has fitted curves of power", func() bool { return strings.Contains(s.ask("rank", "--cores", "1", "--explain"), "fitted") })
	return s
}

func (s *site) until(what string, ok func() bool) {
	s.t.Helper()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for limit := time.Now().Add(3 * time.Minute); time.Now().Before(limit); <-tick.C {
		if ok() {
			return
		}
	}
	s.t.Fatalf("it did not come about that %s", what)
}

func (s *site) get(path string) (int, string) {
	resp, err := http.Get(s.base + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// ask runs a command of reckon and returns all that it printed.
func (s *site) ask(args ...string) string {
	cmd := exec.Command(s.bin, args...)
	cmd.Env = s.env()
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// listAge is the age of a list of nodes, which a busy machine reads again in the background.
var listAge = regexp.MustCompile(`(?m)^The list of nodes was read .* ago\.$`)

// TestPlanted: what commands, API and pages show of the planted site is what was planted. All sentences of the list are shown.
func TestPlanted(t *testing.T) {
	const takes = 3 * time.Minute // at most; no hour may end meanwhile, nor begin just before: the back-test has a day less then
	if now := time.Now(); now.Add(takes).Truncate(time.Hour).After(now.Add(-takes)) {
		<-time.After(now.Add(takes).Truncate(time.Hour).Add(takes).Sub(now))
	}
	p := newPlan(time.Now().UTC().Truncate(time.Second))
	s := serve(t, p)
	of := p.quantities()
	ids := strings.NewReplacer("SIM", jobID(p.last("sim")), "TRAIN", jobID(p.last("train")))
	order, by := sections()
	for _, command := range order {
		text := listAge.ReplaceAllString(s.ask(strings.Fields(ids.Replace(command))...), "")
		if wrong := judge(text, by[command], of); len(wrong) > 0 {
			t.Errorf("reckon %s:\n%s\n%s", command, strings.Join(wrong, "\n"), text)
		}
	}
	s.checkForecasts(t, p)
	s.checkPages(t, p)
}

// jobID is the number of a job.
func jobID(j *plantedJob) string { return strconv.FormatUint(j.id, 10) }
