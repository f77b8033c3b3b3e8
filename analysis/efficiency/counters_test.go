package efficiency

import (
	"strings"
	"testing"

	"reckon/figure"
)

// TestCounters: what limits it on its cores, on both sides of each threshold.
func TestCounters(t *testing.T) {
	const (
		bandwidth  = "memory bandwidth limits it"
		memory     = "most likely it waited for memory"
		stalled    = "waited inside its processors"
		arithmetic = "arithmetic limits it"
		flowing    = "memory did not hold them up"
		scalars    = "work on one number each"
	)
	of := func(ipc, traffic, fp, ones float64) figure.Row {
		return figure.Row{Cycles: at(1e13), Instructions: at(ipc * 1e13), MemoryTrafficBytes: at(traffic), FPInstructions: at(fp * ipc * 1e13), FPScalarInstructions: at(ones * fp * ipc * 1e13)}
	}
	one := func(edit func(*Usage)) Usage { return batch(1, 0.9, 1, func(u *Usage) { u.Cores = nil }, edit) }
	cpu := 0.9 * 3600
	for name, c := range map[string]struct {
		c    figure.Row
		want string
	}{
		"bandwidth":                   {of(0.69, cpu*5e9, 0, 0), bandwidth},
		"less traffic":                {of(0.69, cpu*5e9-1, 0, 0), memory},
		"some traffic":                {of(0.69, cpu*0.4e9, 0, 0), memory},
		"hardly any traffic":          {of(0.69, cpu*0.4e9-1, 0, 0), stalled},
		"traffic not known":           {figure.Row{Cycles: at(1e13), Instructions: at(5e12)}, stalled},
		"more instructions":           {of(0.7, cpu*1e10, 0, 0), ""},
		"just below":                  {of(1.49, 0, 0.5, 0), ""},
		"it computes":                 {of(1.5, cpu*1e10, 0.1, 0), arithmetic},
		"it may wait actively":        {of(1.5, cpu*1e10, 0.099, 0), flowing},
		"widths are not counted":      {figure.Row{Cycles: at(1e13), Instructions: at(2e13)}, flowing},
		"too few cycles":              {figure.Row{Cycles: at(9.9e9), Instructions: at(1e9)}, ""},
		"enough cycles":               {figure.Row{Cycles: at(1e10), Instructions: at(1e9)}, stalled},
		"scalars":                     {of(1, 0, 0.05, 0.8), scalars},
		"few floating-point numbers":  {of(1, 0, 0.049, 1), ""},
		"mostly vectors":              {of(1, 0, 0.5, 0.79), ""},
		"widths not known":            {figure.Row{Cycles: at(1e13), Instructions: at(1e13), FPInstructions: at(1e13)}, ""},
		"nothing known":               {figure.Row{}, ""},
		"instructions without cycles": {figure.Row{Instructions: at(1e13)}, ""},
	} {
		got := spoken(one(func(u *Usage) { c.c.CPUSeconds, c.c.CoresP95 = u.CPUSeconds, u.CoresP95; u.Row = c.c }))
		for _, sentence := range []string{bandwidth, memory, stalled, arithmetic, flowing, scalars} {
			if strings.Contains(got, sentence) != (sentence == c.want) {
				t.Errorf("%s: want %q, it says\n%s", name, c.want, got)
			}
		}
	}
}
