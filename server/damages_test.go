package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"reckon/access"
	"reckon/access/auth"
	"reckon/agent"
	"reckon/store/storetest"
)

// TestRandomDamageOfAServer changes one file of a stopped server at random: of the series, their
// log, the catalogue, the users, the accounts. It starts, or refuses with the name of the file;
// what it is asked for is answered, no figure is another one, and gaps are reported.
// `make damage` tries two hundred.
func TestRandomDamageOfAServer(t *testing.T) { randomDamageOfAServer(t, false) }

// TestRandomDamageOfAKilledServer does the same to the files that a killed server leaves.
func TestRandomDamageOfAKilledServer(t *testing.T) { randomDamageOfAServer(t, true) }

func randomDamageOfAServer(t *testing.T, killed bool) {
	t.Helper()
	whole := t.TempDir()
	withBlock(t, whole)
	for _, gone := range []string{"copy", "series/wal", "series/wbl", "series/chunks_head", "series/logs.json"} { // samples of the block are in no log
		must(t, os.RemoveAll(filepath.Join(whole, gone)))
	}
	_, stop := start(t, whole)
	stop()
	users, err := auth.Open(whole, auth.Options{Fast: true})
	must(t, err)
	must(t, users.AddUser(t.Context(), auth.User{Name: "alice", Role: access.Admin}, "long enough it is"))
	must(t, users.Close())
	to := time.Now()
	want, _, refused := answersOf(t, whole, false, to, answers{})
	if refused != nil || len(want.samples) < 10 || len(want.workloads) == 0 {
		t.Fatalf("%d samples, %d workloads, %v", len(want.samples), len(want.workloads), refused)
	}
	if killed {
		_, stop := start(t, whole)
		left := filepath.Join(t.TempDir(), "data")
		if out, err := exec.Command("cp", "-a", whole, left).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		stop()
		whole = left
	}
	noticed, harmless := 0, 0
	for seed := range storetest.Damages(t, os.Getenv(storetest.DamagesVariable), 6) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if out, err := exec.Command("cp", "-a", whole, dir).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			d := storetest.DamageRandomFile(t, dir, seed)
			got, log, refused := answersOf(t, dir, d.File == "agent.state", to, want)
			name := strings.SplitN(d.File, "/", 3)
			file := name[min(1, len(name)-1)]
			if refused != nil {
				noticed++
				if !strings.Contains(refused.Error(), name[0]) {
					t.Errorf("%s: refused without the file: %v", d, refused)
				}
				t.Logf("%s: refused: %v", d, refused)
				return
			}
			reported := strings.Contains(log, file)
			missing := 0
			for key, v := range want.samples {
				if now, ok := got.samples[key]; !ok {
					missing++
				} else if now != v {
					t.Errorf("%s: %s is %s and was %s", d, key, now, v)
				}
			}
			if missing > 0 && !(reported && got.warned) {
				t.Errorf("%s: %d of %d samples are missing; reported in the log %v, in the answer %v:\n%s", d, missing, len(want.samples), reported, got.warned, log)
			}
			lost := got.lack(want)
			if lost > 0 {
				t.Errorf("%s: %d of %d workloads do not come back:\n%s", d, lost, len(want.workloads), log)
			}
			switch {
			case reported:
				noticed++
			case d.Harmless() != "", strings.HasSuffix(file, "-wal") && strings.HasPrefix(d.What, "cut"):
				harmless++ // a log that is cut off is that of a process killed while it wrote: it ends earlier, and nothing shows that
			default:
				t.Errorf("%s: nobody is notified:\n%s", d, log)
			}
			t.Logf("%s: %d samples and %d workloads missing, reported %v", d, missing, lost, reported)
		})
	}
	t.Logf("%d noticed, %d without a consequence", noticed, harmless)
}

// answers are the answers of a server about the time before.
type answers struct {
	samples   map[string]string // by series and time
	workloads map[string]bool
	warned    bool // PromQL stated that something is missing
}

// lack is the number of workloads that are in want and not in a.
func (a answers) lack(want answers) (n int) {
	for id := range want.workloads {
		if !a.workloads[id] {
			n++
		}
	}
	return n
}

// answersOf starts a server and asks it, or returns why it refuses to start.
func answersOf(t *testing.T, data string, measure bool, to time.Time, want answers) (a answers, log string, refused error) {
	t.Helper()
	var buf lockedBytes
	c := Config{Listen: "127.0.0.1:0", Data: data, Logger: slog.New(slog.NewTextHandler(&buf, nil))}
	if measure {
		c.Agent = &agent.Config{Node: "n1", Source: "procfs", Tick: 100 * time.Millisecond, Export: 300 * time.Millisecond}
	}
	savedAt := func() (at time.Time) {
		if st, err := os.Stat(filepath.Join(data, "agent.state")); err == nil {
			at = st.ModTime()
		}
		return at
	}
	before := savedAt()
	s, err := Open(t.Context(), c)
	if err != nil {
		return a, "", err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	ask := func(path string) []byte {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); ; {
			resp, err := s.InProcessClient().Get("http://server" + path)
			must(t, err)
			body, err := io.ReadAll(resp.Body)
			must(t, errors.Join(err, resp.Body.Close()))
			if resp.StatusCode == http.StatusOK {
				return body
			}
			if time.Now().After(deadline) {
				t.Fatalf("it is mute: %s: %s %.300s\n%s", path, resp.Status, body, buf.String())
			}
			<-time.After(50 * time.Millisecond)
		}
	}
	var found struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any
			}
		}
		Warnings []string
	}
	q := url.Values{"query": {`{__name__=~"reckon_workload_cpu_seconds_total|node_cpu_seconds_total"}[1h]`}, "time": {fmt.Sprintf("%.3f", float64(to.UnixMilli())/1000)}}
	must(t, json.Unmarshal(ask("/api/v1/query?"+q.Encode()), &found))
	a = answers{samples: map[string]string{}, workloads: map[string]bool{}, warned: len(found.Warnings) > 0}
	for _, r := range found.Data.Result {
		for _, v := range r.Values {
			a.samples[fmt.Sprint(r.Metric, v[0])] = fmt.Sprint(v[1])
		}
	}
	for deadline := time.Now().Add(2 * time.Minute); ; { // a catalogue that was lost is built again
		var list struct {
			Workloads []struct{ ID string }
			Missing   []string
		}
		must(t, json.Unmarshal(ask("/api/reckon/v1/workloads?limit=10000"), &list))
		for _, w := range list.Workloads {
			a.workloads[w.ID] = true
		}
		lost := a.lack(want)
		if lost > 0 && len(list.Missing) == 0 && !s.caughtUp.Load() {
			t.Errorf("%d of %d workloads are missing in a list that says nothing of it", lost, len(want.workloads))
		}
		if lost == 0 && len(list.Workloads) > 0 || time.Now().After(deadline) {
			break
		}
		<-time.After(20 * time.Millisecond)
	}
	ask("/api/reckon/v1/usage")
	for deadline := time.Now().Add(time.Minute); measure && savedAt().Equal(before) && time.Now().Before(deadline); {
		<-time.After(20 * time.Millisecond) // the agent of a busy machine has not read its accounts yet
	}
	return a, buf.String(), nil
}

type lockedBytes struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBytes) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBytes) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
