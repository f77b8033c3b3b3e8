package redfish

import (
	"context"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"reckon/sensor"
	"reckon/sensor/sensortest"
)

// bmc responds like a controller; the documents are constructed after the schemas
// Chassis, Power and EnvironmentMetrics of DMTF.
type bmc struct {
	*httptest.Server
	power   atomic.Value // body of Power
	chassis atomic.Value // names of the chassis
	asked   atomic.Int64
}

const secret = "correct horse"

func newBMC(t testing.TB) *bmc {
	b := new(bmc)
	b.power.Store(`{"PowerControl":[{"PowerConsumedWatts":344.5},{"PowerConsumedWatts":12}]}`)
	b.chassis.Store("Drives Self New Bad")
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.asked.Add(1)
		if u, p, _ := r.BasicAuth(); u != "reader" || p != secret {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		switch r.URL.Path {
		case "/redfish/v1/Chassis":
			var members []string
			for _, name := range strings.Fields(b.chassis.Load().(string)) {
				members = append(members, `{"@odata.id":"/redfish/v1/Chassis/`+name+`"}`)
			}
			fmt.Fprintf(w, `{"Members":[%s]}`, strings.Join(members, ","))
		case "/redfish/v1/Chassis/Drives":
			fmt.Fprint(w, `{}`)
		case "/redfish/v1/Chassis/Self":
			fmt.Fprint(w, `{"Power":{"@odata.id":"/redfish/v1/Chassis/Self/Power"}}`)
		case "/redfish/v1/Chassis/Self/Power":
			fmt.Fprint(w, b.power.Load())
		case "/redfish/v1/Chassis/New":
			fmt.Fprint(
				w, `{"EnvironmentMetrics":{"@odata.id":"/redfish/v1/Chassis/New/Env"},`+
					`"Power":{"@odata.id":"/redfish/v1/Chassis/Self/Power"}}`)
		case "/redfish/v1/Chassis/New/Env":
			fmt.Fprint(w, `{"PowerWatts":{"Reading":200}}`)
		case "/redfish/v1/Chassis/Bad":
			fmt.Fprint(w, `{"Power":{"@odata.id":"http://elsewhere/redfish/v1"}}`)
		default:
			http.Redirect(w, r, "https://elsewhere.example/", http.StatusFound)
		}
	}))
	b.Config.ErrorLog = nil
	b.StartTLS()
	t.Cleanup(b.Close)
	return b
}

// config writes the files of a configuration and returns its path.
func (b *bmc) config(t testing.TB, credentials, more string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c := write("credentials", credentials+"\n")
	ca := write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.Certificate().Raw})))
	if more == "" {
		more = "ca_file: " + ca
	}
	return write("redfish.yaml", "controllers:\n- url: "+b.URL+"\n  credentials_file: "+c+"\n  "+strings.ReplaceAll(more, "\n", "\n  ")+
		"\n")
}

func (b *bmc) pin() string {
	return fmt.Sprintf("certificate_sha256: %x", sha256.Sum256(b.Certificate().Raw))
}

func ask(t *testing.T, s *Sensor) ([]sensor.Meter, error) {
	t.Helper()
	_ = s.controllers[0].poll(context.Background())
	return s.ReadMeters(nil)
}

func TestPower(t *testing.T) {
	b := newBMC(t)
	for more, want := range map[string]float64{b.pin() + "\nchassis: New": 200, b.pin() + "\nchassis: Self": 344.5} {
		s, err := openConfig(b.config(t, "reader:"+secret, more))
		if err != nil {
			t.Fatal(err)
		}
		if m, err := s.ReadMeters(nil); err != nil || len(m) != 0 {
			t.Errorf("before the first answer: %v, %v", m, err)
		}
		m, err := ask(t, s)
		if err != nil || len(m) != 1 || m[0].Watts != want || m[0].Domain != sensor.DomainBoard {
			t.Errorf("%q: %v, %v, want %v W", more, m, err, want)
		}
		asked := b.asked.Load()
		if _, err := ask(t, s); err != nil || b.asked.Load() != asked+1 {
			t.Errorf("the second time took %d requests, %v", b.asked.Load()-asked, err)
		}
		if n := testing.AllocsPerRun(20, func() { m, _ = s.ReadMeters(m[:0]) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
		s.now = func() time.Time { return time.Now().Add(4 * s.controllers[0].interval) }
		if m, err := s.ReadMeters(nil); err == nil || len(m) != 0 {
			t.Errorf("a controller that is silent: %v, %v", m, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// One of several chassis may contain another, so none is read and none added unless it is configured.
func TestSeveralChassis(t *testing.T) {
	b := newBMC(t)
	one := b.config(t, "reader:"+secret, b.pin())
	b.chassis.Store("Drives Self New")
	s, err := openConfig(one)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := ask(t, s); err == nil || len(m) != 0 || !strings.Contains(err.Error(), "Self (344 W), New (200 W)") {
		t.Errorf("two chassis: %v, %v", m, err)
	}
	b.chassis.Store("Drives Self")
	if m, err := ask(t, s); err != nil || len(m) != 1 || m[0].Watts != 344.5 {
		t.Errorf("one chassis: %v, %v", m, err)
	}
}

func TestBadAnswers(t *testing.T) {
	b := newBMC(t)
	for body, want := range map[string]string{
		`{"PowerControl":[{"PowerConsumedWatts":0}]}`:                   "a machine that runs is 0, which is not possible",
		`{"PowerControl":[{"PowerConsumedWatts":null}]}`:                "no chassis",
		`{"PowerControl":[]}`:                                           "no chassis",
		`{"PowerControl":[{"PowerConsumedWatts":9223372036854775794}]}`: "at most 100000 is possible",
		`<html>`: "invalid character",
	} {
		b.power.Store(body)
		s, err := openConfig(b.config(t, "reader:"+secret, b.pin()+"\nchassis: Self"))
		if err != nil {
			t.Fatal(err)
		}
		m, err := ask(t, s)
		if want == "no chassis" {
			want = "has no power"
		}
		if err == nil || len(m) != 0 || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", body, m, err, want)
		}
	}
	s, err := openConfig(b.config(t, "reader:"+secret, b.pin()+"\nchassis: Bad"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t, s); err == nil || !strings.Contains(err.Error(), "no resource of its own") {
		t.Errorf("a link that leads away: %v", err)
	}
}

// An untrusted controller gets no credentials, and no error contains them.
func TestTrust(t *testing.T) {
	b := newBMC(t)
	for name, c := range map[string]struct{ credentials, more, want string }{
		"wrong sum":      {"reader:" + secret, "certificate_sha256: " + strings.Repeat("ab", 32), "SHA-256 sum"},
		"no authority":   {"reader:" + secret, "interval: 30s", "certificate"},
		"wrong password": {"reader:guess", b.pin(), "refuses the credentials"},
	} {
		asked := b.asked.Load()
		s, err := openConfig(b.config(t, c.credentials, c.more))
		if err != nil {
			t.Fatal(err)
		}
		_, err = ask(t, s)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), secret) ||
			strings.Contains(err.Error(), "guess") {
			t.Errorf("%s: %v, want %q and no password", name, err, c.want)
		}
		if name != "wrong password" && b.asked.Load() != asked {
			t.Errorf("%s: the request was sent", name)
		}
		ctl := s.controllers[0]
		if name == "wrong password" && ctl.retryDelay(ctl.failure, 1) != credentialsPause {
			t.Error("an account that is refused is tried again at once")
		}
	}
	c := &controller{interval: 30 * time.Second}
	fast, slow := &controller{interval: 5 * time.Second}, &controller{interval: time.Minute}
	if c.retryDelay(nil, 0) != 30*time.Second || c.retryDelay(errors.New("x"), 99) != maxFailurePause ||
		fast.retryDelay(errors.New("x"), 1) != 10*time.Second ||
		fast.retryDelay(errors.New("x"), 99) != maxFailurePause || slow.retryDelay(errors.New("x"), 99) != time.Minute {
		t.Error("a controller that failed is asked again after 30 s, or its own interval")
	}
}

func TestConfig(t *testing.T) {
	const ok = "controllers:\n- url: https://bmc\n  credentials_file: x\n"
	for text, want := range map[string]string{
		"":                                 "no controllers",
		"controllers: []":                  "no controllers",
		ok + "  pasword: y\n":              "pasword",
		ok + "  interval: 1s\n":            "interval",
		ok + "  interval: 1h\n":            "interval",
		ok + "  certificate_sha256: abc\n": "64 hex",
		ok + "  ca_file: a\n  certificate_sha256: " + strings.Repeat("ab", 32) + "\n": "not both",
		"controllers:\n- url: http://bmc\n  credentials_file: x\n":                    "https",
		"controllers:\n- url: https://u:p@bmc\n  credentials_file: x\n":               "credentials_file",
		"controllers:\n- url: https://bmc\n":                                          "credentials_file",
		ok + "- url: https://bmc/\n  credentials_file: x\n":                           "twice",
	} {
		if _, err := parseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := New(""); !errors.Is(err, sensor.ErrUnavailable) {
		t.Errorf("without a file: %v", err)
	}
	b := newBMC(t)
	file := b.config(t, "reader:"+secret, b.pin())
	if err := os.Chmod(filepath.Join(filepath.Dir(file), "credentials"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := New(file); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("credentials that all may read: %v", err)
	}
}

func TestConformance(t *testing.T) {
	b := newBMC(t)
	file := b.config(t, "reader:"+secret, b.pin()+"\nchassis: New") // one that answers: when an answer has come is not known here
	sensortest.Run(t, func(t *testing.T) sensor.Sensor {
		s, err := New(file)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}, sensortest.Options{Quiet: true, Allocs: 1000}) // its own goroutine polls meanwhile; ReadMeters is limited to 0 above
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte("controllers:\n- url: https://bmc\n  credentials_file: x\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		targets, err := parseConfig(text)
		for _, c := range targets {
			if err == nil && (!strings.HasPrefix(c.URL, "https://") || c.Interval < minInterval || c.Credentials == "") {
				t.Fatalf("%q gave %+v", text, c)
			}
		}
	})
}
