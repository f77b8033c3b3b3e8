package waggle

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
)

var noon = time.Unix(1_760_000_000, 123456789)

// TestEncode: the format is as of wagglemsg.dump (github.com/waggle-sensor/pywaggle, wagglemsg).
func TestEncode(t *testing.T) {
	m := Message{Name: "reckon.node.power_watts", Value: 21.5, Time: noon, Meta: map[string]string{"host": "w023.ws-nxcore", "method": "measured"}}
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"name":"reckon.node.power_watts","ts":1760000000123456789,"meta":{"host":"w023.ws-nxcore","method":"measured"},"val":21.5}`
	if string(b) != want {
		t.Errorf("%s\nwant\n%s", b, want)
	}
	if b, err := (&Message{Name: "a", Time: noon}).Encode(); err != nil || !strings.Contains(string(b), `"meta":{}`) {
		t.Errorf("%s, %v: meta is a map, also an empty one", b, err)
	}
}

func TestEncodeRefuses(t *testing.T) {
	for word, m := range map[string]Message{
		"a-z":       {Name: "Reckon.node", Time: noon},
		`part ""`:   {Name: "reckon..node", Time: noon},
		"128":       {Name: strings.Repeat("a", 129), Time: noon},
		"itself":    {Name: "upload", Time: noon},
		"no number": {Name: "a", Value: math.NaN(), Time: noon},
		"2000":      {Name: "a", Time: earliest.Add(-1)},
	} {
		if _, err := m.Encode(); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%+v: %v, want %q in it", m, err, word)
		}
	}
	for _, m := range []Message{{Name: strings.Repeat("a", 128), Time: noon}, {Name: "a", Time: earliest}} {
		if _, err := m.Encode(); err != nil {
			t.Error(err)
		}
	}
}

func TestAddress(t *testing.T) {
	p, err := NewPublisher("amqp://plugin@rabbitmq:5672?password_file=/run/pw&app_id=1-2&scope=beehive")
	if err != nil || p.user != "plugin" || p.passwordFile != "/run/pw" || p.appID != "1-2" || p.scope != "beehive" || p.address.String() != "amqp://plugin@rabbitmq:5672" {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := NewPublisher("amqp://rabbitmq"); err != nil || p.user != "plugin" || p.scope != "all" {
		t.Errorf("%+v, %v", p, err)
	}
	for address, word := range map[string]string{
		"rabbitmq:5672": "give amqp://", "http://rabbitmq": "give amqp://", "amqp://": "give amqp://", "amqp://h?scope=moon": "scope=moon",
		"amqp://h?passwordfile=x": "password_file", "amqp://plugin:secret@h": "password_file",
	} {
		_, err := NewPublisher(address)
		if err == nil || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q in it", address, err, word)
		}
	}
}

// TestCollect: every figure is published under a name that Waggle accepts; a failed query does not affect the others.
func TestCollect(t *testing.T) {
	ask := func(_ context.Context, expr string, at time.Time) (promql.Vector, error) {
		if strings.Contains(expr, "network") {
			return nil, errors.New("too much")
		}
		return promql.Vector{
			{Metric: labels.FromStrings("site", "", "node", "n1", "workload", "pod/a/b", "method", "modelled"), F: 2},
			{Metric: labels.FromStrings("node", "n1"), F: math.NaN()},
		}, nil
	}
	out, err := Collect(t.Context(), ask, noon)
	if err == nil || !strings.Contains(err.Error(), "network_bytes_per_second: too much") {
		t.Errorf("%v", err)
	}
	if len(out) != len(publishedFigures)-1 {
		t.Fatalf("%d messages of %d figures", len(out), len(publishedFigures))
	}
	for _, m := range out {
		b, err := m.Encode()
		if err != nil {
			t.Error(err)
		}
		var back struct{ Meta map[string]string }
		if err := json.Unmarshal(b, &back); err != nil || back.Meta["host"] != "n1" || back.Meta["method"] != "modelled" || back.Meta["workload"] != "pod/a/b" || len(back.Meta) != 3 {
			t.Errorf("%s, %v", b, err)
		}
	}
}

func TestParse(t *testing.T) {
	// A response of the data API (docs/querying-measurements.md of waggle-sensor/waggle-beehive-v2).
	l, at, v, err := parseRecord([]byte(`{"timestamp":"2021-06-04T10:36:45.208473212Z","name":"env.temperature","value":23.1,"meta":{"node":"000048b02d05a0a4","vsn":"W023","plugin":"metsense:1.0.3","sensor":"bme280","job":"Pluginctl","zone-id":"core"}}`))
	if err != nil || at != 1622803005208 || v != 23.1 {
		t.Fatalf("%d %v %v", at, v, err)
	}
	want := labels.FromStrings("__name__", "env_temperature", "node", "W023", "node_id", "000048b02d05a0a4", "vsn", "W023", "plugin", "metsense:1.0.3",
		"sensor", "bme280", "meta_job", "Pluginctl", "zone_id", "core", "source", "waggle")
	if !labels.Equal(l, want) {
		t.Errorf("%s\nwant\n%s", l, want)
	}
	for line, word := range map[string]string{
		`{`: "no measurement", `[]`: "no measurement", `{"name":"a","value":1}`: "timestamp", `{"timestamp":"2021-06-04T10:36:45Z","value":1}`: "without a name",
		`{"timestamp":"2021-06-04T10:36:45Z","name":"a"}`: "no value", `{"timestamp":"2021-06-04T10:36:45Z","name":"a","value":null}`: "no value",
		`{"timestamp":"1999-06-04T10:36:45Z","name":"a","value":1}`: "before the year 2000", `{"timestamp":"noon","name":"a","value":1}`: "no measurement",
		`{"timestamp":"2021-06-04T10:36:45Z","name":"upload","value":"https://x/y.jpg","meta":{"node":"1"}}`: errText.Error(),
	} {
		if _, _, _, err := parseRecord([]byte(line)); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v, want %q in it", line, err, word)
		}
	}
	if _, _, v, err := parseRecord([]byte(`{"timestamp":"2021-06-04T10:36:45Z","name":"a","value":true}`)); v != 1 || err != nil {
		t.Errorf("%v, %v", v, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"timestamp":"2021-06-04T10:36:45Z","name":"9a","value":1e3,"meta":{"":"x","é":"y"}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		l, _, _, err := parseRecord(line)
		if err != nil {
			return
		}
		if twice, is := l.HasDuplicateLabelNames(); is {
			t.Errorf("%s is twice in %s", twice, l)
		}
		l.Range(func(x labels.Label) {
			if x.Name == "" || strings.Trim(x.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" {
				t.Errorf("label %q", x.Name)
			}
		})
	})
}
