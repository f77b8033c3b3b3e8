package agent

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"reckon/sensor/replay"
	"reckon/sensor/replay/recording"
)

// openReplay opens a recording that the agent reads instead of this machine. Times are shifted so that the recording
// starts now. At its end, it starts again.
func (a *Agent) openReplay() error {
	player, err := replay.Open(a.config.Replay, replay.Options{Loop: true, Now: time.Now()})
	if err != nil {
		return err
	}
	a.closers = append(a.closers, player)
	a.config.State = "" // the accounts of a recording are not continued
	if meta := player.Meta(); meta.Node != "" && !a.config.named {
		a.config.Node = meta.Node
		a.ledger = a.newLedger()
	}
	a.tasks, a.machine, a.cgroups, a.look = player, player, player.Groups(), player
	// Times are shifted to now. Ids use the original time, so that they are the machine's ids and
	// the same in each replay.
	a.now, a.btime = player.Time, player.Meta().Booted.Unix()
	a.user = func(uid uint32) string {
		if name, ok := player.UserName(uid); ok {
			return name
		}
		return strconv.FormatUint(uint64(uid), 10)
	}
	a.addSensor(player.Name(), nil, nil)
	defer a.openOwnReaders(0)
	for _, s := range player.Sensors() {
		a.addSensor(s.Name(), s, nil)
	}
	a.collectMeters()
	a.openGPUs()
	return nil
}

// Recorder returns a recorder of this machine and the header of the recording. The agent must not run meanwhile,
// because the recorder reads the agent's sources.
func (a *Agent) Recorder(files bool, scrub *recording.Scrubber, interval time.Duration) (*recording.Recorder, recording.Meta) {
	r := &recording.Recorder{
		Tasks: a.tasks, Machine: a.machine, Cgroups: a.cgroups, Look: a.look,
		User: a.user, Scrub: scrub,
	}
	m := recording.Meta{
		Reckon: a.config.Version, Node: a.config.Node,
		Booted: time.Unix(a.btime, 0).UTC(), Recorded: time.Now().UTC(),
		Interval: interval.Seconds(), Source: a.tasks.Live(), Exits: a.tasks.Exits(),
		Unavailable: make(map[string]string),
	}
	var uts unix.Utsname
	if unix.Uname(&uts) == nil {
		m.Kernel, m.Machine = unix.ByteSliceToString(uts.Release[:]), unix.ByteSliceToString(uts.Machine[:])
	}
	for _, u := range a.sensors {
		switch {
		case u.sensor != nil:
			r.Sensors = append(r.Sensors, u.sensor)
		case !u.up:
			m.Unavailable[u.name] = u.reason
		}
	}
	if files {
		r.Files = recording.NewCollector(a.config.Root)
	}
	return r, m
}
