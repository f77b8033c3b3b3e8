package account

import (
	"encoding/json"

	"reckon/account/tally"
)

// Tallies in version 2 of the state, with a different form for each source. They are read and not written.

type queueV2 struct {
	Nanos   uint64
	Octaves []uint64
}

type mountedV2 struct {
	Mount struct {
		Type, Source string
		Local        bool
	}
	Use struct {
		Bytes             [2]uint64
		Operations, Nanos [3]uint64
	}
}

type countV2 struct{ Whole, Part, Enabled, Running uint64 }

// awaitedV2 is activity that waits for its process to be identified.
type awaitedV2[T any] struct {
	P int32
	S uint64
	U T
}

// stateV2 is the part of version 2 that differs from version 3.
type stateV2 struct {
	Traffic *struct {
		Began int64
		Total []uint64
	}
	WaitBegan  int64 `json:"wait_began"`
	QueueBegan int64 `json:"queue_began"`
	MountBegan int64 `json:"mount_began"`
	LinkBegan  int64 `json:"link_began"`
	CountBegan int64 `json:"count_began"`
	Parts      []struct {
		Traffic  []uint64
		IOWait   uint64 `json:"io_wait"`
		DiskWait []struct {
			Disk  string
			Nanos uint64
		} `json:"disk_wait"`
		Links []struct {
			Device string
			Octets [2]uint64
		}
		Queue  *queueV2
		Mounts []mountedV2
		Events *struct {
			V []float64 // scaled
			P []countV2 // pending
			M float64   // bytes of memory, by cache misses
		}
	}
	Awaited struct {
		Traffic []awaitedV2[struct {
			Moved                         [3][4][2]struct{ Bytes, Messages uint64 }
			Opened, Accepted, Retransmits uint64
		}]
		Waits []awaitedV2[struct{ Nanos uint64 }]
		Disks []awaitedV2[struct {
			Disk  string
			Nanos uint64
		}]
		Queues   []awaitedV2[queueV2]
		Mounts   []awaitedV2[mountedV2]
		Counters []awaitedV2[struct {
			CounterUse []countV2
			Line       uint64
		}]
	}
}

var (
	protocolsV2  = [...]string{"tcp", "udp", "other"}
	scopesV2     = [...]string{"loopback", "host", "elsewhere", "unknown"}
	directionsV2 = [...]string{"receive", "transmit"}
	movesV2      = [...]string{"read", "write"}
	callsV2      = [...]string{"read", "write", "metadata"}
	countersV2   = [...]string{
		"cycles_total", "instructions_total", "branch_misses_total", "cache_misses_total",
		"fp_instructions_total scalar", "fp_instructions_total 128", "fp_instructions_total 256", "fp_instructions_total 512",
	}
)

const (
	memorySeriesV2 = "memory_traffic_bytes_total misses"
	missesIndexV2  = 3  // index of cache misses in counters2
	cacheLineV2    = 64 // bytes of memory that a pending cache miss moves; version 2 did not report
)

// amounts collects nonzero amounts.
type amounts []tally.Amount

func (a *amounts) add(n float64, key string, name ...string) {
	if n != 0 {
		*a = append(*a, tally.Amount{Key: key, Name: name, Amount: n})
	}
}

// addTraffic adds the counters of sockets.
func (a *amounts) addTraffic(n []uint64) {
	if len(n) != 3*4*2*2+3 {
		return
	}
	messages := map[string]uint64{}
	for i := range len(n) / 2 {
		if i == 24 {
			break
		}
		protocol, scope, direction := protocolsV2[i/8], scopesV2[i/2%4], directionsV2[i%2]
		if scope == "loopback" {
			a.add(float64(n[2*i]), "loopback_bytes_total "+direction+" "+protocol)
		} else {
			a.add(float64(n[2*i]), "network_bytes_total "+direction+" "+protocol+" "+scope)
		}
		messages[direction+" "+protocol] += n[2*i+1]
	}
	for of, n := range messages {
		a.add(float64(n), "network_messages_total "+of)
	}
	a.add(float64(n[48]), "network_connections_total client")
	a.add(float64(n[49]), "network_connections_total server")
	a.add(float64(n[50]), "network_retransmits_total")
}

func (a *amounts) addQueue(q *queueV2) {
	x := tally.Amount{Key: "run_queue_seconds", Amount: float64(q.Nanos)}
	for _, n := range q.Octaves {
		x.Octaves = append(x.Octaves, float64(n))
	}
	*a = append(*a, x)
}

func (a *amounts) addMount(m *mountedV2) {
	of := "mount"
	if m.Mount.Local {
		of = "file"
	}
	for i, n := range m.Use.Bytes {
		a.add(float64(n), of+"_bytes_total "+movesV2[i], m.Mount.Type, m.Mount.Source)
	}
	for i, n := range m.Use.Operations {
		a.add(float64(n), of+"_operations_total "+callsV2[i], m.Mount.Type, m.Mount.Source)
		if !m.Mount.Local {
			a.add(float64(m.Use.Nanos[i]), "mount_operation_seconds_total "+callsV2[i], m.Mount.Type, m.Mount.Source)
		}
	}
}

// fromVersion2 converts the parts of version 2 that have another form.
func (s *state) fromVersion2(body []byte) error {
	var old stateV2
	if err := json.Unmarshal(body, &old); err != nil {
		return err
	}
	for i := range old.Parts {
		p := &old.Parts[i]
		var a amounts
		a.addTraffic(p.Traffic)
		a.add(float64(p.IOWait), "io_wait_seconds_total")
		for _, d := range p.DiskWait {
			a.add(float64(d.Nanos), "disk_wait_seconds_total", d.Disk)
		}
		for _, d := range p.Links {
			for k, n := range d.Octets {
				a.add(float64(n), "interconnect_bytes_total "+directionsV2[k], d.Device)
			}
		}
		if p.Queue != nil {
			a.addQueue(p.Queue)
		}
		for k := range p.Mounts {
			a.addMount(&p.Mounts[k])
		}
		if p.Events != nil {
			for k, v := range p.Events.V {
				a.add(v, countersV2[k%len(countersV2)])
			}
			a.add(p.Events.M, memorySeriesV2)
			for k, c := range p.Events.P {
				a.addPending(countersV2[k%len(countersV2)], c, 1)
				if k == missesIndexV2 {
					a.addPending(memorySeriesV2, c, cacheLineV2)
				}
			}
		}
		s.Parts[i].Tally = a
	}
	s.Tallies = old.toSources()
	return nil
}

// addPending adds the count c of an event that was never scheduled in that time.
func (a *amounts) addPending(key string, c countV2, factor uint64) {
	if c != (countV2{}) {
		*a = append(*a, tally.Amount{Key: key, Pending: &tally.Pending{Part: factor * c.Part, Enabled: c.Enabled, Running: c.Running}})
	}
}

// toSources returns the states of the sources, with the amounts that wait for their process.
func (old *stateV2) toSources() map[string]tally.SourceState {
	waiting := map[string][]tally.Waiting{}
	wait := func(source string, pid int32, start uint64, all amounts) {
		for _, a := range all {
			for i, n := range a.Octaves {
				if n != 0 {
					octave := tally.Amount{Key: a.Key, Amount: n}
					waiting[source] = append(waiting[source], tally.Waiting{PID: pid, Start: start, Bound: uint8(i + 1), Amount: octave})
				}
			}
			w := tally.Waiting{PID: pid, Start: start, Amount: a}
			w.Octaves = nil
			waiting[source] = append(waiting[source], w)
		}
	}
	for _, w := range old.Awaited.Traffic {
		var n []uint64
		for p := range w.U.Moved {
			for s := range w.U.Moved[p] {
				for d := range w.U.Moved[p][s] {
					n = append(n, w.U.Moved[p][s][d].Bytes, w.U.Moved[p][s][d].Messages)
				}
			}
		}
		var a amounts
		a.addTraffic(append(n, w.U.Opened, w.U.Accepted, w.U.Retransmits))
		wait("traffic", w.P, w.S, a)
	}
	for _, w := range old.Awaited.Waits {
		wait("waits", w.P, w.S, amounts{{Key: "io_wait_seconds_total", Amount: float64(w.U.Nanos)}})
	}
	for _, w := range old.Awaited.Disks {
		wait("waits", w.P, w.S, amounts{{Key: "disk_wait_seconds_total", Name: []string{w.U.Disk}, Amount: float64(w.U.Nanos)}})
	}
	for _, w := range old.Awaited.Queues {
		var a amounts
		a.addQueue(&w.U)
		wait("runqueue", w.P, w.S, a)
	}
	for _, w := range old.Awaited.Mounts {
		var a amounts
		a.addMount(&w.U)
		wait("files", w.P, w.S, a)
	}
	for _, w := range old.Awaited.Counters {
		for k, c := range w.U.CounterUse {
			factors := map[string]uint64{countersV2[k%len(countersV2)]: 1}
			if k == missesIndexV2 {
				factors[memorySeriesV2] = w.U.Line
			}
			for key, factor := range factors {
				wait("counters", w.P, w.S, amounts{{Key: key, Amount: float64(factor * c.Whole)}})
				if c.Enabled > 0 {
					waiting["counters"] = append(waiting["counters"], tally.Waiting{
						PID: w.P, Start: w.S, Enabled: c.Enabled, Running: c.Running,
						Amount: tally.Amount{Key: key, Amount: float64(factor * c.Part)},
					})
				}
			}
		}
	}
	all := map[string]tally.SourceState{}
	for name, began := range map[string]int64{
		"waits": old.WaitBegan, "runqueue": old.QueueBegan, "files": old.MountBegan, "rdma": old.LinkBegan, "counters": old.CountBegan,
		"traffic": 0,
	} {
		x := tally.SourceState{Began: began, Waiting: waiting[name]}
		if name == "traffic" && old.Traffic != nil {
			var a amounts
			a.addTraffic(old.Traffic.Total)
			for _, w := range x.Waiting { // which its totals lack
				a = append(a, w.Amount)
			}
			x.Began, x.Totals = old.Traffic.Began, a
		}
		if x.Began != 0 || x.Waiting != nil {
			all[name] = x
		}
	}
	return all
}
