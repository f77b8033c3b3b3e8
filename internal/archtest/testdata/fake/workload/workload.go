// Package workload keeps to its rules.
package workload
