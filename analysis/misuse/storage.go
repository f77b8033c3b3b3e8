package misuse

import (
	"math"

	"reckon/internal/phrase"
)

func (c *StoragePatternRule) needs() (Needs, bool) { return Needs{Ran: c.Minimum}, c.On }

func (c *StoragePatternRule) lines() (least map[string]float64, folded bool) {
	return map[string]float64{"mount_metadata_operations": 30_000}, true
}

// judge finds access patterns that burden the storage more than the data requires: metadata
// operations in a loop, rereading the same data, and one node that writes for all.
func (c *StoragePatternRule) judge(w *Workload, _ *Policy) (out []Finding) {
	if isExempt(c.Exempt, w.Owner) {
		return nil
	}
	return append(append(w.metadataStorm(c), w.readsAgain(c)...), w.oneWriter(c)...)
}

// metadataStorm finds workloads that open, look up and list files at a sustained rate. If only the total is known, it
// takes the mean rate over the whole run. Access to many small files has the same effect and is found as well.
func (w *Workload) metadataStorm(c *StoragePatternRule) []Finding {
	return sustainedRule{rule: StoragePattern, part: "metadata", key: "storage-pattern.metadata", what: "metadata requests in that time",
		figure: "mount_metadata_operations", rate: c.MetadataRate, high: c.MetadataHighRate, minimum: c.Minimum}.findings(w)
}

// readsAgain finds work that rereads data that had recently been in memory.
func (w *Workload) readsAgain(c *StoragePatternRule) []Finding {
	if !isKnown(w.ReadBytes) || !isKnown(w.Refaulted) || !(*w.ReadBytes >= c.Bytes) {
		return nil
	}
	share := math.Min(*w.Refaulted / *w.ReadBytes, 1)
	if !(share >= c.Again) {
		return nil
	}
	return []Finding{w.newFinding(StoragePattern, Low, "again", "storage-pattern.again",
		phrase.Words{"share": phrase.Percent(share), "read": phrase.Bytes(*w.ReadBytes)},
		Evidence{Text: "share that had been in memory shortly before", Value: share, Unit: "ratio", Limit: limit(c.Again)})}
}

// oneWriter finds jobs that write nearly all their data from one node.
func (w *Workload) oneWriter(c *StoragePatternRule) []Finding {
	if len(w.PerNodeWritten) < c.Nodes {
		return nil
	}
	sum, most := 0.0, 0.0
	for _, v := range w.PerNodeWritten {
		sum, most = sum+v, math.Max(most, v)
	}
	if !(sum >= c.Bytes) || most < c.WriterShare*sum {
		return nil
	}
	return []Finding{w.newFinding(StoragePattern, Low, "writer", "storage-pattern.writer",
		phrase.Words{"nodes": phrase.Count(float64(len(w.PerNodeWritten))), "share": phrase.Percent(most / sum),
			"written": phrase.Bytes(sum)},
		Evidence{Text: "share of the node that writes most", Value: most / sum, Unit: "ratio", Limit: limit(c.WriterShare)})}
}
