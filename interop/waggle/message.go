// Package waggle exchanges data with nodes and archives of Waggle and Sage (https://github.com/waggle-sensor, https://sagecontinuum.org):
// a [Publisher] sends figures to the message queue of a node in the format of its plugins, and an [Importer] imports responses of the
// archive's data API.
//
// A message is one line of JSON, in the format of Waggle's package wagglemsg: name, val, ts (nanoseconds since the Unix epoch) and meta,
// a map of strings. The archive responds with name, value, timestamp (RFC 3339) and meta.
package waggle

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
)

// Message is one measurement.
type Message struct {
	// Name consists of parts of lower-case letters, digits and underscores, separated by dots, 128 bytes at most.
	Name  string
	Value float64
	Time  time.Time
	Meta  map[string]string
}

// earliest is the earliest time that Waggle accepts: earlier times are in the wrong unit.
var earliest = time.Unix(0, 946706400000000000)

// Encode returns the message in wire format. The error names the rule of Waggle's plugins that it breaks.
func (m *Message) Encode() ([]byte, error) {
	if err := valid(m.Name); err != nil {
		return nil, err
	}
	if math.IsNaN(m.Value) || math.IsInf(m.Value, 0) {
		return nil, fmt.Errorf("%s: %v is no number in JSON", m.Name, m.Value)
	}
	if m.Time.Before(earliest) {
		return nil, fmt.Errorf("%s: the time %s is before the year 2000", m.Name, m.Time.UTC().Format(time.RFC3339))
	}
	meta := m.Meta
	if meta == nil {
		meta = map[string]string{}
	}
	return json.Marshal(struct {
		Name  string            `json:"name"`
		Time  int64             `json:"ts"`
		Meta  map[string]string `json:"meta"`
		Value float64           `json:"val"`
	}{m.Name, m.Time.UnixNano(), meta, m.Value})
}

// valid checks a name against the rules of pywaggle's publish.
func valid(name string) error {
	if len(name) > 128 {
		return fmt.Errorf("the name %q has more than 128 bytes", name)
	}
	if name == "upload" {
		return fmt.Errorf("the name %q belongs to Waggle itself", name)
	}
	for part := range strings.SplitSeq(name, ".") {
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			return fmt.Errorf("the name %q has a part %q: a part is of a-z, 0-9 and _", name, part)
		}
	}
	return nil
}
