// Package slurmctl polls the controller of a Slurm cluster for facts that only it has: which
// jobs wait and why, their requests, their final states, and the states of
// the nodes. It runs in one place per cluster, never on every node.
//
// # What is read
//
// Either the commands of Slurm, or its REST service by URL:
//
//	jobs in the controller   squeue --json        GET /slurm/VERSION/jobs
//	jobs that ended, steps   sacct --json         GET /slurmdb/VERSION/jobs
//	nodes and partitions     sinfo, scontrol show GET /slurm/VERSION/{nodes,partitions}
//
// JSON is used if the release supports it (from 21.08 on), otherwise text. The types of
// fields differ between releases; they are determined from the data
// and not from a version number (see number, words and exit). In text, fields are separated by
// a string unique to the call, so that no name of a job can look like a record.
//
// # How it is read
//
// squeue every half minute, sacct every two minutes and only for newly ended jobs, nodes once
// a minute; each has a time limit, and after a response that took t the next
// query waits for at least 20 t, so that a controller in trouble is queried less. sacct is
// queried again for an overlapping window ([Options].Overlap), and by number for each
// job that left the queue without a known end, so that nothing is lost that slurmdbd receives late.
//
// # What it writes
//
// A [JobTracker] keeps the runs of jobs and converts them to series: reckon_workload_state,
// _info, _submit_time_seconds and so on, under the same workload ids that the agents
// use, without the label node. The identity of a run is cluster, id and submit time: a
// requeued job, or an id that wrapped, is another run. Sending a run again sends the same
// samples, so nothing counts twice.
//
// Pollers, JobTrackers and sources are not safe for concurrent use.
package slurmctl
