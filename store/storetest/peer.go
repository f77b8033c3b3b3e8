package storetest

import (
	"bytes"
	"database/sql"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Peer starts a third-party server on a free port and returns its address. It waits until the path ready responds. If
// the program is not installed, it skips the test.
func Peer(tb testing.TB, program, ready string, args func(addr, dir string) []string) string {
	tb.Helper()
	addr := FreeAddress(tb)
	PeerAt(tb, addr, tb.TempDir(), program, ready, args)
	return addr
}

// PeerAt is Peer at an address and in a directory; stop stops it.
func PeerAt(tb testing.TB, addr, dir, program, ready string, args func(addr, dir string) []string) (stop func()) {
	tb.Helper()
	_, stop = PeerProcess(tb, addr, dir, program, ready, args)
	return stop
}

// PeerProcess is PeerAt for a test that needs the process.
func PeerProcess(tb testing.TB, addr, dir, program, ready string, args func(addr, dir string) []string) (p *os.Process, stop func()) {
	tb.Helper()
	path, err := findProgram(program)
	if err != nil {
		tb.Skipf("%s is not installed; script/setup e2e installs it, or script/peers builds it", program)
	}
	if testing.Short() {
		tb.Skip("starts " + program)
	}
	cmd := exec.Command(path, args(addr, dir)...)
	stop = startCommand(tb, cmd)
	waitUntil(tb, program, func() bool {
		resp, err := http.Get("http://" + addr + ready)
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode/100 == 2
	})
	return cmd.Process, stop
}

// findProgram finds a program in PATH, or in the directory where script/peers installs programs that no distribution has.
func findProgram(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err == nil {
		return path, nil
	}
	dir, wd := "", err
	if dir, wd = os.Getwd(); wd != nil {
		return "", err
	}
	for dir != filepath.Dir(dir) {
		if _, none := os.Stat(filepath.Join(dir, "go.mod")); none == nil {
			return exec.LookPath(filepath.Join(dir, ".tools", program))
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// FreeAddress returns an address of this machine with an unused port.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func startCommand(tb testing.TB, cmd *exec.Cmd) func() {
	tb.Helper()
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	var once sync.Once
	stop := func() {
		once.Do(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	tb.Cleanup(func() {
		stop()
		if tb.Failed() {
			text := log.String()
			tb.Logf("%s said:\n%s", cmd.Path, text[max(0, len(text)-4000):])
		}
	})
	return stop
}

// waitUntil polls until ok returns true, because a server reports no event to wait for.
func waitUntil(tb testing.TB, condition string, ok func() bool) {
	tb.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(2 * time.Minute); time.Now().Before(limit); <-tick.C {
		if ok() {
			return
		}
	}
	tb.Fatalf("%s did not become ready", condition)
}

// PrometheusArgs returns the arguments for a Prometheus that accepts remote write, out of order too.
func PrometheusArgs(tb testing.TB, more ...string) func(addr, dir string) []string {
	return func(addr, dir string) []string {
		file := filepath.Join(dir, "prometheus.yml")
		if err := os.WriteFile(file, []byte("storage: {tsdb: {out_of_order_time_window: 1d}}\n"), 0o600); err != nil {
			tb.Fatal(err)
		}
		return append([]string{"--config.file=" + file, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + addr,
			"--web.enable-remote-write-receiver", "--log.level=warn"}, more...)
	}
}

// Prometheus starts a server and returns its address.
func Prometheus(tb testing.TB, more ...string) string {
	return Peer(tb, "prometheus", "/-/ready", PrometheusArgs(tb, more...))
}

// VictoriaArgs returns the arguments for a VictoriaMetrics.
func VictoriaArgs(addr, dir string) []string {
	return []string{"-storageDataPath=" + dir, "-httpListenAddr=" + addr, "-loggerLevel=WARN", "-memory.allowedPercent=5",
		"-search.latencyOffset=0s", "-retentionPeriod=10y"}
}

// Victoria starts a server and returns its address.
func Victoria(tb testing.TB) string { return Peer(tb, "victoria-metrics", "/health", VictoriaArgs) }

// InfluxArgs returns the arguments for an InfluxDB 1.x.
func InfluxArgs(tb testing.TB) func(addr, dir string) []string {
	return func(addr, dir string) []string {
		file := filepath.Join(dir, "influxdb.conf")
		text := fmt.Sprintf(
			"reporting-disabled = true\nbind-address = %q\n[meta]\ndir = %q\n[data]\ndir = %q\nwal-dir = %q\n[http]\nbind-address = "+
				"%q\nlog-enabled = false\n[monitor]\nstore-enabled = false\n",
			FreeAddress(tb), filepath.Join(dir, "meta"), filepath.Join(dir, "data"), filepath.Join(dir, "wal"), addr)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
		return []string{"-config", file}
	}
}

// Influx starts a server and returns its address.
func Influx(tb testing.TB) string { return Peer(tb, "influxd", "/ping", InfluxArgs(tb)) }

// Influx18 starts an InfluxDB 1.8, which also accepts 2.x requests at /api/v2/write.
func Influx18(tb testing.TB) string { return Peer(tb, "influxd18", "/ping", InfluxArgs(tb)) }

// InfluxDatabase creates a database.
func InfluxDatabase(tb testing.TB, addr, name string) {
	tb.Helper()
	resp, err := http.PostForm("http://"+addr+"/query", url.Values{"q": {"CREATE DATABASE " + name}})
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	if raw, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		tb.Fatalf("make a database: %s", raw)
	}
}

// Postgres starts a PostgreSQL server. fresh creates an empty database and returns its address. restart restarts the
// server, and stop stops it. driver is the name of a registered database driver.
func Postgres(tb testing.TB, driver string) (fresh func(testing.TB) string, restart func() (stop func())) {
	tb.Helper()
	bin := postgresBin()
	if bin == "" {
		tb.Skip("PostgreSQL is not installed; script/setup e2e installs it")
	}
	if testing.Short() {
		tb.Skip("starts PostgreSQL")
	}
	dir, err := os.MkdirTemp("", "reckon-pg-") // the path of a socket must be short
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	as := postgresUser(tb, dir)
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", filepath.Join(dir, "data"), "-U", "reckon", "-A", "trust", "-E", "UTF8",
		"--no-locale", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = as, dir
	if out, err := initdb.CombinedOutput(); err != nil {
		tb.Fatalf("initdb: %v\n%s", err, out)
	}
	addr := FreeAddress(tb)
	_, port, _ := net.SplitHostPort(addr)
	dsn := func(db string) string { return "postgres://reckon@" + addr + "/" + db + "?sslmode=disable" }
	restart = func() func() {
		cmd := exec.Command(filepath.Join(bin, "postgres"), "-D", filepath.Join(dir, "data"), "-p", port, "-c",
			"listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "shared_buffers=32MB", "-c", "max_connections=50")
		cmd.SysProcAttr, cmd.Dir = as, dir
		stop := startCommand(tb, cmd)
		db, err := sql.Open(driver, dsn("postgres"))
		if err != nil {
			tb.Fatal(err)
		}
		defer db.Close()
		waitUntil(tb, "PostgreSQL", func() bool { return db.PingContext(tb.Context()) == nil })
		return stop
	}
	n := 0
	return func(tb testing.TB) string {
		tb.Helper()
		db, err := sql.Open(driver, dsn("postgres"))
		if err != nil {
			tb.Fatal(err)
		}
		defer db.Close()
		n++
		name := "c" + strconv.Itoa(n)
		if _, err := db.ExecContext(tb.Context(), "CREATE DATABASE "+name); err != nil {
			tb.Fatal(err)
		}
		return dsn(name)
	}, restart
}

func postgresBin() string {
	if path, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(real)
		}
	}
	list, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(list) == 0 {
		return ""
	}
	slices.Sort(list)
	return filepath.Dir(list[len(list)-1])
}

// postgresUser drops root: PostgreSQL refuses to run as root.
func postgresUser(tb testing.TB, dir string) *syscall.SysProcAttr {
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		tb.Skip("PostgreSQL does not run as root, and there is no user to run it as")
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err1 != nil || err2 != nil {
		tb.Fatal(err1, err2)
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		tb.Fatal(err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

// Forward returns a proxy to the server at addr. It forwards each request as a whole, so that a handler around it can
// change or drop requests.
func Forward(addr string) http.Handler {
	own := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		req, err := http.NewRequest(r.Method, "http://"+addr+r.URL.RequestURI(), bytes.NewReader(body))
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		req.Header = r.Header.Clone()
		resp, err := own.Do(req)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		maps.Copy(w.Header(), resp.Header)
		w.WriteHeader(resp.StatusCode)
		_, _ = w.Write(answer)
	})
}
