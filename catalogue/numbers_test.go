package catalogue

import (
	"testing"

	"reckon/metric"
)

var simNumber = desc(numberInfo, metric.Gauge, "number")

// numbered writes that a job has a number.
func (c *cluster) numbered(at int, id, number string) {
	c.t.Helper()
	b := metric.Batch{Time: sec(at)}
	b.Add(metric.NewSeries(simNumber, id, "slurm", "", "alice", number), 1)
	b.Samples[0].Last = true
	if err := c.s.Append(c.t.Context(), map[string]string{"site": "x"}, &b); err != nil {
		c.t.Fatal(err)
	}
}

// A node that knows a task of an array by its number alone, and the batch system that reports the task: one job, one row, in
// whatever order they come.
func TestNumbers(t *testing.T) {
	c := newCluster(t)
	c.measures(30, "n1", "slurm/4", 20, 21, 1)
	c.at(31, "slurm/4  ?-20.25-21 1")
	c.numbered(40, "slurm/3_1", "4")
	c.says(40, "slurm/3_1", "completed", 18, 20, 21)
	c.at(41, "slurm/3_1 completed 18-20-21 1")
	c.measures(45, "n1", "slurm/4", 20, 21, 1) // sent again
	c.at(46, "slurm/3_1 completed 18-20-21 1")

	c.numbered(50, "slurm/3_2", "5") // known first
	c.says(50, "slurm/3_2", "failed", 18, 42, 43)
	c.measures(60, "n1", "slurm/5", 42, 43, 2)
	c.at(61, "slurm/3_1 completed 18-20-21 1", "slurm/3_2 failed 18-42-43 2")

	// The last task has the number of the array, under which its waiting part was reported.
	c.says(62, "slurm/3", "started", 18, 0, 65)
	c.measures(75, "n1", "slurm/3", 64, 66, 3)
	c.numbered(80, "slurm/3_3", "3")
	c.says(80, "slurm/3_3", "completed", 18, 64, 66)
	c.at(81, "slurm/3_1 completed 18-20-21 1", "slurm/3_2 failed 18-42-43 2", "slurm/3_3 completed 18-64-66 3", "slurm/3 started 18-65-65 ?")
	c.at(4000, "slurm/3_1 completed 18-20-21 1", "slurm/3_2 failed 18-42-43 2", "slurm/3_3 completed 18-64-66 3", "slurm/3 started 18-65-65 ?")
}

// The scheduler reports the task when the builder has long forgotten what nodes observed.
func TestNumberReportedLate(t *testing.T) {
	c := newCluster(t)
	c.measures(30, "n1", "slurm/4", 20, 21, 1)
	c.at(31, "slurm/4  ?-20.25-21 1")
	c.at(3000, "slurm/4  ?-20.25-21 1")
	c.now = sec(3100)
	c.numbered(3100, "slurm/3_1", "4")
	c.says(3100, "slurm/3_1", "completed", 18, 20, 21)
	c.at(3101, "slurm/3_1 completed 18-20-21 1")
}

// What ended in the second in which it began ended before that, where a node has its end in whole seconds. What another node begins
// later is another run, whether both are read at once or not.
func TestEndedBeforeItBegan(t *testing.T) {
	c := newCluster(t)
	h := &jobHistory{id: "slurm/4", lives: []life{{start: 5, end: 6, began: 6.25, node: "n1"}, {start: 127, end: 128, began: 126.25, node: "n2"}}}
	rows := []string{"slurm/4  ?-6.25-6.25 1", "slurm/4  ?-126.25-128 4"}
	for i, at := range []int{16, 136} {
		h.measured(i, at, 0)
		if err := c.s.Append(t.Context(), h.arrivals[i].labels, &h.arrivals[i].batch); err != nil {
			t.Fatal(err)
		}
		c.at(at, rows[:i+1]...)
	}
}

// The batch system reports a task when it is over, to a builder that was started since. That reads again what nodes sent late, and
// takes it for no other job.
func TestNumberOfLateSamples(t *testing.T) {
	c := newCluster(t)
	c.says(20, "slurm/3_1", "pending", 5, 0, 0)
	c.numbered(20, "slurm/3_1", "4")
	c.says(175, "slurm/9", "pending", 175, 0, 0)
	c.measures(45, "n1", "slurm/4", 35, 0, 1)
	c.now = sec(175)
	advance(t, c.b)
	c.says(190, "slurm/9", "pending", 175, 0, 0)
	c.measures(60, "n1", "slurm/4", 35, 55, 2)
	c.now = sec(190)
	advance(t, c.b)
	if err := c.b.Save(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.b = c.builder()
	c.says(365, "slurm/3_1", "completed", 5, 35, 55)
	c.at(455, "slurm/3_1 completed 5-35-55 2", "slurm/9 pending 175-175-? ?")
}

// A number that was given again after a day is of another job.
func TestNumberOfAnotherDay(t *testing.T) {
	const day = 24 * 3600
	c := newCluster(t)
	c.numbered(50, "slurm/3_1", "4")
	c.says(50, "slurm/3_1", "completed", 18, 42, 43)
	c.measures(60, "n1", "slurm/4", 42, 43, 2)
	c.at(61, "slurm/3_1 completed 18-42-43 2")
	c.now = sec(day)
	c.measures(day, "n1", "slurm/4", day-20, day-10, 5)
	c.now = sec(day + 1)
	advance(t, c.b)
	if got := c.lines(); len(got) != 2 {
		t.Errorf("%q", got)
	}
}
