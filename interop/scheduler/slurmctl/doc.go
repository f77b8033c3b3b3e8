// Package slurmctl is the source of package scheduler for Slurm.
//
// # What is read
//
// Either the commands of Slurm, or its REST service by URL:
//
//	jobs in the controller   squeue --json        GET /slurm/VERSION/jobs
//	jobs that ended, steps   sacct --json         GET /slurmdb/VERSION/jobs
//	nodes and partitions     sinfo, scontrol show GET /slurm/VERSION/{nodes,partitions}
//
// JSON is used if the release supports it (from 21.08 on), otherwise text. The types of fields differ between releases; they are
// determined from the data and not from a version number (see number, words and exit). In text, fields are separated by a string unique
// to the call, so that no name of a job can look like a record.
//
// Sources are not safe for concurrent use.
package slurmctl
