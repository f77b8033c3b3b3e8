package figure

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTable checks every row against the invariants that the rest of the program relies on.
func TestTable(t *testing.T) {
	word := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	facts := []string{WallSeconds, MachineCores, MachineMemory}
	seen := map[string]bool{}
	labels := map[string]string{}
	for _, f := range All() {
		if !word.MatchString(f.Key) || !word.MatchString(f.ColumnName()) {
			t.Errorf("%s: key and column are words of lower case with _ between", f.Key)
		}
		for s := Runs; s <= Nodes; s <<= 1 {
			if id := string(rune('0'+s)) + f.Key; f.In&s != 0 {
				if seen[id] {
					t.Errorf("%s is twice in the table", f.Key)
				}
				seen[id] = true
			}
		}
		if f.In == 0 || f.In >= Nodes<<1 {
			t.Errorf("%s is of nothing", f.Key)
		}
		if f.Heading == "" || !strings.HasSuffix(f.Help, ".") {
			t.Errorf("%s: a figure has a heading, and a help that is a sentence: %q", f.Key, f.Help)
		}
		if !regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`).MatchString(f.GoName()) {
			t.Errorf("%s: %q is no exported name", f.Key, f.GoName())
		}
		if (len(f.From) > 0) != (f.How.Value != 0) {
			t.Errorf("%s: what has series says how they add up, and only that", f.Key)
		}
		if (f.How.Value == Quantile) != (f.Quantile > 0) || f.Quantile > 1 {
			t.Errorf("%s: quantile %g", f.Key, f.Quantile)
		}
		if f.In&Hours != 0 && len(f.From) > 0 && (f.How.Value != Total || !f.Sums()) {
			t.Errorf("%s: hours hold sums of counters", f.Key)
		}
		for _, s := range f.From {
			if s.Label == "" {
				continue
			}
			if had := labels[s.Metric]; had != "" && had != s.Label {
				t.Errorf("%s: series of %s are distinguished by one label, not by %s and %s", f.Key, s.Metric, had, s.Label)
			}
			labels[s.Metric] = s.Label
		}
		for _, key := range []string{f.As, f.Also} {
			if key != "" && Index(Runs, key) < 0 {
				t.Errorf("%s is as exact as %s, which is no figure", f.Key, key)
			}
		}
		for _, key := range f.Zero.Held {
			if Index(Runs, key) < 0 {
				t.Errorf("%s: zero by %s, which is no figure", f.Key, key)
			}
		}
		for _, b := range f.AtMost {
			if b.Rule == "" || len(b.By) == 0 {
				t.Errorf("%s: a bound has a rule and what it is made of", f.Key)
			}
			for _, key := range b.By {
				if Index(Runs, key) < 0 && !slices.Contains(facts, key) {
					t.Errorf("%s: bound %s by %s, which is neither a figure nor a fact", f.Key, b.Rule, key)
				}
			}
		}
	}
}

// TestGenerated: the generated structs have the fields of the table, in its order.
func TestGenerated(t *testing.T) {
	for s, v := range map[Scope]Numbered{Runs: &Row{}, Hours: &Used{}, Nodes: &Capacity{}} {
		list, typ := InScope(s), reflect.TypeOf(v).Elem()
		fields := typ.NumField()
		if s != Nodes {
			fields-- // Exactness
		}
		if v.Len() != len(list) || fields != len(list) {
			t.Fatalf("%s has %d fields and %d figures, the table %d: run go generate ./figure", typ, typ.NumField(), v.Len(), len(list))
		}
		for i, f := range list {
			x := float64(i)
			*v.At(i) = &x
			if got := reflect.ValueOf(v).Elem().FieldByName(f.GoName()); got.IsNil() || got.Elem().Float() != x {
				t.Errorf("%s.At(%d) is not %s", typ, i, f.GoName())
			}
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if hidden := f.Internal && s == Runs; name != f.Key && !(hidden && name == "-") {
				t.Errorf("%s.%s is %q in JSON, want %q", typ, f.GoName(), name, f.Key)
			}
			if Index(s, f.Key) != i {
				t.Errorf("%s has number %d, want %d", f.Key, Index(s, f.Key), i)
			}
		}
	}
}

func TestExactness(t *testing.T) {
	for _, c := range []struct{ a, b, want Exactness }{
		{Exact, Exact, Exact}, {Exact, AtLeast, AtLeast}, {AtMost, Exact, AtMost}, {AtLeast, AtMost, AtMost}, {Estimated, AtMost, AtMost}, {AtLeast, AtLeast, AtLeast},
		{Estimated, AtLeast, Estimated}, {Modelled, Exact, Modelled}, {AtMost, Modelled, Modelled},
	} {
		if c.a.Worse(c.b) != c.want || c.b.Worse(c.a) != c.want {
			t.Errorf("%s and %s is %s, want %s", c.a, c.b, c.a.Worse(c.b), c.want)
		}
	}
	for key, want := range map[string]Exactness{"memory_peak_bytes": AtMost, "io_write_bytes": Estimated} {
		for _, order := range [][]Exactness{{AtLeast, AtMost}, {AtMost, AtLeast}, {AtMost, Estimated, Exact}} {
			var d Degrees
			for _, e := range order {
				d.Add(key, e)
			}
			if d[key] != want {
				t.Errorf("%s that is %v is %v, want %v", key, order, d[key], want)
			}
		}
	}
	var d Degrees
	d.Add("cpu_seconds", Exact)
	if d != nil {
		t.Errorf("%v of what is exact", d)
	}
	d.Add("cpu_seconds", AtLeast)
	d.Add("cpu_seconds", Exact)
	text, err := json.Marshal(Row{Exactness: d})
	if err != nil || !strings.Contains(string(text), `"exactness":{"cpu_seconds":"at least"}`) {
		t.Errorf("%s %v", text, err)
	}
	var back Row
	if err := json.Unmarshal(text, &back); err != nil || back.Exactness["cpu_seconds"] != AtLeast {
		t.Errorf("%v %v", back.Exactness, err)
	}
	if err := json.Unmarshal([]byte(`{"exactness":{"x":"perhaps"}}`), &back); err == nil {
		t.Error("an unknown word was taken")
	}
	for i, word := range ExactnessWords() {
		if Exactness(i).String() != word {
			t.Errorf("%d is %s, want %s", i, Exactness(i), word)
		}
	}
}

func TestAdd(t *testing.T) {
	v := func(x float64) *float64 { return &x }
	a, b := Used{CPUSeconds: v(1), Started: v(2)}, Used{CPUSeconds: v(3), ReadBytes: v(0)}
	Add(&a, &b)
	if *a.CPUSeconds != 4 || *a.Started != 2 || a.ReadBytes == nil || *a.ReadBytes != 0 || a.EnergyJoules != nil {
		t.Errorf("%+v", a)
	}
	*a.ReadBytes = 7
	if *b.ReadBytes != 0 || *b.CPUSeconds != 3 {
		t.Error("what was added shares its numbers with the sum")
	}
	if Index(Runs, "started") >= 0 || Index(Hours, "none") >= 0 {
		t.Error("an index of what is not there")
	}
}
