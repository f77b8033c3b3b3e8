package move

import (
	_ "embed"
	"strings"
	"time"

	"reckon/figure/format"
	"reckon/internal/phrase"
)

//go:embed texts.txt
var textFile string

var texts = phrase.MustParse(textFile)

// Explanation is the explanation of a result in sentences. Why gives the reason to move or to stay, and Unknown lists what is not known
// about the target. Letter is a message to the owner, who need not know reckon. It contains no other owner's name.
type Explanation struct {
	Why     string
	Unknown []string
	Letter  string
}

// Explain describes a result in words. name returns the name of a shape; from and until enclose the period.
func (r *Result) Explain(w *Work, shapes []Shape, name func(int) string, from, until time.Time) (out Explanation) {
	source := ""
	if r.From >= 0 {
		source = name(r.From)
	}
	unknown := func(yes bool, key string, words phrase.Words) {
		if yes {
			out.Unknown = append(out.Unknown, texts.Say("unknown."+key, words))
		}
	}
	for _, i := range r.OtherVendor {
		vendor := strings.ToUpper(shapes[i].Vendor)
		unknown(vendor != "", "vendor", phrase.Words{"vendor": vendor, "to": name(i)})
	}
	if r.To < 0 {
		out.Why = texts.Say("stay."+r.Why, phrase.Words{"from": source, "rule": r.Rule})
		return out
	}
	s, t := &shapes[r.From], &shapes[r.To]
	out.Why = r.explainReason(w, s, t)
	unknown(t.Site != s.Site, "account", phrase.Words{"cluster": t.Site})
	unknown(true, "software", nil)
	unknown(t.JoulesPerCoreHour == nil || r.JoulesHere == nil, "energy", nil)
	unknown(t.MaxTime == nil, "limit", phrase.Words{"to": name(r.To)})
	unknown(r.There.Source != ByJobs, "file-wait", nil)
	key, freed := "letter", format.Count(r.FreedCores)+" core-hours"
	if s.Bare {
		key = "letter.bare"
	}
	if r.FreedGPUs > 0 {
		freed += " and " + format.Count(r.FreedGPUs) + " GPU-hours"
	}
	out.Letter = texts.Say(key, phrase.Words{"name": w.Name, "hours": format.Count(r.Hours) + " core-hours",
		"runs": format.Plural(float64(len(w.Runs)), "run"), "from": source, "to": name(r.To), "since": from.UTC().Format(time.DateOnly),
		"until": until.UTC().Format(time.DateOnly), "why": out.Why, "there": r.There.describe(), "here": r.Here.describe(), "freed": freed,
		"unknown": strings.Join(out.Unknown, "; "), "jobs": strings.Join(r.Top, ", ")})
	return out
}

// explainReason explains why a work should move from a shape to another.
func (r *Result) explainReason(w *Work, from, to *Shape) string {
	words, key := phrase.Words{"share": format.Percent(r.Share), "value": format.Percent(r.Value)}, r.Rule
	switch r.Rule {
	case GPUUp:
		words["gpus"], words["queue"] = format.Count(*from.GPUs), map[bool]string{false: ", and it waited for them"}[from.Bare]
	case CPUUp:
		words["more"] = texts.Say("cpu-up."+map[bool]string{true: "contended", false: "scales"}[w.Contended], nil)
	case Memory:
		key += map[bool]string{true: ".up", false: ".down"}[*to.Memory > *from.Memory]
	case Nodes, Small:
		words["value"] = format.Count(r.Value)
	case Length:
		if key += ".up"; *to.MaxTime < *from.MaxTime {
			key, words["value"] = "length.down", format.Time(r.Value)
		}
	}
	return texts.Say(key, words)
}

// describe describes the length of a wait and its source.
func (w *Wait) describe() string {
	switch {
	case w == nil:
		return texts.Say("wait.unknown", nil)
	case w.Source == NoQueue:
		return texts.Say("wait.none", nil)
	case w.Source != ByJobs:
		return texts.Say("wait.file", phrase.Words{"time": format.Time(w.Seconds), "source": w.Source})
	}
	return texts.Say("wait.jobs", phrase.Words{"time": format.Time(w.Seconds), "jobs": format.Count(float64(w.Jobs))})
}
