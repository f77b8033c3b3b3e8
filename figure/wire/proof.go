package wire

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"time"
)

// Proof is the agreement of usage with the counters that it was computed from: the response of GET
// /api/reckon/v1/proof and POST /api/reckon/v1/prove.
type Proof struct {
	From *time.Time `json:"from"` // The first hour that was compared; null when none was.
	To   *time.Time `json:"to"`   // End of the last hour.
	Made *time.Time `json:"made"` // Time when it was finished; null if there is none.

	Hours     int     `json:"hours"`      // Hours that were compared.
	NodeHours int     `json:"node_hours"` // Hours of single nodes that were compared.
	Accounted float64 `json:"accounted"`  // CPU time that usage holds as the counters do, by all that they hold.

	Differing   int               `json:"differing"`   // Figures of an hour and a node, or of an hour and all owners, that differ.
	Differences []ProofDifference `json:"differences"` // First differences.
	Mended      bool              `json:"mended"`      // The hours were made again and agree since.
	// Hours that were not compared because samples were lost to damage.
	LeftOut []time.Time `json:"left_out,omitempty"`
}

// ProofDifference is a differing figure of one hour.
type ProofDifference struct {
	Hour   time.Time `json:"hour"`           // Start of the hour.
	Site   string    `json:"site,omitempty"` // Site of the node.
	Node   string    `json:"node,omitempty"` // Name of the node; empty for all owners of the site together.
	Figure string    `json:"figure"`         // Key of the figure.
	Usage  *float64  `json:"usage"`          // Value in the usage records; null if none.
	Raw    *float64  `json:"raw"`            // Value from the counters; null if none.
}

// ProofQuery selects the hours to compare. Zero times mean all hours with stored samples.
type ProofQuery struct {
	Since, Until time.Time
	Mend         bool
}

// Query encodes the query as the form of POST /api/reckon/v1/prove.
func (q ProofQuery) Query() url.Values {
	v := url.Values{"mend": {strconv.FormatBool(q.Mend)}}
	for key, t := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !t.IsZero() {
			v.Set(key, FormatTime(t))
		}
	}
	return v
}

// Summary returns the proof as a sentence, with times in the zone of now.
func (p *Proof) Summary(now time.Time) string {
	if p == nil || p.Made == nil {
		return "not checked yet"
	}
	if p.From == nil || p.Hours == 0 {
		return "not checked: no whole hour has all its samples yet"
	}
	at := p.Made.In(now.Location()).Format("15:04 MST")
	if now.Sub(*p.Made) > 24*time.Hour {
		at = p.Made.In(now.Location()).Format("2006-01-02 15:04 MST")
	}
	text := fmt.Sprintf("checked %s, %s accounted for", at, p.Percent())
	if p.Differing > 0 {
		text += fmt.Sprintf(", %d figures of hours differed", p.Differing)
		if p.Mended {
			text += " and were mended"
		}
	}
	return text
}

// Percent formats the accounted share; 100.00 % only if nothing differs.
func (p *Proof) Percent() string {
	share := math.Floor(p.Accounted*1e4) / 100
	if p.Differing > 0 {
		share = min(share, 99.99)
	} else {
		share = 100
	}
	return strconv.FormatFloat(share, 'f', 2, 64) + " %"
}
