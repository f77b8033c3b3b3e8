package alerting

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/alertmanager/alert"
	"github.com/prometheus/alertmanager/nflog"
	"github.com/prometheus/alertmanager/nflog/nflogpb"
	"github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

type labelPair = labels.Label

// memory is what outlives a kill beside Alertmanager's own files: which alerts fire,
// which findings were told to whom, and how tests fared (which does not outlive it).
type memory struct {
	dir string
	log *slog.Logger

	mu     sync.Mutex
	alerts map[model.Fingerprint]*alert.Alert
	told   map[string]time.Time // receiver, integration and fingerprint of a finding: when it was found
	tests  map[string]Delivery
}

// saved is the file.
type saved struct {
	Alerts []*alert.Alert       `json:"alerts"`
	Told   map[string]time.Time `json:"told"`
}

func (m *memory) file() string { return filepath.Join(m.dir, "alerts.json") }

func openMemory(dir string, log *slog.Logger) (*memory, error) {
	m := &memory{dir: dir, log: log, alerts: map[model.Fingerprint]*alert.Alert{}, told: map[string]time.Time{}, tests: map[string]Delivery{}}
	raw, err := os.ReadFile(m.file())
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	var s saved
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		return nil, fmt.Errorf("read the alerts that fire (%s): %w; remove it, and the end of those that have ended is not told", m.file(), err)
	}
	for _, a := range s.Alerts {
		m.alerts[a.Fingerprint()] = a
	}
	if s.Told != nil {
		m.told = s.Told
	}
	return m, nil
}

// load gives the alerts of before. None has ended because nobody was here to say that
// it lasts: each gets the time in which those who say so come back.
func (m *memory) load() []*alert.Alert {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	out := make([]*alert.Alert, 0, len(m.alerts))
	for _, a := range m.alerts {
		c := *a
		if ended(a) {
			out = append(out, &c)
			continue
		}
		if least := now.Add(4 * resend); a.Labels["alertname"] != testName && c.EndsAt.Before(least) {
			c.EndsAt = least
		}
		c.UpdatedAt = now
		out = append(out, &c)
	}
	return out
}

// fires reports whether the alert fires or has fired within a day.
func (m *memory) fires(fp model.Fingerprint) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.alerts[fp] != nil
}

// active reports whether the alert was told by now and has not ended.
func (m *memory) active(fp model.Fingerprint) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.alerts[fp]
	return a != nil && !ended(a)
}

// ended reports whether somebody said that the alert is over, which is not the same as
// that nobody said for a while that it lasts.
func ended(a *alert.Alert) bool { return !a.EndsAt.After(a.UpdatedAt) }

// put notes alerts before they are dispatched. One that ended stays until its end was
// told, or a day if it never is.
func (m *memory) put(list []*alert.Alert) {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := false
	for _, a := range list {
		old := m.alerts[a.Fingerprint()]
		changed = changed || old == nil || old.Resolved() != a.Resolved() || a.EndsAt.Sub(old.EndsAt) >= resend/2
		m.alerts[a.Fingerprint()] = a
	}
	for fp, a := range m.alerts {
		if time.Since(a.EndsAt) > 24*time.Hour {
			delete(m.alerts, fp)
			changed = true
		}
	}
	if changed {
		m.save()
	}
}

// save is called with the lock held.
func (m *memory) save() {
	s := saved{Alerts: make([]*alert.Alert, 0, len(m.alerts)), Told: m.told}
	for _, a := range m.alerts {
		s.Alerts = append(s.Alerts, a)
	}
	raw, err := json.Marshal(s)
	if err == nil {
		err = replace(m.file(), raw)
	}
	if err != nil {
		m.log.Error("alerts could not be saved; a restart may tell them twice", "err", err)
	}
}

// snapshot writes a file of Alertmanager's own.
func (m *memory) snapshot(name string, write func(io.Writer) (int64, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b bytes.Buffer
	_, err := write(&b)
	if err == nil {
		err = replace(filepath.Join(m.dir, name), b.Bytes())
	}
	if err != nil {
		m.log.Error("could not be saved", "file", name, "err", err)
	}
}

// replace writes a file so that a kill leaves the old one or the new one.
func replace(name string, raw []byte) error {
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

// noted is the log of what was told, written at once.
type noted struct {
	notify.NotificationLog
	memory *memory
	write  func(io.Writer) (int64, error)
}

func (n *noted) Log(r *nflogpb.Receiver, group string, firing, resolved []uint64, s *nflog.Store, expiry time.Duration) error {
	err := n.NotificationLog.Log(r, group, firing, resolved, s, expiry)
	n.memory.snapshot("nflog", n.write)
	return err
}

// watch stands before every integration of a receiver.
func (m *memory) watch(receiver string, list []notify.Integration) []notify.Integration {
	out := make([]notify.Integration, len(list))
	for i := range list {
		w := &watched{to: &list[i], receiver: receiver, memory: m}
		out[i] = notify.NewIntegration(w, &list[i], list[i].Name(), list[i].Index(), receiver)
	}
	return out
}

// watched is an integration that notes how tests fared, and tells a finding once.
type watched struct {
	to       *notify.Integration
	receiver string
	memory   *memory
}

func (w *watched) key(fp model.Fingerprint) string {
	return w.receiver + "/" + w.to.String() + "/" + fp.String()
}

// Notify implements notify.Notifier.
func (w *watched) Notify(ctx context.Context, list ...*alert.Alert) (bool, error) {
	news := w.unknown(list)
	if len(news) == 0 {
		return false, nil
	}
	// A stop does not tear what is on its way: it would be told, and not be noted.
	if end, has := ctx.Deadline(); has {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(context.WithoutCancel(ctx), end)
		defer cancel()
	}
	again, err := w.to.Notify(ctx, news...)
	w.note(news, err)
	return again, err
}

// unknown leaves out findings that this receiver was told of. The end is told once too.
func (w *watched) unknown(list []*alert.Alert) []*alert.Alert {
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	out := make([]*alert.Alert, 0, len(list))
	for _, a := range list {
		found, told := w.memory.told[w.key(a.Fingerprint())]
		if a.Labels["alertname"] == findingName && told == !a.Resolved() && (!told || found.Equal(a.StartsAt)) {
			continue
		}
		out = append(out, a)
	}
	return out
}

func (w *watched) note(list []*alert.Alert, err error) {
	m := w.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := false
	for _, a := range list {
		if id, test := a.Labels[testLabel]; test && !a.Resolved() {
			d := Delivery{Arrived: err == nil}
			if err != nil {
				d.Error = err.Error()
			}
			m.tests[string(id)+"/"+w.receiver+"/"+w.to.String()] = d
		}
		switch {
		case err != nil || a.Labels["alertname"] != findingName:
		case a.Resolved():
			delete(m.told, w.key(a.Fingerprint()))
			changed = true
		default:
			m.told[w.key(a.Fingerprint())] = a.StartsAt
			changed = true
		}
	}
	if changed {
		m.save()
	}
}

func (m *memory) delivered(id, receiver, integration string) Delivery {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tests[id+"/"+receiver+"/"+integration]
}
