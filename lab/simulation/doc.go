// Package simulation drives a simulated site (package simulate) through the real agent: one
// agent for each node, with the resolvers, accounts and attribution that a real machine has,
// and beside them the poller of the batch system's controller. The output goes to a [Sink]:
// by remote write as agents push, or into the store of a data directory.
//
// The time of a site is simulated. A [Fleet] advances it at a given speed, or as fast as the
// machine and the receiver of the samples can; from the same site and intervals it produces
// the same batches, byte by byte, at any speed.
//
// A Fleet is used from one goroutine; internally it works on its nodes from several.
package simulation
