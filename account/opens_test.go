package account

import (
	"testing"

	"reckon/sensor"
)

// TestGPUOpens: what a device computed while no list named anybody was computed by who opened it, and nobody is charged for having
// looked where somebody else can have done it.
func TestGPUOpens(t *testing.T) {
	const node, another = 195 << 20, 195<<20 | 1
	stays, first, second2 := proc(10, 10, 5*second, 0), proc(20, 20, 1000*second, 2*second), proc(30, 30, 1000*second, 2*second)
	type processes = []sensor.Process
	opens := func(pids ...int32) (out []sensor.Open) {
		for _, p := range pids {
			out = append(out, sensor.Open{PID: p, Node: node})
		}
		return out
	}
	context := []sensor.GPUUse{{PID: 10, Device: "g", Have: sensor.GPUMemory, Memory: 1}}
	counted := []sensor.GPUUse{{PID: 10, Device: "g", Have: both, Busy: 0.5, Memory: 1}}
	for name, c := range map[string]struct {
		live, ended    processes
		opens          []sensor.Open
		uses           []sensor.GPUUse
		node           uint32
		a, b, c, other float64 // measured of 10; of 20, of 30; measured of other
		method         string  // of 20 and 30
	}{
		"ended":                 {processes{stays}, processes{first}, opens(20), nil, node, 0, 0.9, 0, 0, "measured"},
		"two ended":             {processes{stays}, processes{first, second2}, opens(20, 30), nil, node, 0, 0.45, 0.45, 0, "measured-equally"},
		"lives":                 {processes{stays, first}, nil, opens(20), nil, node, 0, 0.9, 0, 0, "measured"},
		"one lives":             {processes{stays, second2}, processes{first}, opens(20, 30), nil, node, 0, 0.9, 0, 0, "measured"},
		"no open":               {processes{stays}, processes{first}, nil, nil, node, 0, 0, 0, 0.9, "measured"},
		"another device":        {processes{stays}, processes{first}, opens(20), nil, another, 0, 0, 0, 0.9, "measured"},
		"no device file":        {processes{stays}, processes{first}, opens(20), nil, 0, 0, 0, 0, 0.9, "measured"},
		"another has a context": {processes{stays}, processes{first}, opens(20), context, node, 0.9, 0, 0, 0, "measured"},
		"looks on":              {processes{stays, first}, nil, opens(20), counted, node, 0.9, 0, 0, 0, "measured"},
		"took the rest":         {processes{stays}, processes{first}, opens(20), counted, node, 0.5, 0.4, 0, 0, "measured-equally"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{})
			device := func(busy float64) []sensor.GPU {
				g := gpuOf("g", busy)
				g.Nodes[0] = c.node
				return []sensor.GPU{g}
			}
			quiet := still(c.uses)
			r.tick(0, processes{stays})
			r.gpu(device(0), quiet...)
			r.pass.Opens = c.opens
			r.tick(0, c.live, c.ended...)
			r.pass.Opens = nil
			r.gpu(device(0.9), c.uses...)
			for range 3 { // what the first could not report
				r.tick(0, processes{stays})
				r.gpu(device(0), quiet...)
			}
			r.export()
			r.want("10", r.gpuSeconds("group/n1/10", "alice", "g", "measured"), c.a)
			r.want("20", r.gpuSeconds("group/n1/20", "alice", "g", c.method), c.b)
			r.want("30", r.gpuSeconds("group/n1/30", "alice", "g", c.method), c.c)
			r.want("other", r.gpuSeconds("other/n1", "root", "g", "measured"), c.other)
			r.want("busy", r.values["reckon_node_gpu_seconds_total|nvidia|g|busy"], 0.9)
		})
	}
}

// TestGPUOpensEnd: an open does not count for ever, and not beyond the reading of its end, also where that came late.
func TestGPUOpensEnd(t *testing.T) {
	const node = 226<<20 | 128
	p, q := proc(10, 10, 5*second, 0), proc(20, 20, 1000*second, 2*second)
	device := func(busy, span float64) []sensor.GPU {
		g := gpuOf("g", busy)
		g.Span, g.Nodes[1] = span, node
		return []sensor.GPU{g}
	}
	r := newRig(t, Config{})
	r.tick(0, []sensor.Process{p})
	r.gpu(device(0, 1))
	r.pass.Opens = []sensor.Open{{PID: 20, Node: node}}
	r.tick(0, []sensor.Process{p}, q)
	r.pass.Opens = nil
	r.gpu(device(0, 0)) // no answer yet
	r.tick(0, []sensor.Process{p})
	r.gpu(device(0.5, 2))
	r.tick(0, []sensor.Process{p})
	r.gpu(device(0.25, 1)) // its counters lag
	r.tick(0, []sensor.Process{p})
	r.gpu(device(0.25, 1)) // nobody's
	r.gpu(device(0, 1))
	r.export()
	r.want("20", r.gpuSeconds("group/n1/20", "alice", "g", "measured"), 0.75)
	r.want("other", r.gpuSeconds("other/n1", "root", "g", "measured"), 0.25)
	r.pass.Opens = []sensor.Open{{PID: 10, Node: node}}
	for i := range 100 {
		r.tick(0, []sensor.Process{p})
		r.pass.Opens = nil
		r.gpu(device(float64(i/99), 1))
	}
	r.gpu(device(0, 1))
	r.export()
	r.want("10", r.gpuSeconds("group/n1/10", "alice", "g", "measured"), 0)
	r.want("other", r.gpuSeconds("other/n1", "root", "g", "measured"), 1.25)
}
