// Package answer answers questions about one job (job, advice, verdict, scale), where a job would
// fit (fit), past usage (usage), the state and free capacity of nodes (nodes, capacity), misuse
// (findings), power (power) and tables of series (data).
//
// Answers combine results of packages query and analysis with stored rows. They depend neither on
// HTTP nor on an implementation of a store: the interfaces to the series and the catalogue are
// declared next to their users. The types of answers are in package client. Figures are in SI
// base units, times in UTC; unknown figures are nil.
//
// A question that cannot be answered returns an [Error] with the reason and a remedy. Other errors
// are failures of a store. Everything here is safe for concurrent use, and uses only the clock it
// was given.
package answer
