// Package scheduler polls the controller of a batch system for facts that only it has: which jobs wait and why, their requests, their
// final states, and the states of the nodes. It runs in one place per cluster, never on every node. A [Source] queries one batch system;
// package all lists them.
//
// For every batch system, states, reasons for an end and node lists use Slurm's words, and the series about nodes and partitions have the
// same names as for Slurm, so that all answers and dashboards work with them.
//
// # How it is read
//
// The queue is read every half minute, accounting every two minutes and only for newly ended jobs, and nodes once a minute. Each query
// has a time limit. After a response that took t, the next query waits for at least 20 t, so that an overloaded controller is queried
// less often. Accounting is queried again for an overlapping window ([Options].Overlap), and by number for each job that left the queue
// without a known end, so that late records are not lost.
//
// # What it writes
//
// A [JobTracker] keeps the runs of jobs and converts them to series: reckon_workload_state, _info, _submit_time_seconds and so on, under
// the same workload ids that the agents use, without the label node. The identity of a run is cluster, id and submit time: a requeued
// job, or an id that wrapped, is another run. Sending a run again sends the same samples, so nothing counts twice.
//
// Pollers, JobTrackers and sources are not safe for concurrent use.
package scheduler
