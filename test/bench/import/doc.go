// Package importbench measures the cost of importing a million records of sonar, and of querying a
// job among them:
//
//	go test ./test/bench/import -run xxx -bench . -benchtime 1x
//
// TestSonalyze compares totals of jobs with sonalyze's.
package importbench
