package account

import (
	"fmt"
	"testing"
	"time"
)

// TestOneSeenOfMany: of many children that one parent starts one after the other, each in a group of its own, a reading sees one,
// which is charged with at most as much again as it used by then, and a slack. One child that used as much, where nothing else began, is.
func TestOneSeenOfMany(t *testing.T) {
	const each = second / 25
	for seen := range 3 { // how far the one that is seen has come
		r := newRig(t, Config{Export: 15 * time.Second})
		k := newKin(10 * second)
		shell := k.fork(1, true, 20*second)
		r.step(k, 0)
		r.step(k, 0)
		got := map[int32]float64{}
		export := func() { // each second, so that they are not folded into short work
			r.export()
			for c := range got {
				got[c] = max(got[c], r.cpu(fmt.Sprintf("group/n1/%d", c), "", "alice"))
			}
		}
		for range 4 {
			for range 23 {
				c := k.fork(shell, true, r.boot)
				k.run(c, each)
				k.end(c)
			}
			c := k.fork(shell, true, r.boot+second-each)
			got[c] = 0
			k.run(c, each*uint64(seen)/2)
			r.step(k, 0)
			export()
			k.run(c, each-each*uint64(seen)/2)
			k.end(c)
		}
		r.step(k, 0)
		export()
		r.step(k, 0)
		export()
		sum := r.cpu("short/alice/n1", "", "alice") + r.cpu(fmt.Sprintf("group/n1/%d", shell), "", "alice")
		for _, v := range got {
			if sum += v; v > float64(2*each+tailSlack)/1e9+1e-9 {
				t.Errorf("seen at %d/2: a group has %.3f s, want about %.3f", seen, v, float64(each)/1e9)
			}
		}
		about(t, "all groups", sum, 4*24*float64(each)/1e9)
	}
	for _, others := range []bool{false, true} {
		r := newRig(t, Config{Export: 15 * time.Second})
		k := newKin(10 * second)
		shell := k.fork(1, true, 20*second)
		r.step(k, 0)
		r.step(k, 0)
		c := k.fork(shell, true, r.boot+second*9/10)
		k.run(c, second/100)
		r.step(k, 0)
		r.export()
		if k.run(c, second*3/4); others {
			k.end(k.fork(1, true, r.boot))
		}
		k.end(c)
		r.step(k, 0)
		got := r.group(c)
		r.step(k, 0)
		if got = max(got, r.group(c)); others && got > 0.06 || !others && (got < 0.74 || got > 0.78) {
			t.Errorf("with something that nobody saw (%t), the group has %.3f s", others, got)
		}
	}
}
