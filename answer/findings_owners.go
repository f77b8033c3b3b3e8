package answer

import (
	"cmp"
	"slices"

	"reckon/analysis/misuse"
	"reckon/figure/wire"
)

// byOwner groups findings by owner, in descending order of wasted core-hours. No waste counts twice, because the rules
// omit a finding if another one about the same job includes its waste.
func byOwner(list []wire.Finding) []wire.FindingOwner {
	type key struct{ site, owner string }
	out := []wire.FindingOwner{}
	at := map[key]int{}
	for i := range list {
		f := &list[i]
		k := key{f.Site, f.Owner}
		n, ok := at[k]
		if !ok {
			n, at[k] = len(out), len(out)
			out = append(out, wire.FindingOwner{Site: f.Site, Owner: f.Owner, Severity: f.Severity, Rules: []string{}})
		}
		o := &out[n]
		o.Findings++
		if misuse.MoreSevere(f.Severity, o.Severity) {
			o.Severity = f.Severity
		}
		if !slices.Contains(o.Rules, f.Rule) {
			o.Rules = append(o.Rules, f.Rule)
		}
		for _, e := range f.Evidence {
			if into := wastedIn(o, e.Unit); e.Wasted && into != nil {
				*into = new(orZero(*into) + e.Value)
			}
		}
	}
	for i := range out {
		slices.Sort(out[i].Rules)
	}
	slices.SortStableFunc(out, func(a, b wire.FindingOwner) int {
		return cmp.Or(cmp.Compare(orZero(b.CoreSeconds), orZero(a.CoreSeconds)), cmp.Compare(orZero(b.GPUSeconds), orZero(a.GPUSeconds)),
			cmp.Compare(b.Findings, a.Findings), cmp.Compare(a.Owner, b.Owner))
	})
	return out
}

// wastedIn returns the sum for amounts of a unit; nil for other units.
func wastedIn(o *wire.FindingOwner, unit string) **float64 {
	switch unit {
	case "core-seconds":
		return &o.CoreSeconds
	case "gpu-seconds":
		return &o.GPUSeconds
	case "byte-seconds":
		return &o.ByteSeconds
	}
	return nil
}
