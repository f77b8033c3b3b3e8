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
	subject figureSubject
	text    string
}

// pushedFigure is the latest value of a pushed series.
type pushedFigure struct {
	series *metric.Series
	value  float64
	add    bool
	until  time.Time // it is exported once at least
	shown  bool      // an export carried it
	waited int       // exports in which its workload was not known
	row    ownFigure
}

// pushedFigures holds the figures of one request and their sender.
type pushedFigures struct {
	pid int32
	uid uint32
	// elsewhere is a root of another network or process namespace.
	elsewhere bool
	tried     int // how often, since no reading had seen the process
	figures   []promtext.Figure
	add       bool          // to earlier figures
	keep      time.Duration // for how long it stands
}

// refusedPush is an error that the sender of figures can correct.
type refusedPush struct{ error }

// errUnseenSender means that no reading has seen the process group of a sender yet, so the sender should retry.
var errUnseenSender = errors.New("the process that sends has just started; try again")

// push accepts figures on behalf of a process. It waits for the loop to run and until a reading has seen the sender.
func (a *Agent) push(ctx context.Context, r *pushedFigures) (w figureSubject, err error) {
	for r.tried = 0; ; r.tried++ {
		done := make(chan struct{})
		ask := func() {
			defer close(done)
			if w, err = a.storePush(r); err == nil {
				a.own.pushes[0]++
			} else if !errors.Is(err, errUnseenSender) {
				a.own.pushes[1]++
			}
		}
		select {
		case a.asks <- ask:
			<-done
		case <-ctx.Done():
			return figureSubject{}, errors.New("the agent is busy or stops; try again")
		}
		if !errors.Is(err, errUnseenSender) {
			return w, err
		}
		select {
		case <-time.After(a.config.Tick):
		case <-ctx.Done(): // as above
		}
	}
}

// pushRowsPerUser limits the process groups of a user that get series because they sent figures, at once and per
// hour. Without figures, short ones would get none.
const pushRowsPerUser = 200.0

// workloadOfGroup returns the workload of a process group's figures: the group, which is then no short work, or the short work of its user.
func (a *Agent) workloadOfGroup(w figureSubject, tried int) (figureSubject, error) {
	if !w.id.Kind().Group() {
		return w, nil
	}
	switch known, own := a.ledger.ReserveSeries(w.id, w.part, w.owner, func() bool {
		return takeToken(a.own.kept, w.owner, a.now(), pushRowsPerUser, pushRowsPerUser/3600)
	}); {
	case !known && tried < 2:
		return w, errUnseenSender
	case !own:
		return figureSubject{id: workload.MakeID(workload.Short, w.owner+"/"+a.config.Node), owner: w.owner}, nil
	}
	return w, nil
}

// storePush stores the figures of a request. Only the main loop may call it.
func (a *Agent) storePush(r *pushedFigures) (figureSubject, error) {
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
		if err := o.checkName(f.Series.Desc.Name, r.uid == 0 && !r.elsewhere); err != nil {
			return w, refusedPush{err}
		}
		keys[i] = pushKey{w, seriesText(f.Series)}
		have[keys[i]] = true
	}
	switch {
	case len(have) > o.limit:
		return w, refusedPush{
			fmt.Errorf(
				"%s would have %d series of its own, %d are allowed; leave labels out, or let the administrator allow more with "+
					"max_series_per_workload", w.displayName(), len(have), o.limit)}
	case len(o.pushed)+len(keys) > maxOwnSeries:
		return w, refusedPush{fmt.Errorf("there are %d series of others on this node already", len(o.pushed))}
	}
	until := a.now().Add(r.keep)
	for i, k := range keys {
		p := o.pushed[k]
		if p == nil {
			p = &pushedFigure{series: r.figures[i].Series}
			o.pushed[k] = p
		}
		p.set(r.figures[i].Value, r.add, until)
	}
	return w, nil
}

func (p *pushedFigure) set(v float64, add bool, until time.Time) {
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

// exportPushed appends the pushed figures that are still valid.
func (a *Agent) exportPushed(b *metric.Batch) {
	o := &a.own
	if len(o.pushed) == 0 && o.pushes == [2]uint64{} {
		return
	}
	from, now := len(b.Samples), a.now()
	for k, p := range o.pushed {
		switch a.subjectStanding(k.subject) {
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

// subjectStanding returns whether the workload of external figures has series. It returns Shown for unseen parts of running
// workloads and for unseen short work.
func (a *Agent) subjectStanding(w figureSubject) account.Standing {
	if w.id.Kind().Folded() {
		return account.Shown
	}
	s := a.ledger.StandingOf(w.id, w.part, w.owner)
	if _, runs := a.ledger.OwnerOf(w.id); s == account.Unknown && runs {
		return account.Shown
	}
	return s
}

func (a *Agent) addPushed(b *metric.Batch, k pushKey, p *pushedFigure) {
	if p.row.subject != k.subject {
		p.row = ownFigure{subject: k.subject}
	}
	if err := a.own.addFigure(b, &p.row, p.series, p.value); err != nil {
		a.log.Debug("a pushed figure is not exported", "err", err)
	}
	p.shown = true
}
