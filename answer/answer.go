// Package answer answers questions, one file a question: about one job (job, advice,
// verdict, scale), where a job would fit (fit), what was used (usage), what nodes do and
// have free (nodes, capacity), misuse (findings), power (power) and tables of series (data).
//
// Answers are made of what packages query and analysis give and of what a store keeps.
// They know neither HTTP nor an implementation of a store: what they read of the series
// and of the catalogue stands beside each as an interface. The types of answers are those
// of package client. Figures are in SI base units, times in UTC; what is unknown is nil.
//
// A question that has no answer ends in an [Error], which says why and what to do. Other
// errors are faults of a store. Everything here is safe for concurrent use, and reads no
// clock but the one that it was given.
package answer
