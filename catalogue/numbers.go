package catalogue

import (
	"context"
	"slices"
	"time"

	"reckon/store"
	"reckon/workload"
)

// A batch system gives each array task and each component of a heterogeneous job its own number. A
// node that could not read a task's environment, because the task ended at once, uses that number
// as its name. Its data belongs to the job that the scheduler reports with that number.

// numberInfo is the series that reports the number of a job, in a label.
const numberInfo = "reckon_slurm_number_info"

// noteNumber records the number of a reported job.
func (f *fold) noteNumber(k workloadKey, number string) {
	if alias := (workloadKey{k.Site, string(workload.JobID(number))}); alias != k {
		f.numbers[alias] = k
		for _, a := range f.accounts[k] {
			a.Number = number
		}
	}
}

// learnNumbers records the job numbers of the accounts in a restored state.
func (f *fold) learnNumbers() {
	for k, runs := range f.accounts {
		for _, a := range runs {
			if a.Number != "" {
				f.noteNumber(k, a.Number)
			}
		}
	}
}

// forgetNumbers drops the numbers of jobs without an account.
func (f *fold) forgetNumbers() {
	for alias, k := range f.numbers {
		if len(f.accounts[k]) == 0 {
			delete(f.numbers, alias)
		}
	}
}

// resolveJob returns the job that a node reported at the time t. A node may report a job by its number instead of its id.
func (f *fold) resolveJob(k workloadKey, t int64) workloadKey {
	of, ok := f.numbers[k]
	if ok && slices.ContainsFunc(f.accounts[of],
		func(a *account) bool { return a.Scheduler.Start != 0 && t >= a.Scheduler.Start-maxClockSkew }) {
		return of
	}
	return k
}

// adoptNumbered merges accounts that nodes observed under a job number into their jobs, after the scheduler reported
// the number. It drops rows that were already written for these accounts.
func (f *fold) adoptNumbered() {
	for alias, k := range f.numbers {
		runs, came := slices.Clone(f.accounts[k]), false
		for _, mine := range runs {
			if mine.Scheduler.Start == 0 {
				continue
			}
			var moved []*account
			f.accounts[alias] = slices.DeleteFunc(f.accounts[alias], func(a *account) bool {
				if a.isReported() || !a.Known || !mine.Scheduler.includesStart(a.Start, maxClockSkew) {
					return false
				}
				moved = append(moved, a)
				return true
			})
			for _, a := range moved {
				for _, start := range a.Rows {
					f.gone = append(f.gone, store.Run{Site: alias.Site, ID: alias.ID, Start: time.UnixMilli(start).UTC()})
				}
				a.ID, a.Rows, a.touched = k.ID, nil, true
				f.accounts[k] = append(f.accounts[k], a)
			}
			came = came || len(moved) > 0
		}
		if came { // to the run that covered their start, or to another one that is nearer
			for _, mine := range runs {
				f.mergeObserved(k, mine)
			}
			f.sortAccounts(k)
			f.recordMove(k, 0) // they may be of a run without a reported start
		}
		if len(f.accounts[alias]) == 0 {
			delete(f.accounts, alias)
		}
	}
}

// moveToJobs moves accounts under job numbers that another fold has resolved to their jobs.
func (f *fold) moveToJobs(known *fold) {
	for alias := range known.numbers {
		f.accounts[alias] = slices.DeleteFunc(f.accounts[alias], func(a *account) bool {
			k := known.resolveJob(alias, a.Start)
			if k == alias {
				return false
			}
			a.ID = k.ID
			f.accounts[k] = append(f.accounts[k], a)
			return true
		})
		if len(f.accounts[alias]) == 0 {
			delete(f.accounts, alias)
		}
	}
}

// moveStarts moves the starts that nodes observed under a number to its job.
func (f *fold) moveStarts(found map[workloadKey][]startSpan) {
	for alias := range f.numbers {
		list := found[alias]
		found[alias] = slices.DeleteFunc(list, func(l startSpan) bool {
			k := f.resolveJob(alias, l.start)
			if k != alias {
				found[k] = append(found[k], l)
			}
			return k != alias
		})
		if len(found[alias]) == 0 {
			delete(found, alias)
		}
	}
}

// dropNumbered marks rows for deletion that were written for a run under its number, before the scheduler reported the
// number.
func (b *Builder) dropNumbered(ctx context.Context, a *account) error {
	if a.Number == "" || a.Scheduler.Start == 0 {
		return nil
	}
	id := string(workload.JobID(a.Number))
	rows, _, err := b.cat.Workloads(ctx, store.Filter{IDs: []string{id}})
	if err != nil || id == a.ID {
		return err
	}
	for i := range rows {
		if r := &rows[i]; r.Site == a.Site && r.Submit.IsZero() && a.Scheduler.includesStart(r.Start.UnixMilli(), maxClockSkew) {
			b.fold.gone = append(b.fold.gone, store.Run{Site: r.Site, ID: id, Start: r.Start})
		}
	}
	return nil
}
