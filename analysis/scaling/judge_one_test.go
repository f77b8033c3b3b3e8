package scaling

// Judge returns the verdicts on one run, the most severe first.
func Judge(u Use) []Verdict {
	j := judge{u: u}
	j.one()
	return j.sorted()
}
