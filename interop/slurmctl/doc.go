// Package slurmctl polls the controller of a Slurm cluster for what only it knows: which
// jobs wait and why, what each asked for, in which state it ended, and in which state
// the nodes are. It runs at one place of a cluster, never on every node.
//
// # What is read
//
// Either the commands of Slurm, or its REST service by URL:
//
//	jobs in the controller   squeue --json        GET /slurm/VERSION/jobs
//	jobs that ended, steps   sacct --json         GET /slurmdb/VERSION/jobs
//	nodes and partitions     sinfo, scontrol show GET /slurm/VERSION/{nodes,partitions}
//
// JSON is taken where the release writes it (from 21.08 on) and text where not. The
// fields have had other types in each release; what they are is taken from what comes
// and not from a version number (see number, words and exit). In text, fields are parted by
// a string of that call alone, so that no name of a job can look like a record.
//
// # How it is read
//
// squeue every half minute, sacct every two minutes and only what ended since, nodes once
// a minute; each has a time limit, and after an answer that took t the next
// query waits for at least 20 t, so that a controller in trouble is queried less. sacct is
// queried again for a window that was read before ([Options].Overlap), and by number for each
// job that left the queue without a known end: what slurmdbd learns late is not lost.
//
// # What becomes of it
//
// A [JobTracker] keeps the runs of jobs and makes series of them: reckon_workload_state,
// _info, _submit_time_seconds and so on, under the same workload ids that the agents
// use, without the label node. The identity of a run is cluster, id and submit time: a
// requeued job, or an id that wrapped, is another run. To send a run again sends the same
// samples, so nothing counts twice.
//
// A Poller and a JobTracker are used from one goroutine; a source is not safe for concurrent use.
package slurmctl
