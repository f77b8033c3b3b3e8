package efficiency

import (
	"math"
	"strings"
	"testing"
	"testing/quick"
)

func at(v float64) *float64 { return &v }
func code(v int) *int       { return &v }

// TestJudge holds labelled cases: what a colleague would say, and what not.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		u        Usage
		kind     string
		severity Severity
		text     string
	}{
		"too many cores":     {Usage{WallSeconds: 3600, CPUSeconds: at(8 * 3600), CoresP95: at(8), RequestCores: at(64)}, "cores", Warning, "8 of the 64 cores it held on average (12%), and no more than 8 for 95% of the time: 8 cores would have done"},
		"p95 rounds up":      {Usage{WallSeconds: 3600, CPUSeconds: at(3600), CoresP95: at(1.2), RequestCores: at(4)}, "cores", Warning, "2 cores would have done"},
		"serial phases":      {Usage{WallSeconds: 3600, CPUSeconds: at(3600), CoresP95: at(8), RequestCores: at(8)}, "cores", Warning, "do not run in parallel"},
		"well used":          {Usage{WallSeconds: 3600, CPUSeconds: at(7.5 * 3600), CoresP95: at(8), RequestCores: at(8)}, "cores", Good, "94%"},
		"no request":         {Usage{WallSeconds: 3600, CPUSeconds: at(360), CoresP95: at(1), RequestCores: at(2), CoresImplied: true}, "cores", Info, "asked for none"},
		"too much memory":    {Usage{WallSeconds: 600, MemoryPeak: at(2 << 30), RequestMemory: at(64 << 30)}, "memory", Warning, "2 GiB of the 64 GiB it asked for (3%); a fifth above the peak would do: 2.4 GiB"},
		"nearly killed":      {Usage{WallSeconds: 600, MemoryPeak: at(63 << 30), RequestMemory: at(64 << 30)}, "memory", Warning, "would be killed"},
		"oom":                {Usage{WallSeconds: 600, OOMKills: at(1)}, "oom", Critical, "1 process of it"},
		"oom by scheduler":   {Usage{WallSeconds: 600, State: "out_of_memory"}, "oom", Critical, "want of memory"},
		"timeout":            {Usage{WallSeconds: 3600, State: "timeout"}, "timeout", Critical, "1 h 00 min"},
		"segfault":           {Usage{WallSeconds: 60, ExitCode: code(139)}, "exit", Critical, "139 (signal 11: segmentation fault)"},
		"idle gpu":           {Usage{WallSeconds: 3600, GPUSeconds: at(36), RequestGPUs: at(1)}, "gpu", Warning, "its 1 GPU"},
		"waits":              {Usage{WallSeconds: 100, CPUSeconds: at(100), CPUWaitSeconds: at(100)}, "cpu_wait", Warning, "50%"},
		"throttled":          {Usage{WallSeconds: 100, ThrottledSeconds: at(40)}, "throttled", Warning, "40 s"},
		"one node idle":      {Usage{WallSeconds: 100, Nodes: []Node{{Name: "a", CPUSeconds: at(1000)}, {Name: "b", CPUSeconds: at(0)}}}, "balance", Warning, "node b did 0%"},
		"even":               {Usage{WallSeconds: 100, Nodes: []Node{{Name: "a", CPUSeconds: at(1000)}, {Name: "b", CPUSeconds: at(900)}}}, "balance", Good, "95%"},
		"gpu of one idle":    {Usage{WallSeconds: 100, Nodes: []Node{{Name: "a", GPUSeconds: at(100)}, {Name: "b", GPUSeconds: at(1)}}}, "gpu_balance", Warning, "node b had 2% of the GPU time"},
		"memory of one":      {Usage{WallSeconds: 100, Nodes: []Node{{Name: "a", MemoryPeak: at(60 << 30)}, {Name: "b", MemoryPeak: at(1 << 30)}, {Name: "c", MemoryPeak: at(1 << 30)}}}, "memory_balance", Info, "node a peaked at 2.9 times the memory"},
		"short":              {Usage{WallSeconds: 3, CPUSeconds: at(1), RequestCores: at(64), CoresP95: at(1)}, "short", Info, "too short"},
		"shorter than asked": {Usage{WallSeconds: 600, RequestSeconds: at(86400)}, "time", Info, "10 min of the 24 h 00 min"},
		"swap":               {Usage{WallSeconds: 600, SwapPeak: at(1 << 30)}, "swap", Warning, "1 GiB"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Judge(c.u)
			if len(got) != 1 || got[0].Kind != c.kind || got[0].Severity != c.severity || !strings.Contains(got[0].Text, c.text) {
				t.Errorf("got %+v\nwant one %s of severity %s with %q", got, c.kind, c.severity, c.text)
			}
		})
	}
}

// TestSilent holds what must not be said.
func TestSilent(t *testing.T) {
	for name, u := range map[string]Usage{
		"nothing known":       {WallSeconds: 3600},
		"node not measured":   {WallSeconds: 100, Nodes: []Node{{Name: "a", CPUSeconds: at(1000)}, {Name: "b"}}},
		"memory not measured": {WallSeconds: 100, Nodes: []Node{{Name: "a", MemoryPeak: at(60 << 30)}, {Name: "b"}}},
		"no gpu anywhere":     {WallSeconds: 100, Nodes: []Node{{Name: "a"}, {Name: "b"}}},
		"running, code kept":  {WallSeconds: 100, Running: true, ExitCode: code(1)},
		"running, time left":  {WallSeconds: 100, Running: true, RequestSeconds: at(86400)},
		"small memory":        {WallSeconds: 100, MemoryPeak: at(10 << 20), RequestMemory: at(512 << 20)},
		"not a number":        {WallSeconds: 100, CPUSeconds: at(math.NaN()), RequestCores: at(4), MemoryPeak: at(math.Inf(1)), RequestMemory: at(1)},
		"waited, no request":  {WallSeconds: 100, CPUSeconds: at(100), CPUWaitSeconds: at(5)},
		"request of nothing":  {WallSeconds: 100, CPUSeconds: at(100), RequestCores: at(0), RequestMemory: at(0), MemoryPeak: at(1)},
		"waited for a moment": {WallSeconds: 100, CPUSeconds: at(1), CPUWaitSeconds: at(1)},
	} {
		if got := Judge(u); len(got) != 0 {
			t.Errorf("%s: said %+v", name, got)
		}
	}
}

// TestStarved: who waited for cores is not told that fewer would have done.
func TestStarved(t *testing.T) {
	u := Usage{WallSeconds: 1000, CPUSeconds: at(1000), CoresP95: at(1.2), RequestCores: at(8), CPUWaitSeconds: at(5000)}
	for _, v := range Judge(u) {
		if v.Kind == "cores" && (v.Severity != Info || strings.Contains(v.Text, "would have done")) {
			t.Errorf("said %+v", v)
		}
	}
}

// TestFinite holds for any figures: values are finite, texts are whole, and the gravest
// comes first.
func TestFinite(t *testing.T) {
	f := func(wall, cpu, wait, p95, peak, asked, cores uint32) bool {
		got := Judge(Usage{WallSeconds: float64(wall), CPUSeconds: at(float64(cpu)), CPUWaitSeconds: at(float64(wait)), CoresP95: at(float64(p95)),
			MemoryPeak: at(float64(peak)), RequestMemory: at(float64(asked)), RequestCores: at(float64(cores))})
		for i, v := range got {
			if math.IsNaN(v.Value) || math.IsInf(v.Value, 0) || strings.Contains(v.Text, "%!") || v.Unit == "" || i > 0 && rank(got[i-1].Severity) > rank(v.Severity) {
				t.Logf("%+v", got)
				return false
			}
		}
		return true
	}
	if err := quick.Check(f, nil); err != nil {
		t.Error(err)
	}
}

// TestScale holds that cores and work grown alike give the same share.
func TestScale(t *testing.T) {
	for _, k := range []float64{1, 2, 16, 1024} {
		got := Judge(Usage{WallSeconds: 1000, CPUSeconds: at(250 * 4 * k), CoresP95: at(k), RequestCores: at(4 * k)})
		if len(got) != 1 || math.Abs(got[0].Value-0.25) > 1e-12 {
			t.Errorf("%g: %+v", k, got)
		}
	}
}
