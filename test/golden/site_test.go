package golden

import (
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
	s.checkAll(m)
	s.checkAccess()
	s.importAgain()
	checkStill(t, "jobs-after-imports", "jobs", s.ask(jobsQuestion(m).args...))
	s.changeFindings()
	s.stop()

	// What was there is there when the new program has written, too.
	s = serve(t, dir, filepath.Join(dir, "site"))
	defer s.stop()
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
	for _, q := range questions(m) {
		if q.name == "jobs" || q.name == "usage-owner" || q.name == "usage-years" || q.name == "findings-all" {
			check(t, "rebuilt-"+q.name, s.ask(q.args...))
		}
	}
	s.importAgain()
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
			t.Errorf("%s can not sign in any more: %d", name, status)
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

// imported is what an import says of itself.
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
