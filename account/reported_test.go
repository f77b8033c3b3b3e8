package account

import (
	"strings"
	"testing"

	"reckon/sensor"
	"reckon/workload"
)

// TestEndedContainerIsReported: the exit of a container is exported until its pod is gone or another replaces it, and
// then each series has one end; measured series end with the container.
func TestEndedContainerIsReported(t *testing.T) {
	const of = "|deployment/shop/cart|deployment|cart-a/app|shop"
	for name, after := range map[string]string{"deleted": "", "begun again": "d"} {
		t.Run(name, func(t *testing.T) {
			r, c, running := pods(t, 1, false, workload.Amounts{})
			r.tick(0, running(0))
			r.export()
			f := c.reports["a/c"]
			f.Ended, f.EndedID, f.ExitCode, f.Reason, f.Waiting = true, f.ID, 3, "Error", "CrashLoopBackOff"
			sandbox := running(0)[1:]
			c.containers[10].removed = true
			for i := range 20 {
				r.tick(0, sandbox)
				r.export()
				if r.values["reckon_container_exit_code"+of+"|Error"] != 3 || r.values["reckon_container_waiting"+of+"|CrashLoopBackOff"] != 1 {
					t.Fatalf("export %d: %v", i, only(r.values, of))
				}
			}
			for k := range r.values {
				if strings.HasPrefix(k, "reckon_workload_cpu_seconds_total"+of) {
					t.Errorf("%s is still there", k)
				}
			}
			if after == "" {
				delete(c.reports, "a/c")
			} else {
				c.containers[10] = &box{uid: "a", id: after, workload: "deployment/shop/cart", part: "cart-a/app"}
				// It runs, and the supervisor has its end only: that remains until it reports the new run.
				c.reports["a/d"] = &workload.ContainerFacts{Namespace: "shop", Pod: "cart-a", UID: "a", ID: "d"}
				r.tick(0, append([]sensor.Process{in(10, 10, r.boot+1, second/2)}, sandbox...))
				r.export()
				if r.values["reckon_container_exit_code"+of+"|Error"] != 3 || r.values["reckon_container_waiting"+of+"|CrashLoopBackOff"] != 1 {
					t.Errorf("begun and not reported yet: %v", only(r.values, of))
				}
				c.reports["a/d"] = &workload.ContainerFacts{Namespace: "shop", Pod: "cart-a", UID: "a", ID: "d", Name: "app", Type: "main", Restarts: 1, Running: true}
				delete(c.reports, "a/c")
			}
			for range 3 {
				if after == "" {
					r.tick(0, sandbox)
				} else {
					r.tick(0, append([]sensor.Process{in(10, 10, r.boot+1, second)}, sandbox...))
				}
				r.export()
			}
			got := only(r.values, of)
			infos := 0
			for k := range got {
				if strings.HasPrefix(k, "reckon_container_info"+of) {
					infos++
				}
			}
			if infos != map[bool]int{true: 1}[after != ""] {
				t.Errorf("%d reckon_container_info: %v", infos, got)
			}
			if _, ended := got["reckon_container_exit_code"+of+"|Error"]; ended || len(r.l.parts.reported) != 0 {
				t.Errorf("it is still exported: %v", got)
			}
			if v, ok := got["reckon_container_running"+of]; ok != (after != "") || v != map[bool]float64{true: 1}[ok] {
				t.Errorf("running is %v, %v: %v", v, ok, got)
			}
		})
	}
}

func cartPart(part string) *workload.Identity {
	return &workload.Identity{Workload: "deployment/shop/cart", Part: part, Owner: "shop"}
}

// TestEndedBefore: a ledger created after the end of a container continues its report once it is listed, beside no
// account of the same name, until the supervisor stops reporting it.
func TestEndedBefore(t *testing.T) {
	const of = "|deployment/shop/cart|deployment|cart-a/gone|shop"
	r, c, running := pods(t, 1, false, workload.Amounts{})
	r.tick(0, running(0))
	f := &workload.ContainerFacts{Namespace: "shop", Pod: "cart-a", UID: "a", Name: "gone", Type: "init", ID: "g", Ended: true, EndedID: "g", ExitCode: 7, Reason: "Error"}
	c.reports["a/g"] = f
	r.l.Report(cartPart("cart-a/gone"), "a/g", f)
	r.l.Report(cartPart("cart-a/app"), "a/c", c.reports["a/c"]) // has an account
	if !r.l.Reports(cartPart("cart-a/gone")) || r.l.Reports(cartPart("cart-a/app")) {
		t.Fatalf("reports on %v", r.l.parts.reported)
	}
	for range 3 {
		r.export()
		if got := only(r.values, of); got["reckon_container_exit_code"+of+"|Error"] != 7 || len(only(r.values, "|cart-a/gone|")) != len(got) || len(got) != 5 {
			t.Fatalf("%v", got)
		}
		r.tick(0, running(0))
		r.l.Report(cartPart("cart-a/gone"), "a/g", f)
	}
	delete(c.reports, "a/g")
	r.export()
	r.export()
	if got := only(r.values, of); len(got) > 0 || r.l.Reports(cartPart("cart-a/gone")) {
		t.Errorf("after the pod was deleted: %v", got)
	}
}

// only returns the series of a part.
func only(all map[string]float64, of string) map[string]float64 {
	out := map[string]float64{}
	for k, v := range all {
		if strings.Contains(k, of) {
			out[k] = v
		}
	}
	return out
}
