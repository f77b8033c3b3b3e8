package alerting

import "time"

// Group is the state of a group of rules.
type Group struct {
	Name string
	Last time.Time     // evaluation; zero before the first
	Took time.Duration // it
}

// Groups returns the groups of rules.
func (s *Service) Groups() []Group {
	var out []Group
	for _, g := range s.manager.RuleGroups() {
		out = append(out, Group{g.Name(), g.GetLastEvaluation(), g.GetEvaluationTime()})
	}
	return out
}
