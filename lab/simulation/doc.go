// Package simulation drives a made-up site (package simulate) through the real agent: one
// agent for each node, with the resolvers, accounts and attribution that a real machine has,
// and the reader of the batch system's controller beside them. What comes out goes to a
// [Sink]: by remote write as agents push, or into the store of a data directory.
//
// The time of a site is simulated. A [Fleet] moves it as fast as it is told to, or as fast as
// the machine and the receiver of the samples can; from the same site and intervals it makes
// the same batches, byte by byte, however fast.
//
// A Fleet is used from one goroutine; it works on its nodes from several.
package simulation
