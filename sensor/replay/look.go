package replay

import (
	"fmt"
	"io/fs"

	"reckon/sensor"
	"reckon/sensor/replay/recording"
)

// Cgroups returns the recorded control groups of a process, in the form that sensor/task/procfs returns for a live
// process. The error matches fs.ErrNotExist if nothing was recorded for the process.
func (p *Player) Cgroups(pid int32) ([]sensor.CgroupPath, error) {
	a, err := p.processAbout(pid)
	if err == nil && len(a.Cgroups) == 0 {
		err = fmt.Errorf("replay: control groups of process %d were not recorded: %w", pid, fs.ErrPermission)
	}
	return a.Cgroups, err
}

// Env returns the named variables that were recorded.
func (p *Player) Env(pid int32, keys ...string) (map[string]string, error) {
	a, err := p.processAbout(pid)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(keys))
	for _, k := range keys {
		if v, ok := a.Env[k]; ok {
			out[k] = v
		}
	}
	return out, nil
}

// LoginSession returns the audit session of a process.
func (p *Player) LoginSession(pid int32) (session uint32, ok bool, err error) {
	a, err := p.processAbout(pid)
	if err != nil || a.LoginSession == nil {
		return 0, false, err
	}
	return *a.LoginSession, true, nil
}

func (p *Player) processAbout(pid int32) (recording.About, error) {
	a, ok := p.about[pid]
	if !ok {
		return a.About, fmt.Errorf("replay: process %d: %w", pid, fs.ErrNotExist)
	}
	return a.About, nil
}

// Groups returns a reader of the recorded control groups.
func (p *Player) Groups() sensor.CgroupReader { return recordedGroups{p} }

type recordedGroups struct{ p *Player }

// Open finds a control group in the current pass.
func (g recordedGroups) Open(paths []sensor.CgroupPath) (sensor.CgroupHandle, error) {
	h := groupHandle{p: g.p, key: recording.CgroupKey(paths)}
	if g.p.group[h.key] == nil {
		return nil, h.removedError()
	}
	return h, nil
}

// Close does nothing: the file is the player's.
func (g recordedGroups) Close() error { return nil }

type groupHandle struct {
	p   *Player
	key string
}

// Read returns the figures in the current pass.
func (h groupHandle) Read(c *sensor.Cgroup) error {
	now := h.p.group[h.key]
	if now == nil {
		return h.removedError()
	}
	*c = *now
	h.p.shift.shiftGroup(h.key, c)
	return nil
}

// Close does nothing.
func (h groupHandle) Close() error { return nil }

func (h groupHandle) removedError() error {
	return fmt.Errorf("replay: control group %q: %w", h.key, fs.ErrNotExist)
}
