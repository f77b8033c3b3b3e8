package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"reckon/account"
	"reckon/agent/external/promtext"
	"reckon/metric"
	"reckon/workload"
)

// Figures that scripts send to the socket (socket.go).

// pushKey identifies a series: its subject, and the name with its labels.
type pushKey struct {
	subject subject
	text    string
}

// pushed is the latest value of a pushed series.
type pushed struct {
	series *metric.Series
	value  float64
	add    bool
	until  time.Time // it is exported once at least
	shown  bool      // an export carried it
	waited int       // exports in which its workload was not known
	row    ownRow
}

// pushRequest holds the figures of one request and their sender.
type pushRequest struct {
	pid int32
	uid uint32
	// elsewhere is a root of another network or process namespace.
	elsewhere bool
	tried     int // how often, since no reading had seen the process
	figures   []promtext.Figure
	add       bool          // to earlier figures
	keep      time.Duration // for how long it stands
}

// refusal is an answer that the sender can do something about.
type refusal struct{ error }

// errUnseen means that no reading has seen the process group of a sender yet, so the sender should retry.
var errUnseen = errors.New("the process that sends has just started; try again")

// push accepts figures on behalf of a process. It waits for the loop to run and until a reading has seen the sender.
func (a *Agent) push(ctx context.Context, r *pushRequest) (w subject, err error) {
	for r.tried = 0; ; r.tried++ {
		done := make(chan struct{})
		ask := func() {
			defer close(done)
			if w, err = a.takePush(r); err == nil {
				a.own.pushes[0]++
			} else if !errors.Is(err, errUnseen) {
				a.own.pushes[1]++
			}
		}
		select {
		case a.asks <- ask:
			<-done
		case <-ctx.Done():
			return subject{}, errors.New("the agent is busy or stops; try again")
		}
		if !errors.Is(err, errUnseen) {
			return w, err
		}
		select {
		case <-time.After(a.config.Tick):
		case <-ctx.Done(): // as above
		}
	}
}

// Process groups that sent figures get their own row even if they are short. pushRows limits their number per user, at once and per hour.
const pushRows = 200.0

// workloadOfGroup returns the workload of a process group's figures: the group, which is then no short work, or the short work of its user.
func (a *Agent) workloadOfGroup(w subject, tried int) (subject, error) {
	if !w.id.Kind().Group() {
		return w, nil
	}
	switch known, own := a.ledger.ReserveSeries(w.id, w.part, w.owner, func() bool {
		return takeToken(a.own.kept, w.owner, a.now(), pushRows, pushRows/3600)
	}); {
	case !known && tried < 2:
		return w, errUnseen
	case !own:
		return subject{id: workload.MakeID(workload.Short, w.owner+"/"+a.config.Node), owner: w.owner}, nil
	}
	return w, nil
}

// takePush stores the figures of a request. Only the main loop may call it.
func (a *Agent) takePush(r *pushRequest) (subject, error) {
	o := &a.own
	w, err := a.senderOwner(r.pid, r.uid)
	if err == nil {
		w, err = a.workloadOfGroup(w, r.tried)
	}
	if err != nil {
		return w, err
	}
	have := map[pushKey]bool{}
	for k := range o.pushed {
		if k.subject.withoutPart() == w.withoutPart() {
			have[k] = true
		}
	}
	keys := make([]pushKey, len(r.figures))
	for i := range r.figures {
		f := &r.figures[i]
		if err := o.mayName(f.Series.Desc.Name, r.uid == 0 && !r.elsewhere); err != nil {
			return w, refusal{err}
		}
		keys[i] = pushKey{w, seriesText(f.Series)}
		have[keys[i]] = true
	}
	switch {
	case len(have) > o.limit:
		return w, refusal{
			fmt.Errorf(
				"%s would have %d series of its own, %d are allowed; leave labels out, or let the administrator allow more with "+
					"max_series_per_workload", w.name(), len(have), o.limit)}
	case len(o.pushed)+len(keys) > ownAltogether:
		return w, refusal{fmt.Errorf("there are %d series of others on this node already", len(o.pushed))}
	}
	until := a.now().Add(r.keep)
	for i, k := range keys {
		p := o.pushed[k]
		if p == nil {
			p = &pushed{series: r.figures[i].Series}
			o.pushed[k] = p
		}
		p.set(r.figures[i].Value, r.add, until)
	}
	return w, nil
}

func (p *pushed) set(v float64, add bool, until time.Time) {
	if add && p.add {
		v += p.value
	}
	p.value, p.add, p.waited = v, add, 0
	if until.After(p.until) || !add {
		p.until = until
	}
}

// seriesText writes a series in the text format.
func seriesText(s *metric.Series) string {
	var b strings.Builder
	b.WriteString(s.Desc.Name)
	for i, v := range s.Values {
		b.WriteString("," + s.Desc.Labels[i] + "=" + promtext.Quote(v))
	}
	return b.String()
}

// exportPushed appends the figures that are still valid.
func (a *Agent) exportPushed(b *metric.Batch) {
	o := &a.own
	if len(o.pushed) == 0 && o.pushes == [2]uint64{} {
		return
	}
	from, now := len(b.Samples), a.now()
	for k, p := range o.pushed {
		switch a.standing(k.subject) {
		case account.Pending:
			continue // it may turn out to be short work
		case account.Unknown:
			// Its workload has ended. Figures sent at its very end are reported once.
			if p.waited++; !p.shown && p.waited < 2 {
				continue
			}
			if !p.shown {
				a.addPushed(b, k, p)
			}
			delete(o.pushed, k)
			continue
		}
		if p.shown && now.After(p.until) {
			delete(o.pushed, k)
			continue
		}
		a.addPushed(b, k, p)
	}
	b.Add(o.status.Get(ownSeries, "push"), float64(len(b.Samples)-from))
	b.Add(o.status.Get(ownPushes, "taken"), float64(o.pushes[0]))
	b.Add(o.status.Get(ownPushes, "refused"), float64(o.pushes[1]))
}

// standing returns whether the workload of external figures has series. It returns Shown for unseen parts of running
// workloads and for unseen short work.
func (a *Agent) standing(w subject) account.Standing {
	if w.id.Kind().Folded() {
		return account.Shown
	}
	s := a.ledger.Stands(w.id, w.part, w.owner)
	if _, runs := a.ledger.OwnerOf(w.id); s == account.Unknown && runs {
		return account.Shown
	}
	return s
}

func (a *Agent) addPushed(b *metric.Batch, k pushKey, p *pushed) {
	if p.row.subject != k.subject {
		p.row = ownRow{subject: k.subject}
	}
	if err := a.own.add(b, &p.row, p.series, p.value); err != nil {
		a.log.Debug("a pushed figure is not exported", "err", err)
	}
	p.shown = true
}
