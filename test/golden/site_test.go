package golden

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSite opens the data directory of an earlier program, asks what that program was asked,
// does the imports again, and changes findings as before.
func TestSite(t *testing.T) {
	dir, m := unpack(t)
	s := serve(t, dir, filepath.Join(dir, "site"))
	s.settle()
	s.checkAll(m)
	s.checkAccess()
	s.importAgain()
	checkStill(t, "jobs-after-imports", "jobs", s.ask(jobsQuestion(m).args...))
	s.changeFindings()
	s.stop()

	// What was there is there when the new program has written, too.
	s = serve(t, dir, filepath.Join(dir, "site"))
	defer s.stop()
	s.settle()
	checkStill(t, "jobs-after-restart", "jobs", s.ask(jobsQuestion(m).args...))
}

// TestRebuilt builds the catalogue anew from the old series. The earlier program did not come
// to quite the same that way: its answers are kept apart.
func TestRebuilt(t *testing.T) {
	dir, m := unpack(t)
	data := filepath.Join(dir, "site")
	offline(t, dir, "catalogue", "rebuild", "--data", data)
	s := serve(t, dir, data)
	defer s.stop()
	s.settle()
	for _, q := range questions(m) {
		switch q.name {
		case "jobs", "findings-all", "usage-owner":
			check(t, "rebuilt-"+q.name, s.ask(q.args...))
		case "usage-years":
			usage := s.ask(q.args...)
			check(t, "rebuilt-"+q.name, usage)
			s.checkCounted(m, usage)
		}
	}
	s.importAgain()
}

// checkCounted holds that the CPU time of each owner of the site is what the counters of the agents counted from the first look on.
func (s *site) checkCounted(m manifest, usage string) {
	t := s.t
	t.Helper()
	query := func(expr string) map[string]float64 {
		out := map[string]float64{}
		for _, x := range decode[struct {
			Series []struct {
				Metric  struct{ Owner string }
				Samples []struct {
					Value float64 `json:",string"`
				}
			}
		}](t, s.ask("query", "--format", "json", "--at", m.To, expr)).Series {
			out[x.Metric.Owner] = x.Samples[len(x.Samples)-1].Value
		}
		return out
	}
	const counter = `reckon_workload_cpu_seconds_total{site="golden"}`
	first := query(`min(min_over_time(timestamp(node_boot_time_seconds{site="golden"})[40h:1m]))`)[""]
	before, all := query(fmt.Sprintf("sum by (owner) (%s @ %f)", counter, first)), query("sum by (owner) (last_over_time("+counter+"[40h]))")
	if len(all) < 5 || len(before) < 3 {
		t.Fatalf("%d owners, %d at the first look", len(all), len(before))
	}
	got := map[string]float64{}
	for _, r := range decode[struct {
		Rows []struct {
			Site, Owner string
			CPU         float64 `json:"cpu_seconds"`
		}
	}](t, usage).Rows {
		if r.Site == "golden" {
			got[r.Owner] += r.CPU
		}
	}
	for owner, v := range all {
		if want := v - before[owner]; math.Abs(got[owner]-want) > 1e-6*max(want, 1) {
			t.Errorf("%s used %.3f s of CPU time by usage, %.3f s by the counters", owner, got[owner], want)
		}
	}
}

// checkAccess: users, passwords and tokens of before hold, what was revoked stays so.
func (s *site) checkAccess() {
	t := s.t
	t.Helper()
	for token, want := range map[string]string{
		"admin.token": `{"name":"script","owners":["script"],"role":"admin"}`,
		"farid.token": `{"name":"farid","owners":["farid"],"role":"user"}`,
	} {
		status, body := s.get("/auth/me", token)
		if status != http.StatusOK || strings.TrimSpace(body) != want {
			t.Errorf("%s: %d %s, want %s", token, status, body, want)
		}
	}
	for _, token := range []string{"revoked.token", "agent.token", ""} { // one that sends sees nothing
		if status, body := s.get("/api/reckon/v1/workloads", token); status != http.StatusUnauthorized && status != http.StatusForbidden {
			t.Errorf("token %q may see workloads: %d %.100s", token, status, body)
		}
	}
	if status, body := s.get("/api/v1/write", "agent.token"); status == http.StatusUnauthorized {
		t.Errorf("the token of an agent is not known any more: %d %s", status, body)
	}
	for name, role := range map[string]string{"root": "admin", "sue": "support", "farid": "user", "carol": "user"} {
		password, err := os.ReadFile(filepath.Join(s.dir, "secrets", name+".password"))
		if err != nil {
			t.Fatal(err)
		}
		if status, _ := s.login(name, "not "+string(password)); status != http.StatusUnauthorized {
			t.Errorf("%s with a wrong password: %d", name, status)
		}
		status, cookies := s.login(name, string(password))
		if status != http.StatusSeeOther || len(cookies) == 0 {
			t.Errorf("%s cannot sign in any more: %d", name, status)
			continue
		}
		req, err := http.NewRequest(http.MethodGet, "http://"+s.addr+"/auth/me", nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cookies {
			req.AddCookie(c)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		me := decodeBody(t, resp)
		if me["role"] != role || me["name"] != name {
			t.Errorf("%s is %v now", name, me)
		}
		if owners, _ := me["owners"].([]any); name == "carol" && len(owners) != 2 {
			t.Errorf("carol sees the work of %v, not of carol and alice", owners)
		}
	}
	password, err := os.ReadFile(filepath.Join(s.dir, "secrets/left.password"))
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := s.login("left", string(password)); status != http.StatusUnauthorized {
		t.Errorf("who was removed signs in again: %d", status)
	}
	own := *s
	own.token = filepath.Join(s.dir, "secrets/farid.token")
	rows := check(t, "jobs-of-farid", own.ask("jobs", "--since", "2000-01-01", "--sort", "start", "--format", "json")).([]any)
	if len(rows) == 0 {
		t.Error("farid sees no work")
	}
	for _, row := range rows {
		if owner := row.(map[string]any)["owner"]; owner != "farid" {
			t.Errorf("farid sees work of %v", owner)
		}
	}
}

// imports lists the imports that the data were made with, as arguments of reckon.
func imports(t *testing.T, dir string) (list [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "imports.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		list = append(list, strings.Fields(line))
	}
	return list
}

// imported is the report of an import about itself.
type imported struct {
	Records, Taken, Known, Samples int
	Resumed                        bool
}

// importAgain: the same input adds nothing, one that has grown what it grew by.
func (s *site) importAgain() {
	t := s.t
	t.Helper()
	for _, args := range imports(t, s.dir) {
		r := decode[imported](t, s.ask(append(args, "--format", "json")...))
		if r.Taken != 0 || r.Samples != 0 || r.Known == 0 {
			t.Errorf("reckon %s a second time: %+v, want all of it known and no sample", strings.Join(args, " "), r)
		}
	}
}

// changeFindings: what the earlier program muted and acknowledged can be changed, and what
// was not is muted as before.
func (s *site) changeFindings() {
	t := s.t
	t.Helper()
	type finding struct {
		ID         string
		State      string
		MuteReason string `json:"mute_reason"`
		AckBy      string `json:"acknowledged_by"`
	}
	list := func(more ...string) map[string]finding {
		out := map[string]finding{}
		for _, f := range decode[[]finding](t, s.ask(append([]string{"findings", "--limit", "10000", "--format", "json"}, more...)...)) {
			out[f.ID] = f
		}
		return out
	}
	shown, all := list(), list("--all")
	if len(shown) == 0 || len(all) <= len(shown) {
		t.Fatalf("%d findings are shown, of %d", len(shown), len(all))
	}
	for id, f := range all {
		if _, ok := shown[id]; ok {
			continue
		}
		if f.MuteReason == "" && f.State != "gone" {
			t.Errorf("finding %s (%+v) is not shown, and nobody muted it", id, f)
		}
		if f.State == "gone" {
			continue
		}
		s.ask("findings", "mute", id, "--reason", "no longer", "--until", "2020-01-01") // ends it
		if now := list(); now[id].ID != id {
			t.Errorf("finding %s is still muted", id)
		}
		break
	}
	for id, f := range shown {
		if f.AckBy == "" {
			s.ask("findings", "ack", id)
			s.ask("findings", "mute", id, "--reason", "a new one", "--until", "2199-01-01")
			if now := list("--all")[id]; now.AckBy == "" || now.MuteReason != "a new one" {
				t.Errorf("finding %s was acknowledged and muted: %+v", id, now)
			}
			break
		}
	}
}
