package catalogue

import (
	"context"
	"time"

	"reckon/store"
)

// backfill records samples that arrived long after their time. They come from workloads that ran while their node could
// not send, or they are the final state of finished runs from the scheduler. It returns the other workloads with late
// samples for backfillTails, or nil if no sample was late.
func (b *Builder) backfill(ctx context.Context, dirty store.DirtyHours) (int, *fold, error) {
	since, ok := lateSince(dirty, b.filled)
	if b.at.IsZero() || !ok || !since.Before(b.at.Add(-b.o.Overlap)) {
		return 0, nil, nil
	}
	since = store.Later(since, b.oldestReadable(b.at))
	seen := newFold(b.q)
	for at := since; at.Before(b.at); at = at.Add(b.o.Slice) {
		if err := seen.foldSamples(ctx, at.Add(-time.Minute), store.Earlier(at.Add(b.o.Slice), b.at)); err != nil {
			return 0, nil, err
		}
	}
	seen.moveToJobs(b.fold)
	var missed []*account
	for k, runs := range seen.accounts {
		_, known := b.fold.accounts[k]
		for _, a := range runs {
			if !known || a.hasSchedulerSamples() {
				missed = append(missed, a)
			}
		}
		if !known {
			delete(seen.accounts, k)
		}
	}
	n, err := b.rereadWhole(ctx, missed)
	return n, seen, err
}

// backfillTails records late ends of known workloads. A running workload does not need it, because its next samples
// include the late ones, but an ended part has no next sample. It must run after the newest samples were processed.
func (b *Builder) backfillTails(ctx context.Context, seen *fold) (int, error) {
	if seen == nil {
		return 0, nil
	}
	seen.moveToJobs(b.fold) // of jobs that are known to run only now
	var list []*account
	for k, runs := range seen.accounts {
		for _, a := range runs {
			if b.fold.lacksSamplesOf(k, a) {
				list = append(list, a)
				for _, o := range b.fold.accounts[k] { // its containing run may have begun before the range read
					if o.isReported() && o.samplesFrom(true) <= a.lastSample() {
						list = append(list, o)
					}
				}
			}
		}
	}
	return b.rereadWhole(ctx, list)
}

// rereadWhole reads complete workloads and writes their rows.
func (b *Builder) rereadWhole(ctx context.Context, list []*account) (int, error) {
	if len(list) == 0 {
		return 0, nil
	}
	if err := b.reread(ctx, listWanted(list), b.oldestReadable(b.at), b.at); err != nil {
		return 0, err
	}
	return b.writeRows(ctx, b.at)
}

// lacksSamplesOf reports whether a, a run that was read separately, has later samples than the fold has of the run.
func (f *fold) lacksSamplesOf(k workloadKey, a *account) bool {
	for id, t := range a.Tracks {
		if t.T == 0 {
			continue
		}
		own := f.runForSample(k, t.T, t.isBatch())
		if own == nil || own.Tracks[id] == nil {
			return true
		}
		// A late counter reset or peak is not in later samples: runs of a job share one series.
		if o := own.Tracks[id]; o.T < t.T || own.isReported() && (o.First > t.First || o.Base < t.Base || o.Max < t.Max) {
			return true
		}
	}
	for p, e := range a.Ends {
		own := f.runForSample(k, e.T, p == partPlace{})
		if own == nil || own.Ends[p].T < e.T {
			return true
		}
	}
	return false
}

// runForSample returns the run of the fold that a sample of time t belongs to, or nil.
func (f *fold) runForSample(k workloadKey, t int64, byBatch bool) *account {
	if i := runIndexAt(f.accounts[k], t, byBatch); i >= 0 {
		return f.accounts[k][i]
	}
	return nil
}
