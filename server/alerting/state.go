package alerting

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/alertmanager/alert"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

type labelPair = labels.Label

// alertState holds the alert state that survives a kill, in addition to Alertmanager's own files. It consists of active
// alerts, deliveries, and notifications in flight. memory also holds the results of tests, which do not survive.
type alertState struct {
	stateFiles
	resend time.Duration
	log    *slog.Logger

	mu        sync.Mutex
	alerts    map[model.Fingerprint]*alert.Alert
	delivered map[string]lastDelivery         // by receiver, integration and alert
	resolved  map[string]map[uint64]time.Time // by group of a receiver, the alerts with an end that it knows, by Alertmanager's hash
	inFlight  map[string]inFlight             // by group of a receiver
	uncertain map[string]bool                 // groups of a receiver that were in flight when it was opened
	tests     map[string]Delivery
}

// savedState is the content of the file.
type savedState struct {
	Alerts    []*alert.Alert                  `json:"alerts"`
	Delivered map[string]lastDelivery         `json:"told"`
	Resolved  map[string]map[uint64]time.Time `json:"over"`
	InFlight  map[string]inFlight             `json:"trying"`
}

// lastDelivery is the latest delivery of an alert to a receiver. Active alerts are recorded here only for findings,
// because Alertmanager's log has the others.
type lastDelivery struct {
	Starts time.Time `json:"starts"`
	Ended  time.Time `json:"ended,omitzero"`
	// Uncertain: the program was killed before the receiver answered.
	Uncertain bool `json:"maybe,omitempty"`
}

// inFlight is a notification that is on its way.
type inFlight struct {
	Group    string                  `json:"group"`
	Receiver string                  `json:"receiver"`
	Name     string                  `json:"name"`
	Index    int                     `json:"index"`
	Findings map[string]lastDelivery `json:"findings"`
}

func (m *alertState) filePath() string { return filepath.Join(m.dir, "alerts.json") }

func openMemory(kept stateFiles, resend time.Duration, log *slog.Logger) (*alertState, error) {
	m := &alertState{
		stateFiles: kept, uncertain: map[string]bool{}, resend: resend, log: log, alerts: map[model.Fingerprint]*alert.Alert{},
		delivered: map[string]lastDelivery{},
		resolved:  map[string]map[uint64]time.Time{}, inFlight: map[string]inFlight{}, tests: map[string]Delivery{},
	}
	for _, name := range []string{"alerts.json.*", "nflog.*", "silences.*"} { // a kill can leave half-written files
		half, _ := filepath.Glob(filepath.Join(kept.dir, name))
		for _, f := range half {
			_ = os.Remove(f)
		}
	}
	raw, err := os.ReadFile(m.filePath())
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	var s savedState
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		return nil, fmt.Errorf("read the alerts that fire (%s): %w; remove it, and the end of those that have ended is not sent",
			m.filePath(),
			err)
	}
	for _, a := range s.Alerts {
		m.alerts[a.Fingerprint()] = a
	}
	maps.Copy(m.delivered, s.Delivered)
	maps.Copy(m.resolved, s.Resolved)
	maps.Copy(m.inFlight, s.InFlight)
	return m, nil
}

// loadAlerts returns the alerts of the previous run. It extends the end of each alert until its source can report again, so
// that no alert ends only because the server was down.
func (m *alertState) loadAlerts() []*alert.Alert {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	out := make([]*alert.Alert, 0, len(m.alerts))
	for _, a := range m.alerts {
		c := *a
		if isEnded(a) {
			out = append(out, &c)
			continue
		}
		if least := now.Add(4 * m.resend); a.Labels["alertname"] != testName && c.EndsAt.Before(least) {
			c.EndsAt = least
		}
		c.UpdatedAt = now
		out = append(out, &c)
	}
	return out
}

// firedRecently reports whether the alert fires or has fired within a day.
func (m *alertState) firedRecently(fp model.Fingerprint) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.alerts[fp] != nil
}

// isEnded reports whether the source of an alert reported its end. It is false for an alert that only was not reported
// for some time.
func isEnded(a *alert.Alert) bool { return !a.EndsAt.After(a.UpdatedAt) }

// put records alerts before they are dispatched. Ended alerts are kept until their end is reported, or for a day.
func (m *alertState) put(list []*alert.Alert) {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := false
	for _, a := range list {
		old := m.alerts[a.Fingerprint()]
		changed = changed || old == nil || old.Resolved() != a.Resolved() || a.EndsAt.Sub(old.EndsAt) >= m.resend/2
		m.alerts[a.Fingerprint()] = a
	}
	for fp, a := range m.alerts {
		if time.Since(a.EndsAt) > 24*time.Hour {
			delete(m.alerts, fp)
			changed = true
		}
	}
	m.dropUnused()
	if changed {
		m.saveState()
	}
}

// dropUnused drops deliveries and ends of alerts that are no longer known. The caller must hold the lock.
func (m *alertState) dropUnused() {
	for key, s := range m.delivered {
		if last := time.Since(s.Ended); (!s.Ended.IsZero() && last > 25*time.Hour) || time.Since(s.Starts) > alertRetention {
			delete(m.delivered, key)
		}
	}
	for key, hashes := range m.resolved {
		maps.DeleteFunc(hashes, func(_ uint64, at time.Time) bool { return time.Since(at) > 25*time.Hour })
		if len(hashes) == 0 {
			delete(m.resolved, key)
		}
	}
}

// saveState writes the state. The caller must hold the lock.
func (m *alertState) saveState() { _ = m.trySave() }

func (m *alertState) trySave() error {
	s := savedState{Alerts: make([]*alert.Alert, 0, len(m.alerts)), Delivered: m.delivered, Resolved: m.resolved, InFlight: m.inFlight}
	for _, a := range m.alerts {
		s.Alerts = append(s.Alerts, a)
	}
	raw, err := json.Marshal(s)
	if err == nil {
		err = m.replaceShared(m.filePath(), raw)
	}
	if err != nil {
		m.log.Error("alerts could not be saved; a restart may send them twice", "err", err)
	}
	return err
}

// saveSnapshot writes a file of Alertmanager's own.
func (m *alertState) saveSnapshot(name string, write func(io.Writer) (int64, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.writeSnapshot(filepath.Join(m.dir, name), write); err != nil {
		m.log.Error("could not be saved", "file", name, "err", err)
	}
}

func (f stateFiles) writeSnapshot(file string, write func(io.Writer) (int64, error)) error {
	var b bytes.Buffer
	if _, err := write(&b); err != nil {
		return err
	}
	return f.replaceShared(file, b.Bytes())
}

// stateFiles are the files of a directory and, for a leader among several servers, their copies for the next leader.
type stateFiles struct {
	dir    string
	shared Shared
}

// replaceShared writes a file that the other servers also use.
func (f stateFiles) replaceShared(name string, raw []byte) error {
	err := replaceFile(name, raw)
	if err == nil && f.shared != nil {
		err = f.shared.Put(filepath.Base(name), raw)
	}
	return err
}

// checkLeader explains why nothing may be sent; nil when it may.
func (f stateFiles) checkLeader() error {
	if f.shared != nil && !f.shared.Leads() {
		return errors.New("another server leads, or none can be found out to")
	}
	return nil
}

// replaceFile writes a file so that a kill leaves the old or the new one.
func replaceFile(name string, raw []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
