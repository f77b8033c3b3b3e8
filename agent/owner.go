package agent

import (
	"errors"
	"fmt"
	"io/fs"

	"reckon/account"
	"reckon/sensor"
	"reckon/workload"
)

// processReaderByID reads the identity of a process by its id. A recording does not implement it.
type processReaderByID interface {
	Process(pid int32) (sensor.Process, error)
}

// resolveOwner finds the workload and owner that figures of an origin belong to.
func (a *Agent) resolveOwner(o *sensor.Origin) resolvedOrigin {
	v := resolvedOrigin{trusted: o.Trusted}
	switch {
	case o.Workload != "":
		id := workload.ID(o.Workload)
		if w, part, owner, runs := a.ledger.RunOf(id.Name()); runs && o.Placed && id.Kind().BarePod() {
			v.subject = figureSubject{w, part, owner}
			return v
		}
		owner, runs := a.ledger.OwnerOf(id)
		user := ""
		if o.HasUID {
			user = a.user(o.UID)
		}
		switch {
		case id.Kind() == "" || id.Name() == "":
			v.err = fmt.Errorf("workload %.100q is not written as kind/name, such as slurm/4711", o.Workload)
		case !o.Trusted && !o.Placed && (!runs || owner != user): // whether others' work runs is not reported
			v.err = fmt.Errorf("no workload %.100s of %s runs on this node", id, user)
		case !runs:
			v.err = fmt.Errorf("no workload %.100s runs on this node", id)
		default:
			v.subject = figureSubject{id: id, owner: owner}
		}
	case o.PID != 0:
		v.subject, v.err = a.processOwner(o.PID, o.UID, o.HasUID)
		v.trusted = v.trusted || v.subject.owner == "root"
		if v.err == nil {
			v.later = a.ledger.StandingOf(v.subject.id, v.subject.part, v.subject.owner) != account.Shown
		}
	case o.Trusted:
	case o.HasUID:
		v.subject.owner = a.user(o.UID)
		v.trusted = o.UID == 0
	default:
		v.err = errors.New("their owner is not known")
	}
	return v
}

// maxSenderAge is the maximum age of a process that counts as started only to send a figure.
const maxSenderAge = 2 // seconds

// senderOwner returns the owner of figures that a process sends. It is [Agent.processOwner] with one exception: a new
// process that leads its own group in its parent's session belongs to its parent's part. Such a process is a command
// typed at a prompt, with a group that soon ends.
func (a *Agent) senderOwner(pid int32, uid uint32) (figureSubject, error) {
	found, err := a.processOwner(pid, uid, true)
	if err != nil || !found.id.Kind().Group() {
		return found, err
	}
	look := a.look.(processReaderByID) // processOwner has used it
	p, err := look.Process(pid)
	if err != nil || p.PGID != p.PID || p.SID == p.PID || p.PPID <= 1 || a.now().Unix()-a.btime-int64(p.Start/1e9) > maxSenderAge {
		return found, nil
	}
	parent, err := look.Process(p.PPID)
	if err != nil {
		return found, nil
	}
	if w := a.partOfProcess(&parent); w.owner == found.owner && !w.id.Kind().System() {
		return w, nil
	}
	return found, nil
}

// processOwner returns the workload of a living process.
func (a *Agent) processOwner(pid int32, uid uint32, known bool) (figureSubject, error) {
	look, ok := a.look.(processReaderByID)
	if !ok {
		return figureSubject{}, errors.New("a recording is played: its processes are not here")
	}
	p, err := look.Process(pid)
	if errors.Is(err, fs.ErrNotExist) {
		return figureSubject{}, errors.New("the process that they come from has ended")
	}
	if err != nil {
		return figureSubject{}, fmt.Errorf("look at the process that they come from: %w", err)
	}
	if known {
		p.UID = uid // the kernel reported it of the connection
	}
	return a.partOfProcess(&p), nil
}

// partOfProcess returns the part that a process is or will be charged to. It identifies the process anew, because the process
// may have changed its user since it was last identified.
func (a *Agent) partOfProcess(p *sensor.Process) figureSubject {
	h, gone := a.collectHint(p, false)
	if gone {
		return figureSubject{id: workload.MakeID(workload.Short, h.User+"/"+a.config.Node), owner: h.User}
	}
	h.InJob = func(job workload.ID) (string, bool) { return a.mayBeInJob(h, a.ledger.PartOf(p.PID, p.Start), job) }
	id := a.chain.Resolve(h)
	return figureSubject{id.Workload, id.Part, id.Owner}
}
