package alerting

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/alertmanager/alert"
	"github.com/prometheus/alertmanager/nflog"
	"github.com/prometheus/alertmanager/nflog/nflogpb"
	"github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/notifier"
)

// stopGrace is the time that a stop waits for responses of receivers.
const stopGrace = 10 * time.Second

// drainStage is the last stage before the receivers, and waits for notifications in flight when the server stops.
// Alertmanager's dispatcher itself does not wait. Such notifications would be delivered but not logged, and the next
// start would send them again or omit their end.
type drainStage struct {
	stage notify.Stage

	mu      sync.Mutex
	drained bool
	wg      sync.WaitGroup
}

// Exec implements notify.Stage.
func (f *drainStage) Exec(ctx context.Context, l *slog.Logger, list ...*alert.Alert) (context.Context, []*alert.Alert, error) {
	f.mu.Lock()
	if f.drained {
		f.mu.Unlock()
		return ctx, nil, context.Canceled
	}
	f.wg.Add(1)
	f.mu.Unlock()
	defer f.wg.Done()
	return f.stage.Exec(ctx, l, list...)
}

// close rejects new notifications and waits for those in flight. It returns false if some are still in flight after the
// grace period.
func (f *drainStage) close() bool {
	f.mu.Lock()
	f.drained = true
	f.mu.Unlock()
	done := make(chan struct{})
	go func() {
		f.wg.Wait()
		close(done)
	}()
	end := time.NewTimer(stopGrace + stopGrace/2)
	defer end.Stop()
	select {
	case <-done:
		return true
	case <-end.C:
		return false
	}
}

// withGrace returns a context that ends at the deadline of ctx, or a grace period after ctx is cancelled.
func withGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	end, has := ctx.Deadline()
	if !has {
		end = time.Now().Add(time.Hour) // Alertmanager always gives one
	}
	out, cancel := context.WithDeadline(context.WithoutCancel(ctx), end)
	stop := context.AfterFunc(ctx, func() {
		late := time.AfterFunc(stopGrace, cancel)
		context.AfterFunc(out, func() { late.Stop() })
	})
	return out, func() { stop(); cancel() }
}

// deliveryLog is the notification log, written to its file at each entry.
type deliveryLog struct {
	notify.NotificationLog
	memory *alertState
	write  func(io.Writer) (int64, error)
}

// groupKey identifies a group of alerts at one integration of a receiver.
func groupKey(receiver, name string, index int, group string) string {
	return fmt.Sprintf("%s/%s[%d]/%s", receiver, name, index, group)
}

// Log implements notify.NotificationLog.
func (n *deliveryLog) Log(r *nflogpb.Receiver, group string, firing, resolved []uint64, s *nflog.Store, expiry time.Duration) error {
	err := n.NotificationLog.Log(r, group, firing, resolved, s, expiry)
	n.memory.saveSnapshot("nflog", n.write)
	n.memory.noteDelivered(groupKey(r.GroupName, r.Integration, int(r.Idx), group), firing, resolved)
	return err
}

// Query implements notify.NotificationLog. After it has reported the end of an alert, Alertmanager removes the alert
// from the log at the next report about the group. After a restart we still have such an alert, so Query adds its end
// to the entry.
func (n *deliveryLog) Query(params ...nflog.QueryParam) ([]*nflogpb.Entry, error) {
	list, err := n.NotificationLog.Query(params...)
	if err != nil {
		return list, err
	}
	n.memory.mu.Lock()
	defer n.memory.mu.Unlock()
	for i, e := range list {
		over := n.memory.resolved[groupKey(e.Receiver.GroupName, e.Receiver.Integration, int(e.Receiver.Idx), string(e.GroupKey))]
		if len(over) == 0 {
			continue
		}
		list[i] = &nflogpb.Entry{ // a copy: the log keeps its own
			GroupKey: e.GroupKey, Receiver: e.Receiver, Timestamp: e.Timestamp, ReceiverData: e.ReceiverData,
			FiringAlerts: e.FiringAlerts, ResolvedAlerts: slices.AppendSeq(slices.Clone(e.ResolvedAlerts), maps.Keys(over)),
		}
	}
	return list, nil
}

// noteDelivered notes that all alerts of a group were delivered.
func (m *alertState) noteDelivered(key string, firing, resolved []uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for _, h := range firing {
		delete(m.resolved[key], h)
	}
	for _, h := range resolved {
		if m.resolved[key] == nil {
			m.resolved[key] = map[uint64]time.Time{}
		}
		if _, has := m.resolved[key][h]; !has {
			m.resolved[key][h] = now
		}
	}
	delete(m.inFlight, key)
	m.saveState()
}

// unconfirmed marks the log entry of a notification that may or may not have been delivered. Because of this mark,
// Alertmanager sends the active alerts of the group again, and also their end.
const unconfirmed = 1

// resumeInterrupted handles notifications that a kill interrupted.
func (m *alertState) resumeInterrupted(log *nflog.Log) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, t := range m.inFlight {
		m.uncertain[key] = true
		r := &nflogpb.Receiver{GroupName: t.Receiver, Integration: t.Name, Idx: uint32(t.Index)}
		list, err := log.Query(nflog.QGroupKey(t.Group), nflog.QReceiver(r))
		if err != nil && !errors.Is(err, nflog.ErrNotFound) {
			return err
		}
		firing, resolved, store := []uint64{unconfirmed}, []uint64{}, nflog.NewStore(nil)
		if len(list) > 0 {
			firing, resolved, store = append(firing, list[0].FiringAlerts...), list[0].ResolvedAlerts, nflog.NewStore(list[0])
		}
		if err := log.Log(r, t.Group, firing, resolved, store, 0); err != nil {
			return err
		}
		maps.Copy(m.delivered, t.Findings)
	}
	if len(m.inFlight) == 0 {
		return nil
	}
	clear(m.inFlight)
	var err error
	if err = m.writeSnapshot(filepath.Join(m.dir, "nflog"), log.Snapshot); err == nil {
		m.saveState()
	}
	return err
}

// trackDeliveries puts delivery tracking before every integration of a receiver.
func (m *alertState) trackDeliveries(receiver string, list []notify.Integration) []notify.Integration {
	out := make([]notify.Integration, len(list))
	for i := range list {
		w := &trackedReceiver{to: &list[i], receiver: receiver, memory: m}
		out[i] = notify.NewIntegration(w, &list[i], list[i].Name(), list[i].Index(), receiver)
	}
	return out
}

// trackedReceiver is an integration that records its deliveries. It delivers a finding and the end of a finding only once, and
// keeps the results of tests.
type trackedReceiver struct {
	to       *notify.Integration
	receiver string
	memory   *alertState
}

func isFinding(a *alert.Alert) bool { return a.Labels["alertname"] == findingName }

// alertKey returns the key of an alert at this integration. A finding has the same key in every group, because it is delivered
// once.
func (w *trackedReceiver) alertKey(a *alert.Alert, group string) string {
	if isFinding(a) {
		group = ""
	}
	return w.receiver + "/" + w.to.String() + "/" + group + "/" + a.Fingerprint().String()
}

// Notify implements notify.Notifier.
func (w *trackedReceiver) Notify(ctx context.Context, list ...*alert.Alert) (bool, error) {
	group, _ := notify.GroupKey(ctx)
	news := w.dropDelivered(group, list)
	if len(news) == 0 {
		return false, nil
	}
	if err := w.memory.checkLeader(); err != nil {
		return true, err
	}
	if err := w.markInFlight(group, news); err != nil && w.memory.shared != nil {
		return true, err // without the mark, the next leader could not know of this delivery
	}
	news = w.withResendMark(group, news)
	// A stop must not interrupt a delivery, because it could succeed without being recorded.
	ctx, cancel := withGrace(ctx)
	defer cancel()
	again, err := w.to.Notify(ctx, news...)
	w.markResult(group, news, err)
	return again, err
}

// resendAnnotation is the annotation of alerts that may have been sent before.
const resendAnnotation = "sent_again"

// withResendMark marks alerts in list as possibly sent before. The mark is needed if the server that sent the group
// stopped before the receiver had answered.
func (w *trackedReceiver) withResendMark(group string, list []*alert.Alert) []*alert.Alert {
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	if !w.memory.uncertain[groupKey(w.receiver, w.to.Name(), w.to.Index(), group)] {
		return list
	}
	out := make([]*alert.Alert, len(list))
	for i, a := range list {
		c := *a
		c.Annotations = a.Annotations.Clone()
		c.Annotations[resendAnnotation] = "This may have come before: the server that sent it ended before it was answered."
		out[i] = &c
	}
	return out
}

// dropDelivered omits the findings and the ends of alerts that this receiver already has.
func (w *trackedReceiver) dropDelivered(group string, list []*alert.Alert) []*alert.Alert {
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	out := make([]*alert.Alert, 0, len(list))
	for _, a := range list {
		last, sent := w.memory.delivered[w.alertKey(a, group)]
		switch {
		case sent && last.Uncertain:
		case a.Resolved() && sent && !last.Ended.IsZero():
			continue
		case isFinding(a) && a.Resolved() && !sent:
			continue
		case isFinding(a) && !a.Resolved() && sent && last.Ended.IsZero() && last.Starts.Equal(a.StartsAt):
			continue
		}
		out = append(out, a)
	}
	return out
}

// markInFlight records a notification before it is sent.
func (w *trackedReceiver) markInFlight(group string, list []*alert.Alert) error {
	t := inFlight{Group: group, Receiver: w.receiver, Name: w.to.Name(), Index: w.to.Index(), Findings: map[string]lastDelivery{}}
	for _, a := range list {
		if isFinding(a) {
			t.Findings[w.alertKey(a, group)] = lastDelivery{Starts: a.StartsAt, Uncertain: true}
		}
	}
	m := w.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inFlight[groupKey(t.Receiver, t.Name, t.Index, group)] = t
	return m.trySave()
}

// markResult records the result of a notification. The delivery stays in flight until the notification log has it too.
func (w *trackedReceiver) markResult(group string, list []*alert.Alert, err error) {
	m := w.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		delete(m.inFlight, groupKey(w.receiver, w.to.Name(), w.to.Index(), group))
	} else {
		delete(m.uncertain, groupKey(w.receiver, w.to.Name(), w.to.Index(), group))
	}
	now, at := time.Now(), "/"+w.receiver+"/"+w.to.String()
	d := Delivery{Arrived: err == nil, Time: &now}
	if err != nil {
		d.Error, d.Failed = err.Error(), m.tests[LastTest+at].Failed+1
	}
	m.tests[LastTest+at] = d
	for _, a := range list {
		if id, test := a.Labels[testLabel]; test && !a.Resolved() {
			m.tests[string(id)+at] = d
		}
		switch key := w.alertKey(a, group); {
		case err != nil:
		case a.Resolved():
			m.delivered[key] = lastDelivery{Starts: a.StartsAt, Ended: time.Now()}
		case isFinding(a):
			m.delivered[key] = lastDelivery{Starts: a.StartsAt}
		default:
			delete(m.delivered, key)
		}
	}
	m.saveState()
}

// findingRecord is a finding that was delivered, as it is stored.
type findingRecord struct {
	Labels, Annotations map[string]string
	Starts, Ends        time.Time
}

func findingsFile(dir string) string { return filepath.Join(dir, "findings.json") }

// openFindings reads the findings that were delivered before.
func openFindings(dir string) (map[string]*notifier.Alert, error) {
	out, kept := map[string]*notifier.Alert{}, map[string]findingRecord{}
	raw, err := os.ReadFile(findingsFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err = cmp.Or(err, json.Unmarshal(raw, &kept)); err != nil {
		return nil, fmt.Errorf("read the notified findings (%s): %w; remove it, and their ends are notified late", findingsFile(dir), err)
	}
	for id, f := range kept {
		out[id] = &notifier.Alert{Labels: labels.FromMap(f.Labels), Annotations: labels.FromMap(f.Annotations), StartsAt: f.Starts,
			EndsAt: f.Ends}
	}
	return out, nil
}

func saveFindings(to stateFiles, list map[string]*notifier.Alert) error {
	kept := make(map[string]findingRecord, len(list))
	for id, a := range list {
		kept[id] = findingRecord{Labels: a.Labels.Map(), Annotations: a.Annotations.Map(), Starts: a.StartsAt, Ends: a.EndsAt}
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to.dir, 0o750); err != nil {
		return err
	}
	return to.replaceShared(findingsFile(to.dir), raw)
}
