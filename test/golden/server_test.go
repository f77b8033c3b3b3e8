package golden

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"reckon/store/storetest"
)

// site is a server with the unpacked data.
type site struct {
	t     *testing.T
	dir   string // of what was unpacked
	addr  string
	token string // file
	stop  func()
}

// serve starts `reckon serve` on a data directory, with the configuration that the earlier
// program ran with, and waits until it answers.
func serve(t *testing.T, dir, data string, args ...string) *site {
	t.Helper()
	s := &site{t: t, dir: dir, addr: storetest.FreeAddress(t), token: filepath.Join(dir, "secrets/admin.token")}
	policy := []string{"--set", "policy=" + filepath.Join(dir, "policy.yaml")}
	if *programs != "" { // those that made the data have a flag for it
		policy = []string{"--policy", filepath.Join(dir, "policy.yaml")}
	}
	args = slices.Concat([]string{"serve", "--listen", s.addr, "--data", data, "--config", filepath.Join(dir, "reckon.yaml")}, policy, args)
	s.stop = start(t, exec.Command(program(t, "reckon"), args...))
	eventually(t, "the server is ready", func() bool {
		status, _ := s.get("/readyz", "")
		return status == http.StatusOK
	})
	return s
}

// settle waits until the server has looked at all runs: those that fell silent with the site are not running any more.
func (s *site) settle() {
	s.t.Helper()
	eventually(s.t, "no run goes on", func() bool {
		return !strings.Contains(s.ask("jobs", "--since", "2000-01-01", "--limit", "10000", "--format", "json"), `"running": true`)
	})
}

// start runs a program in the background; stop ends it as an operator does and holds that it
// ended well.
func start(t *testing.T, cmd *exec.Cmd) (stop func()) {
	t.Helper()
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := false
	stop = func() {
		if done {
			return
		}
		done = true
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, log.String())
		}
	}
	t.Cleanup(stop)
	return stop
}

// eventually asks until it is so. The limit is one that only a hang reaches.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(2 * time.Minute); time.Now().Before(limit); <-tick.C {
		if ok() {
			return
		}
	}
	t.Fatalf("it did not come about that %s", what)
}

// get asks over HTTP, with the token of a file.
func (s *site) get(path, tokenFile string) (status int, body string) {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://"+s.addr+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if tokenFile != "" {
		text, err := os.ReadFile(filepath.Join(s.dir, "secrets", tokenFile))
		if err != nil {
			s.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(text)))
	}
	resp, err := http.DefaultClient.Do(req)
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

// login signs in with a form, as a browser does, and returns the status and the cookies.
func (s *site) login(name, password string) (int, []*http.Cookie) {
	s.t.Helper()
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.PostForm("http://"+s.addr+"/auth/login", url.Values{"name": {name}, "password": {password}})
	if err != nil {
		s.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Cookies()
}

// try runs a command of reckon against the server and returns what it printed.
func (s *site) try(args ...string) (string, error) {
	s.t.Helper()
	return reckon(s.t, s.dir, []string{"RECKON_SERVER=http://" + s.addr, "RECKON_TOKEN_FILE=" + s.token}, args...)
}

// ask is try of what must succeed.
func (s *site) ask(args ...string) string {
	s.t.Helper()
	out, err := s.try(args...)
	if err != nil {
		s.t.Fatalf("reckon %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// reckon runs a command that needs no server, in a directory.
func reckon(t *testing.T, dir string, env []string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(program(t, "reckon"), args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "TZ=UTC", "LC_ALL=C", "XDG_CONFIG_HOME="+dir), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out) + stderr.String(), err
	}
	return string(out), nil
}

// offline is reckon without a server that must succeed.
func offline(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := reckon(t, dir, nil, args...)
	if err != nil {
		t.Fatalf("reckon %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}
