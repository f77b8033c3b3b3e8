package agent

import (
	"fmt"
	"testing"
	"time"

	"reckon/internal/kubelet"
)

func asking(uid, rate string) *kubelet.Pod {
	return &kubelet.Pod{ReportedUID: uid, Phase: "Running", Annotations: map[string]string{rateAnnotation: rate}}
}

func TestRateOf(t *testing.T) {
	for rate, want := range map[string]time.Duration{
		"": 0, "1s": time.Second, "999ms": time.Second, "1ns": time.Second, "2.5s": 2500 * time.Millisecond, "14.999s": 14999 * time.Millisecond, "15s": 0, "1h": 0, "-1s": 0, "0": 0, "fast": 0, "1": 0,
	} {
		if got := requestedInterval(asking("a", rate), 15*time.Second); got != want {
			t.Errorf("%q: %s, want %s", rate, got, want)
		}
	}
}

// TestPodRates: pods come due by their own clocks, on a grid, and the twentieth is the last; who has it keeps it.
func TestPodRates(t *testing.T) {
	var r fastPods
	start := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	pods := []*kubelet.Pod{asking("slow", "3s"), asking("quick", "1s"), {ReportedUID: "other", Phase: "Running"}}
	times := map[string]int{}
	for sec := range 13 {
		now := start.Add(time.Duration(sec)*time.Second + 7*time.Millisecond)
		r.setPods(pods, 15*time.Second, now)
		for uid := range r.duePods(now) {
			times[uid]++
		}
	}
	if times["quick"] != 13 || times["slow"] != 5 || times["other"] != 0 {
		t.Errorf("due %v", times)
	}
	// After a pause nothing is made up for.
	later := start.Add(time.Minute)
	if n := len(r.duePods(later)) + len(r.duePods(later)); n != 2 {
		t.Errorf("%d after a pause", n)
	}
	for i := range 19 {
		pods = append(pods, asking(fmt.Sprint("more", i), "1s"))
	}
	r.setPods(pods, 15*time.Second, later)
	if len(r.pods) != 20 || r.left != 1 || r.pods["slow"] == nil {
		t.Errorf("%d pods, %d left", len(r.pods), r.left)
	}
	pods[1].Phase = "Succeeded"
	r.setPods(pods, 15*time.Second, later)
	if len(r.pods) != 20 || r.left != 0 || r.pods["quick"] != nil {
		t.Errorf("%d pods, %d left, after one has ended", len(r.pods), r.left)
	}
}
