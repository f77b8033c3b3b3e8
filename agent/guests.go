package agent

import (
	"errors"
	"fmt"

	"reckon/account"
	"reckon/metric"
	"reckon/sensor/host"
	"reckon/workload"
)

// guest is a virtual machine of this host.
type guest struct{ name, owner string }

// writeGuests writes the energy charged to each virtual machine to a file that the guest can read. The files of ended
// machines keep their last content.
func (a *Agent) writeGuests(b *metric.Batch) {
	if a.config.Guests == "" {
		return
	}
	shares := make(map[guest]*host.Share)
	for i := range b.Samples {
		s := b.Samples[i].Series
		if s.Desc.Name != account.WorkloadEnergy || !workload.Kind(s.Label("kind")).Guest() {
			continue
		}
		g := guest{workload.ID(s.Label("workload")).Name(), s.Label("owner")}
		share := shares[g]
		if share == nil {
			share = &host.Share{Written: b.Time}
			shares[g] = share
		}
		share.Add(s.Label("domain"), s.Label("method"), b.Samples[i].Value)
	}
	var failed error
	for g, share := range shares {
		if err := share.Write(a.config.Guests, g.owner, g.name); err != nil {
			failed = errors.Join(failed, fmt.Errorf("hand energy to the virtual machine %s of %s: %w", g.name, g.owner, err))
		}
	}
	a.recordResult("guests", failed)
}
