package planted

import (
	"math"
	"slices"
	"time"
)

// over is the mean of something from one time to another.
func over(f func(time.Time) float64, from, until time.Time) float64 {
	sum, n := 0.0, 0.0
	for at := from.Add(plantedStep / 2); at.Before(until); at = at.Add(plantedStep) {
		sum, n = sum+f(at), n+1
	}
	return sum / n
}

// loadsOf are the loads that a subject of a forecast has: the loads of a machine, of an owner, of a service, or all.
func (p *plan) loadsOf(node, owner, name string) (out []*load) {
	for _, m := range p.machines {
		for _, l := range m.loads {
			pod := l.pod != nil && name == "cart"
			if (node == "" || m.name == node) && (owner == "" || plantedUsers[l.uid] == owner) && (name == "" || l.comm == name || pod) {
				out = append(out, l)
			}
		}
	}
	return out
}

// coresOf and bytesOf are the use of loads at a time.
func coresOf(list []*load) func(time.Time) float64 {
	return func(t time.Time) (sum float64) {
		for _, l := range list {
			if l.runs(t) {
				sum += l.cores(t)
			}
		}
		return sum
	}
}

func bytesOf(list []*load) func(time.Time) float64 {
	return func(t time.Time) (sum float64) {
		for _, l := range list {
			if l.runs(t) {
				sum += l.bytes(t)
			}
		}
		return sum
	}
}

// runs reports whether a load runs; batch jobs of days to come do as the ones before.
func (l *load) runs(t time.Time) bool {
	return !t.Before(l.from) && (l.until.IsZero() || t.Before(l.until))
}

// idle are the bytes that a machine uses beside its loads.
const idleBytes = 1e9

// wattsOf is the power of a machine over time, of processors and GPUs.
func (m *machineSpec) wattsOf() func(time.Time) float64 {
	cores := coresOf(m.loads)
	return func(t time.Time) float64 {
		w := m.watts(cores(t)) + gpuIdle*float64(m.gpus)
		for _, l := range m.loads {
			if l.gpus > 0 && l.runs(t) {
				w += gpuWork * l.busy * float64(l.gpus)
			}
		}
		return w
	}
}

// adds is the power that so many cores more add to a machine at a time.
func (m *machineSpec) adds(at time.Time, cores float64) float64 {
	now := coresOf(m.loads)(at)
	return m.watts(now+cores) - m.watts(now)
}

// day is the greatest of something over the hours of the last days.
func greatest(f func(time.Time) float64, until time.Time, days int) float64 {
	most := 0.0
	for at := until.AddDate(0, 0, -days); at.Before(until); at = at.Add(plantedStep) {
		most = math.Max(most, f(at))
	}
	return most
}

// quantities are all numbers of the sentences in the list.
func (p *plan) quantities() map[string]quantity {
	at := p.now
	hour := p.hour
	q := map[string]quantity{}
	unit := func(name string) (*load, func(time.Time) float64) {
		l := p.loadsOf("", "", name)[0]
		return l, l.cores
	}
	// Advice. The rule of the advice is not planted: it is at least what was used, with the room that the guide states.
	for _, name := range []string{"web", "fifth", "hush"} {
		l, cores := unit(name)
		end, days := at, float64(plantedDays)
		if name == "hush" {
			end, days = p.of("hush1").silent, plantedDays-1
		}
		most, peak := greatest(cores, end, plantedDays), greatest(l.bytes, end, 14)
		mean := over(cores, end.AddDate(0, 0, -14), end)
		q[name+".cores"] = from(most*0.97, most*1.1)
		q[name+".p95"] = from(0.95*percentile(cores, end, 0.95), 1.1*percentile(cores, end, 0.95))
		q[name+".p99"] = from(0.95*percentile(cores, end, 0.99), 1.1*percentile(cores, end, 0.99))
		q[name+".days"] = from(days-1, days) // one had no sample
		q[name+".above"] = from(0, 0.01)
		q[name+".slack"] = from(1-mean/(most*0.97)-0.01, 1-mean/(most*1.1)+0.01)
		q[name+".memory"] = from(peak, 1.15*peak)
		q[name+".limit"] = from(peak/(1<<20), 1.15*peak/(1<<20)+256) // in M, rounded up
		q[name+".peak"] = near(peak, 0.01)
		q[name+".room"] = from(0, 0.15)
	}
	q["half"] = near(0.5, 0)
	cart := p.loadsOf("", "", "cart")
	peak := math.Max(greatest(cart[0].bytes, at, 14), greatest(cart[1].bytes, at, 14))
	either := func(t time.Time) float64 { return math.Max(cart[0].cores(t), cart[1].cores(t)) }
	busiest, idle := greatest(either, at, plantedDays), over(cart[0].cores, at.AddDate(0, 0, -14), at)
	q["cart.cores"], q["cart.p95"] = from(busiest*0.97, busiest*1.1), from(0.93*busiest, 1.1*busiest)
	q["cart.days"], q["cart.above"] = from(plantedDays-1, plantedDays), from(0, 0.01)
	q["cart.slack"], q["cart.idle"] = from(0, 1-idle/(busiest*1.1)+0.02), near(1-idle/2, 0.02)
	q["cart.asked"] = near(2, 0)
	q["cart.memory"], q["cart.peak"], q["cart.room"] = from(peak, 1.15*peak), near(peak, 0.01), from(0, 0.15)
	q["cart.limit"] = from(peak/(1<<20), 1.15*peak/(1<<20))
	q["cart.now"] = from(1-peak/gib-0.01, 1-0.98*peak/gib/1.02+0.02)
	q["fresh.memory"], q["fresh.needed"], q["fresh.p95"], q["fresh.cores"] = near(1.2*gib, 0.05), near(gib, 0.03), from(3, 3.15), from(3, 4)
	q["zero"], q["14"] = near(0, 0), near(14, 0)
	q["hush.at"] = quantity{text: p.of("hush1").silent.Format("2006-01-02 15:04")}
	runs := map[string]float64{}
	for _, j := range p.jobs {
		if at.Sub(j.start) < 30*24*time.Hour {
			runs[j.name]++
		}
	}
	for name, j := range map[string]*plantedJob{"sim": p.last("sim"), "train": p.last("train")} {
		n := math.Min(runs[name], 20)
		q[name+".runs"] = from(n-2, n) // runs in the gap are not judged
		q[name+".memory"], q[name+".needed"] = near(1.2*j.peak, 0.03), near(j.peak, 0.01)
		q[name+".mem"], q[name+".cores"] = from(1.2*j.peak/(1<<20), 1.2*j.peak/(1<<20)+1024), near(j.used, 0)
		length := j.end.Sub(j.start).Seconds()
		q[name+".length"], q[name+".time"] = near(length, 0), near(1.25*length, 0.01)
		q[name+".gpus"], q[name+".busy"] = near(float64(j.gpus), 0), near(float64(j.gpus)*0.5, 0.02)
		q[name+".energy"] = from(100*3600, 400*3600)
	}
	q["ratio"] = from(0, 0.02)
	// Anomalies.
	leaky, _ := unit("leaky")
	last := over(leaky.bytes, hour.Add(-time.Hour), hour)
	q["leak"] = near(6*gib/48, 0.03)
	q["leak.limit"], q["leak.left"] = near(16*gib, 0), near((16*gib-last)/(6*gib/48)*3600, 0.03)
	small1 := over(bytesOf(p.of("small1").loads), hour.Add(-time.Hour), hour) + idleBytes
	q["small1.limit"], q["small1.left"] = near(32*gib, 0), near((32*gib-small1)/(6*gib/48)*3600, 0.03)
	q["leak.since"] = p.since(hour.Add(-48 * time.Hour))
	q["surge.cores"], q["surge.usual"], q["surge.since"] = near(5, 0.02), near(1, 0.02), p.since(hour.Add(-8*time.Hour))
	q["away.cores"], q["away.usual"], q["away.since"] = near(0.02, 0.05), near(2, 0.02), p.since(hour.Add(-14*time.Hour))
	q["grown.cores"], q["grown.usual"], q["grown.since"] = near(1.8, 0.03), near(1, 0.03), p.since(hour.Add(-30*time.Hour))
	q["small2.cores"], q["small2.usual"] = near(2.3, 0.03), near(1.5, 0.03)
	q["big2.cores"], q["big2.usual"] = near(7, 0.15), near(3, 0.3)
	// Ranks and places.
	for _, m := range p.machines {
		now := coresOf(m.loads)(at)
		q[m.name+".adds"] = from(0.6*m.adds(at, 4), 1.3*m.adds(at, 4)) // a line is under the curve
		q[m.name+".room"] = from(1-(now+4)/float64(m.cores)-0.35, 1-(now*0.97+4)/float64(m.cores))
		q[m.name+".room0"] = from(1-now/float64(m.cores)-0.35, 1-now*0.97/float64(m.cores))
		q[m.name+".size"], q[m.name+".bytes"] = near(float64(m.cores), 0), near(m.memory, 0)
		q[m.name+".gpus"] = near(float64(m.gpus), 0)
	}
	worst := math.Max(q["big1.adds"].high, q["big2.adds"].high)
	q["worst.adds"] = from(math.Min(q["big1.adds"].low, q["big2.adds"].low), worst)
	for i := range 7 {
		q[string(rune('0'+i))] = near(float64(i), 0)
	}
	like := func(node string, cores, memory float64) (n float64) {
		for _, j := range p.jobs {
			if j.node == node && j.cores >= cores/2 && j.cores <= cores*2 && j.memory >= memory/2 && j.memory <= memory*2 {
				n++
			}
		}
		return n
	}
	all := like("big1", 16, 64*gib) + like("big2", 16, 64*gib)
	q["like.big"], q["like.gpu"] = from(all-1, all), from(like("gpu1", 16, 64*gib)-1, like("gpu1", 16, 64*gib))
	return q
}

// last is the last job with a name that has ended.
func (p *plan) last(name string) (out *plantedJob) {
	for _, j := range p.jobs {
		if j.name == name && (out == nil || j.start.After(out.start)) {
			out = j
		}
	}
	return out
}

// percentile is the use that is not passed in a share of the time.
func percentile(f func(time.Time) float64, until time.Time, share float64) float64 {
	var all []float64
	for at := until.AddDate(0, 0, -plantedDays); at.Before(until); at = at.Add(plantedStep) {
		all = append(all, f(at))
	}
	slices.Sort(all)
	return all[int(share*float64(len(all)-1))]
}
