package sensortest

import (
	"slices"

	"reckon/sensor"
)

// Sum returns the sum of a series of the first set over some processes of a pass. It omits counts that must be scaled.
func Sum(p *sensor.TallyPass, series int, pids ...int32) (sum uint64) {
	for i := range p.Rows {
		if r := &p.Rows[i]; r.Name == 0 && int(r.Series) == series && r.Bound == 0 && r.Enabled == 0 && slices.Contains(pids, r.PID) {
			sum += r.Amount
		}
	}
	return sum
}
