// Package importbench measures what it costs to import a million records of sonar, and to
// ask for a job of them:
//
//	go test ./test/bench/import -run xxx -bench . -benchtime 1x
//
// TestSonalyze holds totals of jobs beside sonalyze's.
package importbench
