package node

import (
	"bytes"
	"strings"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

// NewNetstat opens /proc/net/netstat, snmp and snmp6, which count traffic and errors of network protocols. It exports
// the default fields of node_exporter.
func NewNetstat(root string) (sensor.Sensor, error) {
	t, err := openNet(root, "snmp")
	if err != nil {
		return nil, err
	}
	f := &namedFigures{name: "netstat", texts: []*kernelFile{t}, parse: parseNetstat, desc: netstatDesc}
	for _, name := range []string{"netstat", "snmp6"} { // the latter is absent without IPv6
		if t, err := openNet(root, name); err == nil {
			f.texts = append(f.texts, t)
		}
	}
	if err := f.discoverFigures(); err != nil {
		return nil, err
	}
	return f, nil
}

// netstatWords are the fields to read for each protocol, besides receive errors.
var netstatWords = map[string][]string{
	"Ip6": {"InOctets", "OutOctets"}, "IpExt": {"InOctets", "OutOctets"},
	"Ip":   {"Forwarding"},
	"Icmp": {"InMsgs", "OutMsgs"}, "Icmp6": {"InMsgs", "OutMsgs"},
	"TcpExt": {"TCPSynRetrans", "TCPTimeouts", "TCPOFOQueue", "TCPRcvQDrop"},
	"Tcp":    {"ActiveOpens", "InSegs", "OutSegs", "OutRsts", "PassiveOpens", "RetransSegs", "CurrEstab"},
	"Udp":    {"InDatagrams", "OutDatagrams", "NoPorts", "RcvbufErrors", "SndbufErrors"},
	"Udp6":   {"InDatagrams", "OutDatagrams", "NoPorts", "RcvbufErrors", "SndbufErrors"},
}

func netstatDesc(protocol, field []byte) *metric.Desc {
	p, n := metricName(protocol), metricName(field)
	wanted := n == "InErrors" || n == "InErrs" || (p == "TcpExt" && (strings.HasPrefix(n, "Listen") || strings.HasPrefix(n, "Syncookies")))
	for _, w := range netstatWords[p] {
		wanted = wanted || w == n
	}
	if !wanted {
		return nil
	}
	name, help := "node_netstat_"+p+"_"+n, "Statistic "+p+n+"."
	if n == "CurrEstab" || n == "Forwarding" {
		return gauge(name, help, metric.None)
	}
	return counter(name, help, metric.None)
}

// parseNetstat parses pairs of lines with names and values, "Tcp: ActiveOpens InSegs" and "Tcp: 12 3456", and single
// lines such as "Ip6InOctets 123". It skips negative numbers, which mean that the figure is unavailable.
func parseNetstat(t []byte, emit func(protocol, field []byte, v uint64)) {
	for len(t) > 0 {
		var names, values []byte
		names, t = sysfs.Line(t)
		protocol, names, ok := bytes.Cut(names, []byte{':'})
		if !ok {
			w, rest := sysfs.Field(protocol)
			value, _ := sysfs.Field(rest)
			six := bytes.IndexByte(w, '6')
			if v, isNumber := sysfs.Unsigned(value); isNumber && six > 0 && six+1 < len(w) {
				emit(w[:six+1], w[six+1:], v)
			}
			continue
		}
		values, t = sysfs.Line(t)
		again, values, ok := bytes.Cut(values, []byte{':'})
		if !ok || !bytes.Equal(again, protocol) || len(protocol) == 0 {
			continue
		}
		for {
			var n, w []byte
			n, names = sysfs.Field(names)
			w, values = sysfs.Field(values)
			if len(n) == 0 || len(w) == 0 {
				break
			}
			if v, isNumber := sysfs.Unsigned(w); isNumber {
				emit(protocol, n, v)
			}
		}
	}
}

// Conntrack is the fill level of the firewall's connection tracking table.
type Conntrack struct {
	texts  [2]*kernelFile
	descs  []*metric.Desc
	series []*metric.Series
}

// NewConntrack opens /proc/sys/net/netfilter, which exists if connections are tracked.
func NewConntrack(root string) (*Conntrack, error) {
	c := &Conntrack{descs: []*metric.Desc{
		gauge("node_nf_conntrack_entries", "Number of currently allocated flow entries for connection tracking.", metric.None),
		gauge("node_nf_conntrack_entries_limit", "Maximum size of connection tracking table.", metric.None),
	}}
	for i, name := range []string{"nf_conntrack_count", "nf_conntrack_max"} {
		t, err := openFile(root, "proc/sys/net/netfilter/"+name)
		if err != nil {
			_ = c.Close()
			return nil, err
		}
		c.texts[i] = t
	}
	c.series = newSeries(c.descs)
	return c, nil
}

// Name returns "conntrack".
func (c *Conntrack) Name() string { return "conntrack" }

// Descs lists the two figures.
func (c *Conntrack) Descs() []*metric.Desc { return c.descs }

// Close closes the files.
func (c *Conntrack) Close() error {
	first := c.texts[0].Close()
	if err := c.texts[1].Close(); err != nil {
		return err
	}
	return first
}

// Read appends the figures.
func (c *Conntrack) Read(b *metric.Batch) error {
	for i, t := range c.texts {
		text, err := t.read()
		if err != nil {
			return err
		}
		w, _ := sysfs.Field(text)
		v, ok := sysfs.Unsigned(w)
		if !ok {
			return t.malformedError("a number wanted")
		}
		b.Add(c.series[i], float64(v))
	}
	return nil
}
