package account

import (
	"slices"

	"reckon/metric"
	"reckon/sensor"
)

var (
	nodeIO = metric.NewDesc("reckon_node_io_bytes_total", metric.Counter, metric.Bytes, []string{"direction"},
		"Bytes that all processes of the node read from and wrote to storage since the agent began, by direction: workloads, short work "+
			"and "+
			"other together.")
	nodeWait = metric.NewDesc("reckon_node_cpu_wait_seconds_total", metric.Counter, metric.Seconds, nil,
		"Time that all threads of the node waited for a processor since the agent began: workloads, short work and other together.")
)

// exportNodeTotals appends the task source's totals over all processes of the node.
func (tab *table) exportNodeTotals(b *metric.Batch) {
	if tab.have&sensor.FieldIO != 0 {
		b.Add(tab.nodeSeries(0, nodeIO, "read"), float64(tab.counted.read))
		b.Add(tab.nodeSeries(1, nodeIO, "write"), float64(tab.counted.write))
	}
	if tab.have&sensor.FieldWait != 0 {
		b.Add(tab.nodeSeries(2, nodeWait), toSeconds(tab.counted.wait))
	}
}

// nodeSeries returns a series of the node, which begins with a zero when the ledger began.
func (tab *table) nodeSeries(i int, d *metric.Desc, labels ...string) *metric.Series {
	if tab.rows[i] == nil {
		tab.rows[i] = metric.NewSeries(d, slices.Clone(labels)...)
		tab.rows[i].Created = (tab.epoch + int64(tab.began)) / 1e6
	}
	return tab.rows[i]
}
