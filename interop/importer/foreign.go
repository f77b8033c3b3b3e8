package importer

import (
	"bytes"
	"regexp"
	"strconv"
)

// foreignHead is the number of bytes of an input that are inspected.
const foreignHead = 16 << 10

var (
	// pbsLine matches a record of PBS Professional, OpenPBS and Torque: time;type;id;attributes.
	pbsLine = regexp.MustCompile(`^\d\d/\d\d/\d{4} \d\d:\d\d:\d\d(\.\d+)?;[A-Za-z];[^;]*;`)
	// lsfLine matches an event of lsb.acct (lsb.acct(5)): "type" "version" time.
	lsfLine = regexp.MustCompile(`^"[A-Z_]+" "[0-9.]+" \d+ `)
)

// gridFields is the minimum number of fields of a record of accounting(5) of Grid Engine, and
// gridNumbers are the numeric ones: job number, priority, and the times of the job.
const gridFields = 30

var gridNumbers = []int{5, 7, 8, 9, 10}

// foreign returns the batch system that wrote the accounting in an input; empty if it is not
// recognised.
func foreign(head []byte) string {
	for line := range bytes.Lines(head) {
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case len(line) == 0 || line[0] == '#':
			continue
		case pbsLine.Match(line):
			return "PBS or Torque"
		case lsfLine.Match(line):
			return "LSF"
		}
		return gridEngine(bytes.Split(line, []byte(":")))
	}
	return ""
}

// gridEngine distinguishes Sun Grid Engine and its derivatives from Univa's, which writes milliseconds.
func gridEngine(fields [][]byte) string {
	if len(fields) < gridFields {
		return ""
	}
	for _, i := range gridNumbers {
		if _, err := strconv.ParseInt(string(fields[i]), 10, 64); err != nil {
			return ""
		}
	}
	if submit, err := strconv.ParseInt(string(fields[8]), 10, 64); err == nil && submit > 1e11 {
		return "Univa Grid Engine (UGE, Altair Grid Engine)"
	}
	return "Grid Engine (SGE)"
}
